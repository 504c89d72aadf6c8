{# What dbt's own materialization of materialized views calls. The server takes one statement at a time, so macros that
   need several run all but the last one themselves. #}

{% macro freshgate__get_create_materialized_view_as_sql(relation, sql) -%}
  {%- do adapter.check_gateway(relation) -%}
  create materialized view {{ relation.render() }}
  {{ freshgate__clauses(sql) }}
  as
  {{ sql }}
{%- endmacro %}


{% macro freshgate__get_replace_materialized_view_sql(relation, sql) -%}
  {%- do adapter.check_gateway(relation) -%}
  create or replace materialized view {{ relation.render() }}
  {%- if should_full_refresh() %} build complete{% endif %}
  {{ freshgate__clauses(sql) }}
  as
  {{ sql }}
{%- endmacro %}


{% macro freshgate__clauses(sql) -%}
  {%- if config.get('contract').enforced -%}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif -%}
  {%- set columns = get_columns_in_query(sql) if adapter.has_column_docs(config.model, sql) else [] -%}
  {{ adapter.materialized_view_clauses(config.model, sql, columns) }}
{%- endmacro %}


{% macro freshgate__refresh_materialized_view(relation) -%}
  {#- AUTO computes what has changed, and nothing if the view is fresh. -#}
  refresh materialized view {{ relation.render() }} auto
{%- endmacro %}


{% macro freshgate__get_rename_materialized_view_sql(relation, new_name) -%}
  alter materialized view {{ relation.render() }} rename to {{ relation.incorporate(path={"identifier": new_name}).render() }}
{%- endmacro %}


{% macro freshgate__drop_materialized_view(relation) -%}
  drop materialized view if exists {{ relation.render() }}
{%- endmacro %}


{% macro freshgate__get_materialized_view_configuration_changes(existing_relation, new_config) -%}
  {%- set changes = adapter.materialized_view_changes(existing_relation, new_config.model, new_config.model.compiled_code) -%}
  {%- if changes is not none and config.get('on_configuration_change') | string != 'apply' -%}
    {#- dbt's own message, with `continue` and `fail`, does not say what has changed. -#}
    {%- do exceptions.warn(existing_relation ~ ' is not what its model says: ' ~ changes.reasons | join('; ')) -%}
  {%- endif -%}
  {% do return(changes) %}
{%- endmacro %}


{% macro freshgate__get_alter_materialized_view_as_sql(
    relation, configuration_changes, sql, existing_relation, backup_relation, intermediate_relation
) -%}
  {%- if configuration_changes.replaced -%}
    {{- log('Replacing ' ~ relation ~ ': ' ~ configuration_changes.replaced | join(', '), info=True) -}}
    {{- get_replace_sql(existing_relation, relation, sql) -}}
  {%- else -%}
    {%- for change in configuration_changes.statements -%}
      {%- do run_query('alter materialized view ' ~ relation.render() ~ ' ' ~ change) -%}
    {%- endfor -%}
    {{- refresh_materialized_view(relation) -}}
  {%- endif -%}
{%- endmacro %}
