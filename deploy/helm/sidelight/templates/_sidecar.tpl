{{/*
The sidecar, for a service's own chart that has this one as a dependency (with collector.enabled: false):

    spec:
      shareProcessNamespace: true
      containers:
        - name: app
        {{- include "sidelight.sidecar" (dict "root" . "service" "checkout" "version" .Values.image.tag) | nindent 8 }}
      volumes:
        {{- include "sidelight.sidecar.volumes" . | nindent 8 }}

`root` is the service chart's own dot; the settings are its values under `sidelight.sidecar`. The pod shares
one PID namespace, so its containers see each other's processes. Pod Security "baseline" refuses SYS_PTRACE:
the namespace needs the label pod-security.kubernetes.io/enforce: privileged, or an exemption. There is no
readiness probe: a collector that is away must not take the service out of rotation.
*/}}
{{- define "sidelight.sidecar" -}}
{{- $chart := .root.Subcharts.sidelight.Chart }}
{{- with .root.Values.sidelight.sidecar -}}
- name: sidelight
  image: "{{ .image.repository }}:{{ .image.tag | default $chart.AppVersion }}"
  imagePullPolicy: {{ .image.pullPolicy }}
  args:
    - sidecar
    {{- if not (hasKey (.settings | default dict) "match") }}
    - --all
    {{- end }}
  env:
    - name: SIDELIGHT_COLLECTOR
      value: {{ required "sidelight.sidecar.collector: the collector's URL is needed" .collector | quote }}
    - name: SIDELIGHT_SERVICE
      value: {{ required "sidelight.sidecar: the service's name is needed" $.service | quote }}
    - name: SIDELIGHT_VERSION
      value: {{ required "sidelight.sidecar: the service's version is needed" $.version | quote }}
    - name: SIDELIGHT_LISTEN
      value: 0.0.0.0:{{ .port }}
    - name: SIDELIGHT_SPOOL_DIR
      value: /var/spool/sidelight
    {{- if .tokenSecret }}
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
    {{- toYaml .securityContext | nindent 4 }}
  volumeMounts:
    - name: sidelight
      mountPath: /var/spool/sidelight
      subPath: spool
    - name: sidelight
      mountPath: /tmp
      subPath: tmp
    {{- if .tokenSecret }}
    - name: sidelight-token
      mountPath: /etc/sidelight
      readOnly: true
    {{- end }}
{{- end }}
{{- end }}

{{- define "sidelight.sidecar.volumes" -}}
{{- with .Values.sidelight.sidecar -}}
- name: sidelight
  emptyDir:
    sizeLimit: {{ .volumeSize }}
{{- with .tokenSecret }}
- name: sidelight-token
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- end }}
