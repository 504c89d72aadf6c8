select day, total from {{ ref('daily_totals') }} where total > 10
