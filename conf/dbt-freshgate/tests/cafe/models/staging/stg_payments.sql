select id as payment_id, order_id, method, cast(cents / 100 as decimal(16, 2)) as amount from {{ ref('raw_payments') }}
