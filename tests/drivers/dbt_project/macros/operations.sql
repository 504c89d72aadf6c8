{# dbt run-operation refresh --args '{view: shop.daily_totals}' #}
{% macro refresh(view) -%}
  {% do run_query("refresh materialized view " ~ view) %}
{%- endmacro %}


{# dbt run-operation insert_order --args '{day: 2026-01-02, amount: 41}' #}
{% macro insert_order(day, amount) -%}
  {% do run_query("insert into " ~ target.schema ~ ".orders values (date'" ~ day ~ "', " ~ amount ~ ")") %}
{%- endmacro %}
