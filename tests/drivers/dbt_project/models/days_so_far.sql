{{ config(materialized='incremental', incremental_strategy='append') }}
select day, total from {{ ref('daily_totals') }}
{% if is_incremental() %} where day not in (select day from {{ this }}) {% endif %}
