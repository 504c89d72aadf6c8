{# dbt-spark's materializations, for a model that was a materialized view before. (Its table drops what there is.) #}

{% macro freshgate__make_way(relation) -%}
  {%- set existing = load_cached_relation(relation) -%}
  {%- if existing is not none and existing.is_materialized_view -%}
    {%- do adapter.drop_relation(existing) -%}
  {%- endif -%}
{%- endmacro %}


{% materialization view, adapter='freshgate' -%}
  {%- do freshgate__make_way(this) -%}
  {{ return(create_or_replace_view()) }}
{%- endmaterialization %}


{% materialization incremental, adapter='freshgate', supported_languages=['sql', 'python'] -%}
  {%- do freshgate__make_way(this) -%}
  {{ return(materialization_incremental_spark()) }}
{%- endmaterialization %}
