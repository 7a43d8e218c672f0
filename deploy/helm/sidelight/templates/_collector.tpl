{{/*
The pod template of both roles of the program: `part` is collector or compactor.
A compactor receives no windows and serves no queries, so it mounts no tokens.
*/}}
{{- define "sidelight.collector.template" -}}
{{- $root := .root }}
{{- $part := .part }}
{{- $serves := eq .part "collector" }}
{{- $own := index $root.Values .part }}
{{- /* the pods that compact also compare deploys */}}
{{- $tends := or (not $serves) (not $root.Values.compactor.enabled) }}
{{- with $root.Values.collector }}
{{- $directory := eq .store.kind "directory" }}
{{- $s3 := ternary dict .store.s3 $directory }}
{{- $ca := dig "caBundle" "configMap" "" $s3 | default (dig "caBundle" "secret" "" $s3) }}
{{- $role := dig "webIdentity" "roleArn" "" $s3 }}
{{- $asks := and $serves (or $root.Values.kubernetes.identity $root.Values.kubernetes.discovery $root.Values.kubernetes.attach) }}
{{- $settings := .settings | default dict }}
{{- if not $serves }}
{{- $settings = merge (dict) ($own.settings | default dict) (omit $settings "workers") }}
{{- end }}
{{- $tls := and $serves (include "sidelight.collector.tlsSecret" $root) }}
{{- $port := ternary "https" "http" (not (empty $tls)) }}
{{- $shutdown := get $settings "shutdown_timeout_seconds" | default 30 | float64 | ceil | int }}
metadata:
  {{- $annotations := deepCopy .podAnnotations }}
  {{- if and $serves .auth.readRules }}
  {{- /* a collector reads the rules only at start */}}
  {{- $annotations = set $annotations "checksum/rules" (sha256sum .auth.readRules) }}
  {{- end }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  labels:
    {{- include "sidelight.labels" (dict "root" $root "part" $part) | nindent 4 }}
    {{- with .podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "sidelight.collector.serviceAccountName" $root }}
  automountServiceAccountToken: {{ $asks }}
  enableServiceLinks: false
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  # time for open requests and the last segment, plus 15 s for endpoints to drop the pod
  terminationGracePeriodSeconds: {{ add $shutdown 15 }}
  securityContext:
    {{- toYaml .podSecurityContext | nindent 4 }}
  containers:
    - name: {{ $part }}
      image: {{ include "sidelight.image" (dict "image" .image "chart" $root.Chart) | quote }}
      imagePullPolicy: {{ .image.pullPolicy }}
      args:
        - collector
      env:
        {{- if not $serves }}
        - name: SIDELIGHT_ROLE
          value: compactor
        {{- else if $root.Values.compactor.enabled }}
        - name: SIDELIGHT_ROLE
          value: serve
        {{- end }}
        - name: SIDELIGHT_LISTEN
          value: 0.0.0.0:8080
        {{- with .pathPrefix }}
        - name: SIDELIGHT_PATH_PREFIX
          value: {{ . | quote }}
        {{- end }}
        - name: SIDELIGHT_STORE
          value: {{ ternary "/var/lib/sidelight" .store.s3.url $directory | quote }}
        {{- with $s3.region }}
        - name: AWS_DEFAULT_REGION
          value: {{ . | quote }}
        {{- end }}
        {{- with $s3.endpoint }}
        - name: SIDELIGHT_S3_ENDPOINT
          value: {{ . | quote }}
        {{- end }}
        {{- if $ca }}
        - name: AWS_CA_BUNDLE
          value: /etc/sidelight/s3/{{ .store.s3.caBundle.key }}
        {{- end }}
        {{- if $role }}
        - name: AWS_ROLE_ARN
          value: {{ $role | quote }}
        - name: AWS_WEB_IDENTITY_TOKEN_FILE
          value: /var/run/secrets/s3/token
        {{- end }}
        {{- if $asks }}
        - name: SIDELIGHT_KUBERNETES
          value: in-cluster
        - name: SIDELIGHT_TOKEN_AUDIENCE
          value: {{ $root.Values.kubernetes.audience | quote }}
        {{- with $root.Values.kubernetes }}
        {{- if .namespaces }}
        - name: SIDELIGHT_KUBERNETES_NAMESPACES
          value: {{ join "," .namespaces | quote }}
        {{- end }}
        {{- $agents := .nodeAgents }}
        {{- if $root.Values.agent.enabled }}
        {{- $agents = prepend $agents (printf "%s/%s" $root.Release.Namespace (include "sidelight.name" (dict "root" $root "part" "agent"))) }}
        {{- end }}
        {{- with $agents }}
        - name: SIDELIGHT_NODE_AGENTS
          value: {{ join "," . | quote }}
        {{- end }}
        {{- if not .discovery }}
        - name: SIDELIGHT_DISCOVERY
          value: "false"
        {{- else if .namespaces }}
        - name: SIDELIGHT_DISCOVERY_NAMESPACES
          value: {{ join "," .namespaces | quote }}
        {{- end }}
        {{- if .attach }}
        - name: SIDELIGHT_ATTACH_IMAGE
          value: {{ include "sidelight.image" (dict "image" $root.Values.sidecar.image "chart" $root.Chart) | quote }}
        - name: SIDELIGHT_ATTACH_NAMESPACES
          value: {{ join "," (.attachNamespaces | default .namespaces) | quote }}
        - name: SIDELIGHT_ATTACH_COLLECTOR_URL
          value: {{ include "sidelight.collector.url" $root | quote }}
        {{- if and $tls $root.Values.collector.tls.caKey }}
        - name: SIDELIGHT_ATTACH_CA_FILE
          value: /etc/sidelight/tls/{{ $root.Values.collector.tls.caKey }}
        {{- end }}
        {{- else if .attachNamespaces }}
        - name: SIDELIGHT_ATTACH_NAMESPACES
          value: {{ join "," .attachNamespaces | quote }}
        {{- end }}
        {{- end }}
        {{- end }}
        {{- if $tls }}
        - name: SIDELIGHT_TLS_CERT_FILE
          value: /etc/sidelight/tls/tls.crt
        - name: SIDELIGHT_TLS_KEY_FILE
          value: /etc/sidelight/tls/tls.key
        {{- end }}
        {{- if $serves }}
        {{- if .auth.writeTokensSecret }}
        - name: SIDELIGHT_WRITE_TOKENS_FILE
          value: /etc/sidelight/write/tokens
        {{- end }}
        {{- if .auth.allowAnonymousWrites }}
        - name: SIDELIGHT_ALLOW_ANONYMOUS_WRITES
          value: "true"
        {{- end }}
        {{- if .auth.allowAnonymousReads }}
        - name: SIDELIGHT_ALLOW_ANONYMOUS_READS
          value: "true"
        {{- end }}
        {{- if .auth.readTokensSecret }}
        - name: SIDELIGHT_READ_TOKENS_FILE
          value: /etc/sidelight/read/tokens
        {{- end }}
        {{- if .auth.captureTokensSecret }}
        - name: SIDELIGHT_CAPTURE_TOKENS_FILE
          value: /etc/sidelight/capture/tokens
        {{- end }}
        {{- if .auth.readRules }}
        - name: SIDELIGHT_READ_RULES_FILE
          value: /etc/sidelight/rules/rules
        {{- end }}
        {{- if .profileMetrics.rules }}
        - name: SIDELIGHT_PROFILE_METRICS_FILE
          value: /etc/sidelight/rules/profile-metrics.yaml
        {{- end }}
        {{- with .auth.proxy.userHeader }}
        - name: SIDELIGHT_READ_PROXY_HEADER
          value: {{ . | quote }}
        {{- end }}
        {{- with .auth.proxy.groupsHeader }}
        - name: SIDELIGHT_READ_PROXY_GROUPS_HEADER
          value: {{ . | quote }}
        {{- end }}
        {{- with .auth.proxy.trusted }}
        - name: SIDELIGHT_TRUSTED_PROXIES
          value: {{ join "," . | quote }}
        {{- end }}
        {{- if .cache.enabled }}
        - name: SIDELIGHT_CACHE_DIR
          value: /var/cache/sidelight
        - name: SIDELIGHT_CACHE_DISK_BYTES
          value: {{ .cache.bytes | quote }}
        {{- end }}
        {{- end }}
        {{- if $tends }}
        {{- with .deploys.publicUrl }}
        - name: SIDELIGHT_PUBLIC_URL
          value: {{ . | quote }}
        {{- end }}
        {{- with .deploys.alertmanagers }}
        - name: SIDELIGHT_ALERTMANAGER_URL
          value: {{ join "," . | quote }}
        {{- end }}
        {{- with .deploys.webhookSecret }}
        - name: SIDELIGHT_DEPLOY_WEBHOOK_URL
          valueFrom:
            secretKeyRef:
              name: {{ . }}
              key: url
        - name: SIDELIGHT_DEPLOY_WEBHOOK_SECRET_FILE
          value: /etc/sidelight/webhook/secret
        {{- end }}
        {{- end }}
        {{- $taken := include "sidelight.collector.own" . | fromJsonArray }}
        {{- with $settings }}
        {{- include "sidelight.settings" (dict "given" . "own" $taken "at" $part) | trim | nindent 8 }}
        {{- end }}
        {{- with .extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or $s3.credentialsSecret .extraEnvFrom }}
      envFrom:
        {{- with $s3.credentialsSecret }}
        - secretRef:
            name: {{ . }}
        {{- end }}
        {{- with .extraEnvFrom }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        - name: {{ $port }}
          containerPort: 8080
      # before it listens, a collector reads its data since yesterday
      startupProbe:
        httpGet:
          path: {{ .pathPrefix }}/livez
          port: {{ $port }}
          {{- if $tls }}
          scheme: HTTPS
          {{- end }}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 150
      livenessProbe:
        httpGet:
          path: {{ .pathPrefix }}/livez
          port: {{ $port }}
          {{- if $tls }}
          scheme: HTTPS
          {{- end }}
        timeoutSeconds: 5
      readinessProbe:
        httpGet:
          path: {{ .pathPrefix }}/readyz
          port: {{ $port }}
          {{- if $tls }}
          scheme: HTTPS
          {{- end }}
        timeoutSeconds: 5
      {{- if $serves }}
      # new connections still arrive for this long after termination starts
      lifecycle:
        preStop:
          exec:
            command: [sleep, "5"]
      {{- end }}
      resources:
        {{- toYaml $own.resources | nindent 8 }}
      securityContext:
        {{- toYaml .securityContext | nindent 8 }}
      volumeMounts:
        - name: tmp
          mountPath: /tmp
        {{- if $directory }}
        - name: store
          mountPath: /var/lib/sidelight
        {{- end }}
        {{- if $ca }}
        - name: s3-ca
          mountPath: /etc/sidelight/s3
          readOnly: true
        {{- end }}
        {{- if $role }}
        - name: s3-token
          mountPath: /var/run/secrets/s3
          readOnly: true
        {{- end }}
        {{- if $tls }}
        - name: tls
          mountPath: /etc/sidelight/tls
          readOnly: true
        {{- end }}
        {{- if $serves }}
        {{- range $for, $secret := include "sidelight.collector.secrets" $root | fromYaml }}
        - name: {{ $for }}-tokens
          mountPath: /etc/sidelight/{{ $for }}
          readOnly: true
        {{- end }}
        {{- if or .auth.readRules .profileMetrics.rules }}
        - name: rules
          mountPath: /etc/sidelight/rules
          readOnly: true
        {{- end }}
        {{- if .cache.enabled }}
        - name: cache
          mountPath: /var/cache/sidelight
        {{- end }}
        {{- end }}
        {{- if and $tends .deploys.webhookSecret }}
        - name: webhook
          mountPath: /etc/sidelight/webhook
          readOnly: true
        {{- end }}
        {{- with .extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- if $serves }}
    {{- with .extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if $directory }}
    - name: store
      persistentVolumeClaim:
        claimName: {{ .store.directory.existingClaim | default (include "sidelight.collector.name" $root) }}
    {{- end }}
    {{- if $ca }}
    - name: s3-ca
      {{- if .store.s3.caBundle.configMap }}
      configMap:
        name: {{ $ca }}
      {{- else }}
      secret:
        secretName: {{ $ca }}
        defaultMode: 0440
      {{- end }}
    {{- end }}
    {{- if $role }}
    - name: s3-token
      projected:
        sources:
          - serviceAccountToken:
              path: token
              audience: {{ .store.s3.webIdentity.audience }}
              expirationSeconds: 3600
    {{- end }}
    {{- if $tls }}
    - name: tls
      secret:
        secretName: {{ $tls }}
        defaultMode: 0440
    {{- end }}
    {{- if $serves }}
    {{- range $for, $secret := include "sidelight.collector.secrets" $root | fromYaml }}
    - name: {{ $for }}-tokens
      secret:
        secretName: {{ $secret }}
        defaultMode: 0440
    {{- end }}
    {{- if or .auth.readRules .profileMetrics.rules }}
    - name: rules
      configMap:
        name: {{ include "sidelight.collector.name" $root }}
    {{- end }}
    {{- if .cache.enabled }}
    - name: cache
      emptyDir:
        sizeLimit: {{ .cache.sizeLimit }}
    {{- end }}
    {{- end }}
    {{- if and $tends .deploys.webhookSecret }}
    - name: webhook
      secret:
        secretName: {{ .deploys.webhookSecret }}
        defaultMode: 0440
        items:
          - key: secret
            path: secret
    {{- end }}
    {{- with .extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- $selector := dict "matchLabels" (include "sidelight.selector" (dict "root" $root "part" $part) | fromYaml) }}
    {{- range . }}
    {{- toYaml (list (set (deepCopy .) "labelSelector" (.labelSelector | default $selector))) | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The configured token Secrets, by purpose. */}}
{{- define "sidelight.collector.secrets" -}}
{{- with .Values.collector.auth }}
{{- with .writeTokensSecret }}
write: {{ . }}
{{- end }}
{{- with .readTokensSecret }}
read: {{ . }}
{{- end }}
{{- with .captureTokensSecret }}
capture: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The Secret of the collectors' certificate; empty without TLS. */}}
{{- define "sidelight.collector.tlsSecret" -}}
{{- with .Values.collector.tls }}
{{- if .certManager.enabled }}
{{- include "sidelight.collector.name" $ }}-tls
{{- else }}
{{- .existingSecret }}
{{- end }}
{{- end }}
{{- end }}

{{/* http, or https with TLS: the scheme of the collectors' URL and the name of their port. */}}
{{- define "sidelight.collector.scheme" -}}
{{- ternary "http" "https" (empty (include "sidelight.collector.tlsSecret" .)) }}
{{- end }}

{{/* The collectors' URL for sidecars. */}}
{{- define "sidelight.collector.url" -}}
{{- printf "%s://%s.%s.svc:%v%s" (include "sidelight.collector.scheme" .) (include "sidelight.collector.name" .) .Release.Namespace .Values.collector.service.port .Values.collector.pathPrefix }}
{{- end }}

{{/* Settings that the chart derives from its other values. */}}
{{- define "sidelight.collector.own" -}}
{{- list "listen" "path_prefix" "role" "store" "s3_endpoint" "cache_dir" "cache_disk_bytes"
    "allow_anonymous_writes" "allow_anonymous_reads" "tls_cert_file" "tls_key_file" "write_tokens_file" "read_tokens_file" "capture_tokens_file"
    "profile_metrics_file" "read_rules_file" "read_proxy_header" "read_proxy_groups_header" "trusted_proxies"
    "kubernetes" "token_audience" "node_agents" "kubernetes_namespaces" "discovery" "discovery_namespaces"
    "attach_image" "attach_namespaces" "attach_collector_url" "attach_ca_file"
    "public_url" "alertmanager_url" "deploy_webhook_url" "deploy_webhook_secret_file" | toJson }}
{{- end }}
