{{/* The collector's name, one per release. */}}
{{- define "sidelight.collector.name" -}}
{{ printf "%s-sidelight-collector" .Release.Name | replace "sidelight-sidelight" "sidelight" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* What selects the collector's pods: never changes over a release's life. */}}
{{- define "sidelight.collector.selector" -}}
app.kubernetes.io/name: sidelight
app.kubernetes.io/component: collector
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sidelight.collector.labels" -}}
{{ include "sidelight.collector.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/*
The map `given` as SIDELIGHT_ variables; numbers as JSON writes them, for 1000000 is not to become 1e+06. Those that
the chart sets itself are its `own`: a variable that is there twice makes server-side apply fail.
*/}}
{{- define "sidelight.settings" -}}
{{- range $name, $value := .given }}
{{- if has $name $.own }}
{{- fail (printf "%s.settings.%s: the chart sets this itself, from its other values" $.at $name) }}
{{- end }}
- name: SIDELIGHT_{{ upper $name }}
  value: {{ ternary $value ($value | toJson) (kindIs "string" $value) | quote }}
{{- end }}
{{- end }}
