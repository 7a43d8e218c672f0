{{- define "sidelight.injector.name" -}}
{{- include "sidelight.name" (dict "root" . "part" "injector") }}
{{- end }}

{{- define "sidelight.injector.selector" -}}
{{ include "sidelight.selector" (dict "root" . "part" "injector") }}
{{- end }}

{{- define "sidelight.injector.labels" -}}
{{ include "sidelight.labels" (dict "root" . "part" "injector") }}
{{- end }}

{{/*
The sidecar as JSON, from the same templates that services use in their own charts. The injector fills in each pod's
service and version, and makes it a native sidecar where the cluster supports them. The collector's URL defaults to this
release's.
*/}}
{{- define "sidelight.injector.sidecar" -}}
{{- $sidecar := deepCopy .Values.sidecar }}
{{- if not $sidecar.collector }}
{{- if not .Values.collector.enabled }}
{{- fail "sidecar.collector: set a collector's URL, because this release has no collector" }}
{{- end }}
{{- $_ := set $sidecar "collector" (include "sidelight.collector.url" .) }}
{{- end }}
{{- $taken := or $sidecar.tokenSecret $sidecar.serviceAccountToken.enabled }}
{{- if not (or $taken (not .Values.collector.enabled) .Values.collector.auth.allowAnonymousWrites) }}
{{- fail "sidecar.serviceAccountToken.enabled: the collector accepts nothing without a token; set this to true, or name a sidecar.tokenSecret" }}
{{- end }}
{{- $env := list (dict "name" "SIDELIGHT_SERVICE" "value" "SERVICE") (dict "name" "SIDELIGHT_VERSION" "value" "VERSION") }}
{{- $given := include "sidelight.sidecar.container" (dict "sidecar" $sidecar "chart" .Chart "env" $env "native" false) }}
{{- $volumes := include "sidelight.sidecar.volumes.of" $sidecar }}
{{- $made := dict "container" (first (fromYamlArray $given)) "volumes" (fromYamlArray $volumes) }}
{{- with .Values.injector.imagePullSecrets }}
{{- $_ := set $made "imagePullSecrets" . }}
{{- end }}
{{- toPrettyJson $made }}
{{- end }}

{{/* The Secret whose authorities the injector hands to sidecars of this release's collector; empty if there is none. */}}
{{- define "sidelight.injector.caSecret" -}}
{{- $given := .Values.sidecar.caBundle }}
{{- if and .Values.collector.enabled .Values.collector.tls.caKey (not (or .Values.sidecar.collector $given.configMap $given.secret $given.pem)) }}
{{- include "sidelight.collector.tlsSecret" . }}
{{- end }}
{{- end }}
