{{- /* The pods' template, of one gateway or of several. */ -}}
{{- define "freshgate.template" -}}
{{- $several := gt (int .Values.replicas) 1 -}}
metadata:
  labels:
    {{- include "freshgate.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # The gateway reads its settings at the start: other settings are another pod.
    freshgate/settings: {{ include "freshgate.settings" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "freshgate.account" . }}
  automountServiceAccountToken: false
  # Kubernetes would set a variable for each Service of the namespace.
  enableServiceLinks: false
  # The gateway lets statements end for limits.drain_seconds, and then stops within 20 seconds.
  terminationGracePeriodSeconds: {{ add (ternary 33 30 $several) (dig "limits" "drain_seconds" 30 .Values.settings | int) }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: gateway
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
        - --config=/etc/freshgate/settings/freshgate.toml
        {{- if $several }}
        # The name that Kubernetes writes into the pod's /etc/hosts, so that it can be bound before DNS knows it.
        - --set=gateways.enabled=true
        - --set=gateways.address=$(POD_NAME).{{ include "freshgate.relays" . }}.{{ .Release.Namespace }}.svc.{{ .Values.gateways.clusterDomain }}:{{ int .Values.gateways.port }}
        - --set-file=gateways.secret=/etc/freshgate/gateways/secret
        {{- end }}
      {{- if or $several .Values.env }}
      env:
        {{- if $several }}
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- end }}
        {{- with .Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        {{- include "freshgate.ports" . | trim | nindent 8 }}
        {{- if $several }}
        - {name: relays, containerPort: {{ int .Values.gateways.port }}}
        {{- end }}
      # The gateway listens before Spark answers, and restarts Spark itself.
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 5
        timeoutSeconds: 5
      {{- if $several }}
      # Until the Services' clients are sent elsewhere.
      lifecycle: {preStop: {exec: {command: [sleep, "3"]}}}
      {{- end }}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: settings, mountPath: /etc/freshgate/settings, readOnly: true}
        {{- if .Values.usersSecret }}
        - {name: users, mountPath: /etc/freshgate/users, readOnly: true}
        {{- end }}
        {{- if .Values.tlsSecret }}
        - {name: tls, mountPath: /etc/freshgate/tls, readOnly: true}
        {{- end }}
        {{- range $index, $name := .Values.extraSecrets }}
        - {name: secret-{{ $index }}, mountPath: {{ printf "/etc/freshgate/secrets/%s" $name | quote }}, readOnly: true}
        {{- end }}
        {{- if $several }}
        - {name: gateways, mountPath: /etc/freshgate/gateways, readOnly: true}
        {{- end }}
        - {name: data, mountPath: /var/lib/freshgate}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: settings
      {{- if .Values.settingsSecret }}
      secret: {secretName: {{ .Values.settingsSecret | quote }}, defaultMode: 0440}
      {{- else }}
      configMap: {name: {{ include "freshgate.name" . }}}
      {{- end }}
    {{- with .Values.usersSecret }}
    - name: users
      secret: {secretName: {{ . | quote }}, defaultMode: 0440}
    {{- end }}
    {{- with .Values.tlsSecret }}
    - name: tls
      secret: {secretName: {{ . | quote }}, defaultMode: 0440}
    {{- end }}
    {{- range $index, $name := .Values.extraSecrets }}
    - name: secret-{{ $index }}
      secret: {secretName: {{ $name | quote }}, defaultMode: 0440}
    {{- end }}
    {{- if $several }}
    - name: gateways
      secret: {secretName: {{ include "freshgate.secretName" . | quote }}, defaultMode: 0440}
    {{- end }}
    - name: data
      {{- if .Values.dataClaim }}
      persistentVolumeClaim: {claimName: {{ .Values.dataClaim | quote }}}
      {{- else }}
      emptyDir: {}
      {{- end }}
    - name: tmp
      emptyDir: {}
  {{- if $several }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "freshgate.selector" . | nindent 10 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
