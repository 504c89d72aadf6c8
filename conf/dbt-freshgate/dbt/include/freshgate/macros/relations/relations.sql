{# Relations of any type: replacing, renaming and dropping them, with one statement at a time. #}

{% macro freshgate__get_replace_sql(existing_relation, target_relation, sql) -%}
  {%- if not target_relation.is_materialized_view -%}
    {{- default__get_replace_sql(existing_relation, target_relation, sql) -}}
  {%- elif existing_relation.is_materialized_view -%}
    {{- get_replace_materialized_view_sql(target_relation, sql) -}}
  {%- else -%}
    {#- The new view is built beside the old relation, which stays if the definition is refused. -#}
    {%- set intermediate = make_intermediate_relation(target_relation) -%}
    {%- call statement('create_intermediate') -%}
      {{ get_create_materialized_view_as_sql(intermediate, sql) }}
    {%- endcall -%}
    {%- do adapter.drop_relation(existing_relation) -%}
    {{- get_rename_materialized_view_sql(intermediate, target_relation.identifier) -}}
  {%- endif -%}
{%- endmacro %}


{% macro freshgate__drop_relation(relation) -%}
  {% if relation.is_materialized_view %}
    {% call statement('drop_relation', auto_begin=False) -%}
      {{ drop_materialized_view(relation) }}
    {%- endcall %}
  {% else %}
    {% do spark__drop_relation(relation) %}
  {% endif %}
{%- endmacro %}


{% macro freshgate__rename_relation(from_relation, to_relation) -%}
  {% if from_relation.is_materialized_view %}
    {% call statement('rename_relation') -%}
      {{ get_rename_materialized_view_sql(from_relation, to_relation.identifier) }}
    {%- endcall %}
  {% else %}
    {% do spark__rename_relation(from_relation, to_relation) %}
  {% endif %}
{%- endmacro %}


{% macro freshgate__list_materialized_views(schema) -%}
  {% call statement('list_materialized_views', fetch_result=True, auto_begin=False) -%}
    show materialized views in {{ adapter.quote(schema) }}
  {%- endcall %}
  {% do return(load_result('list_materialized_views').table) %}
{%- endmacro %}


{% macro freshgate__show_properties(relation) -%}
  {% call statement('show_properties', fetch_result=True, auto_begin=False) -%}
    show tblproperties {{ relation.render() }}
  {%- endcall %}
  {% do return(load_result('show_properties').table) %}
{%- endmacro %}


{% macro freshgate__describe_materialized_view(relation) -%}
  {% call statement('describe_materialized_view', fetch_result=True, auto_begin=False) -%}
    describe extended materialized view {{ relation.render() }}
  {%- endcall %}
  {% do return(load_result('describe_materialized_view').table) %}
{%- endmacro %}


{% macro freshgate__drop_schema(relation) -%}
  {#- The gateway drops no database that has materialized views. A plain server lists none. -#}
  {%- for view in adapter.list_materialized_views(relation) -%}
    {%- do adapter.drop_relation(view) -%}
  {%- endfor -%}
  {%- do spark__drop_schema(relation) -%}
{%- endmacro %}
