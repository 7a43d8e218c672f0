{{/*
The sidecar, for a service's chart with this one as a dependency (with collector.enabled: false):

    spec:
      shareProcessNamespace: true
      containers:
        - name: app
        {{- include "sidelight.sidecar" (dict "root" . "service" "checkout" "version" .Values.image.tag) | nindent 8 }}
      volumes:
        {{- include "sidelight.sidecar.volumes" . | nindent 8 }}

`root` is the service chart's dot; its values under `sidelight.sidecar` are the settings. `"native" true` makes a native
sidecar for `initContainers` (Kubernetes 1.29): it starts before the service, ends after it, and lets a Job complete.
The containers share one PID namespace and see each other's processes. Pod Security "baseline" refuses SYS_PTRACE: see
docs/kubernetes.md. There is no readiness probe, so that an unreachable collector does not make the pod unready.
*/}}
{{- define "sidelight.sidecar" -}}
{{- $sidecar := .root.Values.sidelight.sidecar }}
{{- $service := required "sidelight.sidecar: pass the service's name" .service }}
{{- $version := required "sidelight.sidecar: pass the service's version" .version }}
{{- $names := list (dict "name" "SIDELIGHT_SERVICE" "value" ($service | toString)) (dict "name" "SIDELIGHT_VERSION" "value" ($version | toString)) }}
{{- include "sidelight.sidecar.container" (dict "sidecar" $sidecar "chart" .root.Subcharts.sidelight.Chart "env" $names "native" .native) }}
{{- end }}

{{/* The container, from the values `sidecar`; `env` has the service and version, `chart` the appVersion. */}}
{{- define "sidelight.sidecar.container" -}}
{{- $ := . }}
{{- with .sidecar -}}
{{- $_ := include "sidelight.sidecar.checks" . -}}
- name: sidelight
  image: {{ include "sidelight.image" (dict "image" .image "chart" $.chart) | quote }}
  imagePullPolicy: {{ .image.pullPolicy }}
  {{- if $.native }}
  restartPolicy: Always
  {{- end }}
  args:
    - sidecar
    {{- if not (hasKey (.settings | default dict) "match") }}
    - --all
    {{- end }}
  env:
    - name: SIDELIGHT_COLLECTOR
      value: {{ required "sidelight.sidecar.collector: set the collector's URL" .collector | quote }}
    {{- with $.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    - name: SIDELIGHT_LISTEN
      value: 0.0.0.0:{{ .port }}
    - name: SIDELIGHT_SPOOL_DIR
      value: /var/spool/sidelight
    {{- if or .tokenSecret .serviceAccountToken.enabled }}
    - name: SIDELIGHT_TOKEN_FILE
      value: /etc/sidelight/token
    {{- end }}
    {{- if or .caBundle.configMap .caBundle.secret }}
    - name: SIDELIGHT_CA_FILE
      value: /etc/sidelight-ca/{{ .caBundle.key }}
    {{- else if .caBundle.pem }}
    - name: SIDELIGHT_CA_CERTIFICATES
      value: {{ .caBundle.pem | quote }}
    {{- end }}
    - name: SIDELIGHT_NAMESPACE
      valueFrom:
        fieldRef:
          fieldPath: metadata.namespace
    - name: SIDELIGHT_POD
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
    - name: SIDELIGHT_NODE
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
    {{- with .settings }}
    {{- $own := list "all" "ca_certificates" "ca_file" "collector" "listen" "namespace" "node" "pid" "pod" "service" "spool_dir" "token_file" "version" }}
    {{- include "sidelight.settings" (dict "given" . "own" $own "at" "sidelight.sidecar") | trim | nindent 4 }}
    {{- end }}
    {{- with .extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: sidelight
      containerPort: {{ .port }}
  livenessProbe:
    httpGet:
      path: /livez
      port: sidelight
    periodSeconds: 30
    timeoutSeconds: 5
  resources:
    {{- toYaml .resources | nindent 4 }}
  securityContext:
    {{- include "sidelight.sidecar.securityContext" . | nindent 4 }}
  volumeMounts:
    - name: sidelight
      mountPath: /var/spool/sidelight
      subPath: spool
    - name: sidelight
      mountPath: /tmp
      subPath: tmp
    {{- if or .tokenSecret .serviceAccountToken.enabled }}
    - name: sidelight-token
      mountPath: /etc/sidelight
      readOnly: true
    {{- end }}
    {{- if or .caBundle.configMap .caBundle.secret }}
    - name: sidelight-ca
      mountPath: /etc/sidelight-ca
      readOnly: true
    {{- end }}
    {{- with .extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
{{- end }}

{{/* Refuses values of the sidecar that cannot work together. */}}
{{- define "sidelight.sidecar.checks" -}}
{{- $bundles := compact (list .caBundle.configMap .caBundle.secret .caBundle.pem) }}
{{- if gt (len $bundles) 1 }}
{{- fail "sidelight.sidecar.caBundle: set one of configMap, secret and pem" }}
{{- end }}
{{- if and $bundles (not (hasPrefix "https://" (.collector | default ""))) }}
{{- fail "sidelight.sidecar.caBundle: the sidecar uses no TLS unless sidecar.collector is an https:// URL" }}
{{- end }}
{{- end }}

{{/* User 0 with SYS_PTRACE, or the service's user without capabilities. */}}
{{- define "sidelight.sidecar.securityContext" -}}
{{- $context := deepCopy .securityContext }}
{{- if not (kindIs "invalid" .sameUser) }}
{{- $same := dict "runAsUser" (int64 .sameUser) "runAsNonRoot" (gt (int64 .sameUser) 0) "capabilities" (dict "drop" (list "ALL")) }}
{{- $context = merge $same (omit $context "capabilities") }}
{{- end }}
{{- $sidecar := . }}
{{- range $value, $capability := dict "goFirst" "SYS_NICE" "gilWaits" "DAC_READ_SEARCH" }}
{{- if get $sidecar $value }}
{{- if not (kindIs "invalid" $sidecar.sameUser) }}
{{- fail (printf "sidelight.sidecar.%s: sameUser runs without capabilities such as %s; set only one of them" $value $capability) }}
{{- end }}
{{- $_ := set $context.capabilities "add" (append ($context.capabilities.add | default list) $capability | uniq) }}
{{- end }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{- define "sidelight.sidecar.volumes" -}}
{{- include "sidelight.sidecar.volumes.of" .Values.sidelight.sidecar }}
{{- end }}

{{/* The volumes, from the values `sidecar`. */}}
{{- define "sidelight.sidecar.volumes.of" -}}
- name: sidelight
  emptyDir:
    sizeLimit: {{ .volumeSize }}
{{- if .tokenSecret }}
- name: sidelight-token
  secret:
    secretName: {{ .tokenSecret }}
    defaultMode: {{ ternary "0440" "0444" (kindIs "invalid" .sameUser) }}
{{- else if .serviceAccountToken.enabled }}
- name: sidelight-token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          audience: {{ .serviceAccountToken.audience }}
          expirationSeconds: {{ .serviceAccountToken.expirationSeconds }}
{{- end }}
{{- if .caBundle.configMap }}
- name: sidelight-ca
  configMap:
    name: {{ .caBundle.configMap }}
{{- else if .caBundle.secret }}
- name: sidelight-ca
  secret:
    secretName: {{ .caBundle.secret }}
    items:
      - key: {{ .caBundle.key }}
        path: {{ .caBundle.key }}
{{- end }}
{{- end }}
