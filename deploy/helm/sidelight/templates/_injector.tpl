{{- define "sidelight.injector.name" -}}
{{ printf "%s-sidelight-injector" .Release.Name | replace "sidelight-sidelight" "sidelight" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* What selects the injector's pods: never changes over a release's life. */}}
{{- define "sidelight.injector.selector" -}}
app.kubernetes.io/name: sidelight
app.kubernetes.io/component: injector
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sidelight.injector.labels" -}}
{{ include "sidelight.injector.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/*
The sidecar as JSON, made by the template that services use in their own charts: what is injected is the same
container. The injector puts in a pod's own service and version. Every pod gets a token of its service account,
which is good for the collector and for nothing else; `sidecar.tokenSecret` takes its place where it is given.
*/}}
{{- define "sidelight.injector.sidecar" -}}
{{- $sidecar := deepCopy .Values.sidecar }}
{{- if not $sidecar.collector }}
{{- if not .Values.collector.enabled }}
{{- fail "sidecar.collector: the injector's sidecars need a collector's URL, for this release has no collector" }}
{{- end }}
{{- $place := printf "%s.%s.svc" (include "sidelight.collector.name" .) .Release.Namespace }}
{{- $_ := set $sidecar "collector" (printf "http://%s:%v" $place .Values.collector.service.port) }}
{{- end }}
{{- $values := dict "sidelight" (dict "sidecar" $sidecar) }}
{{- $root := dict "Values" $values "Subcharts" (dict "sidelight" (dict "Chart" .Chart)) "Release" .Release }}
{{- $given := include "sidelight.sidecar" (dict "root" $root "service" "SERVICE" "version" "VERSION") }}
{{- $container := first (fromYamlArray $given) }}
{{- $volumes := fromYamlArray (include "sidelight.sidecar.volumes" $root) }}
{{- if not (or (contains "SIDELIGHT_TOKEN_FILE" $given) (hasKey $sidecar "serviceAccountToken")) }}
{{- $token := dict "name" "SIDELIGHT_TOKEN_FILE" "value" "/etc/sidelight/token" }}
{{- $mount := dict "name" "sidelight-token" "mountPath" "/etc/sidelight" "readOnly" true }}
{{- $_ := set $container "env" (append $container.env $token) }}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts $mount) }}
{{- $source := dict "serviceAccountToken" (dict "audience" "sidelight" "expirationSeconds" 3600 "path" "token") }}
{{- $volumes = append $volumes (dict "name" "sidelight-token" "projected" (dict "sources" (list $source))) }}
{{- end }}
{{- dict "container" $container "volumes" $volumes | toPrettyJson }}
{{- end }}
