{{ config(materialized=var('totals')) }}
select day, sum(amount) as total, count(*) as orders
from {{ ref('orders') }}
group by day
