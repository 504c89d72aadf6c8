{# Whether reads of a materialized view see what its base tables contain. #}

{# The state that the gateway gives the view. Looking at it refreshes nothing. #}
{% macro freshgate__state_of(relation) -%}
  select freshness, stale_because, stale_since, last_refresh_time, last_task_status, last_task_error
  from freshgate.materialized_views
  where database_name = lower('{{ relation.schema }}') and name = lower('{{ relation.identifier }}')
{%- endmacro %}


{# True or false; fails if the relation is no materialized view. A version within the grace period is not stale. #}
{% macro is_stale(relation) -%}
  {%- if not execute -%}{{ return(false) }}{%- endif -%}
  {%- do adapter.check_gateway(relation) -%}
  {%- set rows = run_query(freshgate__state_of(relation)).rows -%}
  {%- if not rows -%}
    {%- do exceptions.raise_compiler_error(relation.render() ~ " is not a materialized view") -%}
  {%- endif -%}
  {{ return(rows[0]['freshness'] not in ['FRESH', 'FRESH_WITHIN_GRACE']) }}
{%- endmacro %}


{# A data test: `data_tests: [not_stale]`. Its failures are a stale view, and a model that is no materialized view. #}
{% test not_stale(model) %}
  with state as (
    {{ freshgate__state_of(model) }}
  )
  select freshness, stale_because, stale_since, last_refresh_time, last_task_status, last_task_error
  from state
  where freshness not in ('FRESH', 'FRESH_WITHIN_GRACE')
  union all
  select 'not a materialized view', null, null, null, null, null
  where not exists (select 1 from state)
{% endtest %}
