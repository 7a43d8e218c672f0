{{/* Name of the collector and of its service account, Service and claim. */}}
{{- define "sidelight.collector.name" -}}
{{- include "sidelight.name" (dict "root" . "part" "collector") }}
{{- end }}

{{/* Name of a release's `part`: RELEASE-sidelight-PART, without "sidelight-sidelight". */}}
{{- define "sidelight.name" -}}
{{- $base := .root.Values.fullnameOverride | default (printf "%s-sidelight" .root.Release.Name | replace "sidelight-sidelight" "sidelight") }}
{{- printf "%s-%s" ($base | trunc (sub 62 (len .part) | int) | trimSuffix "-") .part }}
{{- end }}

{{/* Selector of the pods of `part`; it never changes during a release's life. */}}
{{- define "sidelight.selector" -}}
app.kubernetes.io/name: sidelight
app.kubernetes.io/component: {{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "sidelight.labels" -}}
{{ include "sidelight.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sidelight.collector.selector" -}}
{{ include "sidelight.selector" (dict "root" . "part" "collector") }}
{{- end }}

{{- define "sidelight.collector.labels" -}}
{{ include "sidelight.labels" (dict "root" . "part" "collector") }}
{{- end }}

{{/* Name of the service account of collectors and compactors. */}}
{{- define "sidelight.collector.serviceAccountName" -}}
{{ .Values.collector.serviceAccount.name | default (include "sidelight.collector.name" .) }}
{{- end }}

{{/* `image` with its digest, its tag, or the chart's appVersion. */}}
{{- define "sidelight.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .chart.AppVersion }}
{{- end }}
{{- end }}

{{/*
The map `given` as SIDELIGHT_ variables. Numbers are JSON, so that 1000000 does not become 1e+06. Refuses settings in
`own`, which the chart sets itself: server-side apply fails if a variable occurs twice.
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
