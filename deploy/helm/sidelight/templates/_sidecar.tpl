{{/*
The sidecar, for a service's own chart that has this one as a dependency (with collector.enabled: false):

    spec:
      shareProcessNamespace: true
      containers:
        - name: app
        {{- include "sidelight.sidecar" (dict "root" . "service" "checkout" "version" .Values.image.tag) | nindent 8 }}
      volumes:
        {{- include "sidelight.sidecar.volumes" . | nindent 8 }}

`root` is the service chart's own dot; the settings are its values under `sidelight.sidecar`. With `"native" true` it is
a native sidecar, to be included under `initContainers` (Kubernetes 1.29): it starts before the service, ends after it,
and lets a Job complete. The pod shares one PID namespace, so its containers see each other's processes. Pod Security
"baseline" refuses SYS_PTRACE: docs/kubernetes.md says what the namespace needs. There is no readiness probe: a collector
that is away must not take the service out of rotation.
*/}}
{{- define "sidelight.sidecar" -}}
{{- $sidecar := .root.Values.sidelight.sidecar }}
{{- $service := required "sidelight.sidecar: the service's name is needed" .service }}
{{- $version := required "sidelight.sidecar: the service's version is needed" .version }}
{{- $names := list (dict "name" "SIDELIGHT_SERVICE" "value" ($service | toString)) (dict "name" "SIDELIGHT_VERSION" "value" ($version | toString)) }}
{{- include "sidelight.sidecar.container" (dict "sidecar" $sidecar "chart" .root.Subcharts.sidelight.Chart "env" $names "native" .native) }}
{{- end }}

{{/* The container from the values `sidecar` alone: `env` says what it watches, `chart` has the appVersion. */}}
{{- define "sidelight.sidecar.container" -}}
{{- $ := . }}
{{- with .sidecar -}}
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
      value: {{ required "sidelight.sidecar.collector: the collector's URL is needed" .collector | quote }}
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
    {{- $own := list "all" "collector" "listen" "namespace" "node" "pid" "pod" "service" "spool_dir" "token_file" "version" }}
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
    {{- with .extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
{{- end }}

{{/* User 0 with SYS_PTRACE, or the service's user without any capability, which is not asked for what it cannot have. */}}
{{- define "sidelight.sidecar.securityContext" -}}
{{- $context := deepCopy .securityContext }}
{{- if not (kindIs "invalid" .sameUser) }}
{{- $same := dict "runAsUser" (int64 .sameUser) "runAsNonRoot" (gt (int64 .sameUser) 0) "capabilities" (dict "drop" (list "ALL")) }}
{{- $context = merge $same (omit $context "capabilities") }}
{{- end }}
{{- if .goFirst }}
{{- if not (kindIs "invalid" .sameUser) }}
{{- fail "sidelight.sidecar.goFirst: SYS_NICE is a capability, which sameUser does without; give one of them" }}
{{- end }}
{{- $_ := set $context.capabilities "add" (append ($context.capabilities.add | default list) "SYS_NICE" | uniq) }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{- define "sidelight.sidecar.volumes" -}}
{{- include "sidelight.sidecar.volumes.of" .Values.sidelight.sidecar }}
{{- end }}

{{/* The volumes from the values `sidecar` alone. */}}
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
{{- end }}
