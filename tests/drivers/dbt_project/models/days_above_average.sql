{{ config(materialized='view') }}
select day from {{ ref('daily_totals') }} where total > (select avg(total) from {{ ref('daily_totals') }})
