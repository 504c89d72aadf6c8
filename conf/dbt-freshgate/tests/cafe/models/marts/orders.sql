{{ config(partition_by='ordered_on') }}
select o.order_id, o.customer_id, o.status, sum(p.amount) as amount, o.ordered_on
from {{ ref('stg_orders') }} o
join {{ ref('stg_payments') }} p on p.order_id = o.order_id
group by o.order_id, o.customer_id, o.status, o.ordered_on
