{{ config(schedule='every 1 day', grace_period=300) }}
select ordered_on, sum(amount) as revenue
from {{ ref('orders') }}
where status <> 'returned'
group by ordered_on
