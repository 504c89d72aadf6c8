{{- define "freshgate.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "freshgate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "freshgate.labels" -}}
{{ include "freshgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* The Service by which gateways reach each other. */ -}}
{{- define "freshgate.relays" -}}
{{- printf "%s-gateways" (include "freshgate.name" . | trunc 43 | trimSuffix "-") -}}
{{- end -}}

{{- define "freshgate.secretName" -}}
{{- .Values.gateways.secret | default (include "freshgate.relays" .) -}}
{{- end -}}

{{- define "freshgate.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "freshgate.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- /* The settings, and those that follow from the Secrets. */ -}}
{{- define "freshgate.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- if .Values.usersSecret -}}
{{- $users := dict "method" "file" "users_file" "/etc/freshgate/users/users" -}}
{{- $_ := mergeOverwrite $settings (dict "authentication" $users) -}}
{{- end -}}
{{- if .Values.tlsSecret -}}
{{- $tls := dict "certificate" "/etc/freshgate/tls/tls.crt" "key" "/etc/freshgate/tls/tls.key" -}}
{{- $_ := mergeOverwrite $settings (dict "tls" $tls) -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{- /* A table of TOML: its own values first, then its tables. JSON's texts, numbers and lists are TOML, too. Names are
quoted, because those of Spark's settings contain dots. */ -}}
{{- define "freshgate.table" -}}
{{- range $name, $value := .table }}
{{- if not (kindIs "map" $value) }}
{{ toJson $name }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{- range $name, $value := .table }}
{{- if kindIs "map" $value }}
{{- $path := append $.path (toJson $name) }}

[{{ join "." $path }}]
{{- include "freshgate.table" (dict "path" $path "table" $value) }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The names of settings with passwords and other secrets, one in each line; as settings_file.py recognizes them. */ -}}
{{- define "freshgate.secrets" -}}
{{- range $name, $value := .table }}
{{- $path := append $.path $name }}
{{- if kindIs "map" $value }}
{{- include "freshgate.secrets" (dict "path" $path "table" $value) }}
{{- else if and (kindIs "string" $value) $value (regexMatch "(?i)secret|password|passphrase|token|credential|access[._-]?key|account[._-]?key|api[._-]?key|sas[._]" (join "." $path)) }}
{{ join "." $path }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "freshgate.ports" -}}
{{- with .Values.settings }}
{{- if ge (int .listen.port) 0 }}
- {name: thrift, containerPort: {{ int .listen.port }}}
{{- end }}
{{- if ge (int .listen.http_port) 0 }}
- {name: http, containerPort: {{ int .listen.http_port }}}
{{- end }}
- {name: metrics, containerPort: {{ int .metrics.port }}}
{{- end }}
{{- end -}}
