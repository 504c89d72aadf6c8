{#
  Makes a model a materialized view of Freshgate: config(materialized='materialized_view').

  The first run creates the view, and so does a run with --full-refresh. Other runs refresh it and keep its definition.
  Supported settings: partition_by, comment (through persist_docs) and tblproperties. file_format has no effect.
#}
{% materialization materialized_view, adapter='spark' -%}
  {%- set target = this.incorporate(type='view') -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set is_materialized = freshgate_is_materialized(target) -%}

  {{ run_hooks(pre_hooks) }}

  {% if existing is not none and not is_materialized %}
    {{ adapter.drop_relation(existing) }}
  {% endif %}

  {% if is_materialized and not should_full_refresh() %}
    {% call statement('main') -%}
      refresh materialized view {{ target }}
    {%- endcall %}
  {% else %}
    {% call statement('main') -%}
      create or replace materialized view {{ target }}
      {{ partition_cols(label='partition by') }}
      {{ comment_clause() }}
      {{ tblproperties_clause() }}
      as {{ compiled_code }}
    {%- endcall %}
  {% endif %}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target]}) }}
{%- endmaterialization %}


{% macro freshgate_is_materialized(relation) -%}
  {%- if not execute -%}{{ return(false) }}{%- endif -%}
  {%- set found = run_query("show materialized views in " ~ relation.schema ~ " like '" ~ relation.identifier ~ "'") -%}
  {{ return(found.rows | length > 0) }}
{%- endmacro %}


{# dbt run-operation refresh --args '{view: shop.daily_totals}' #}
{% macro refresh(view) -%}
  {% do run_query("refresh materialized view " ~ view) %}
{%- endmacro %}


{# dbt run-operation insert_order --args '{day: 2026-01-02, amount: 41}' #}
{% macro insert_order(day, amount) -%}
  {% do run_query("insert into " ~ target.schema ~ ".orders values (date'" ~ day ~ "', " ~ amount ~ ")") %}
{%- endmacro %}
