{{/* Refuses values that cannot work together; each message says what to set. */}}
{{- define "sidelight.checks" -}}
{{- with .Values.collector }}
{{- $directory := eq .store.kind "directory" }}
{{- if and $directory (gt (int .replicas) 1) }}
{{- fail "collector.replicas: a directory store has one collector; set collector.store.kind to s3 for more" }}
{{- end }}
{{- if and $directory .autoscaling.enabled }}
{{- fail "collector.autoscaling: a directory store has one collector; set collector.store.kind to s3 for more" }}
{{- end }}
{{- if and $directory $.Values.compactor.enabled }}
{{- fail "compactor.enabled: with a directory store the collector compacts itself; set collector.store.kind to s3" }}
{{- end }}
{{- if and .autoscaling.enabled (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) }}
{{- fail "collector.autoscaling.minReplicas is above maxReplicas" }}
{{- end }}
{{- if and .autoscaling.enabled (not (or .autoscaling.targetCPUUtilizationPercentage .autoscaling.targetMemoryUtilizationPercentage)) }}
{{- fail "collector.autoscaling: set a target, such as targetCPUUtilizationPercentage=75" }}
{{- end }}
{{- if and (not $directory) (not .store.s3.url) }}
{{- fail "collector.store.s3.url: an S3 store needs its url, s3://bucket/prefix" }}
{{- end }}
{{- if and .store.s3.caBundle.configMap .store.s3.caBundle.secret }}
{{- fail "collector.store.s3.caBundle: name a configMap or a secret, not both" }}
{{- end }}
{{- if and .store.s3.credentialsSecret .store.s3.webIdentity.roleArn }}
{{- fail "collector.store.s3: credentialsSecret overrides webIdentity.roleArn; set only one of them" }}
{{- end }}
{{- if not (or .auth.writeTokensSecret .auth.allowAnonymousWrites $.Values.kubernetes.identity) }}
{{- fail "collector.auth.writeTokensSecret: name a Secret with write tokens, or set kubernetes.identity or collector.auth.allowAnonymousWrites" }}
{{- end }}
{{- if and .auth.writeTokensSecret .auth.allowAnonymousWrites }}
{{- fail "collector.auth: writeTokensSecret has no effect with allowAnonymousWrites; set only one of them" }}
{{- end }}
{{- $readers := or .auth.readTokensSecret .auth.proxy.userHeader }}
{{- if not (or $readers .auth.allowAnonymousReads) }}
{{- fail "collector.auth.readTokensSecret: name a Secret with read tokens, or set collector.auth.proxy, or collector.auth.allowAnonymousReads to let everybody in the cluster read profiles" }}
{{- end }}
{{- if and $readers .auth.allowAnonymousReads }}
{{- fail "collector.auth.allowAnonymousReads: not together with readTokensSecret or proxy, which say who reads" }}
{{- end }}
{{- if and .profileMetrics.rules $readers $.Values.monitoring.serviceMonitor.enabled (not .profileMetrics.tokenSecret) }}
{{- fail "collector.profileMetrics.tokenSecret: name a Secret with a read token, for Prometheus to read metrics from profiles" }}
{{- end }}
{{- if and .tls.existingSecret .tls.certManager.enabled }}
{{- fail "collector.tls: cert-manager writes a Secret of its own; set existingSecret or certManager.enabled, not both" }}
{{- end }}
{{- if ne (empty .auth.proxy.userHeader) (empty .auth.proxy.trusted) }}
{{- fail "collector.auth.proxy: collectors read headers only from trusted proxies; set both userHeader and trusted, or neither" }}
{{- end }}
{{- if and .auth.proxy.groupsHeader (not .auth.proxy.userHeader) }}
{{- fail "collector.auth.proxy.groupsHeader: set userHeader too" }}
{{- end }}
{{- if and .ingress.enabled (not .ingress.hosts) }}
{{- fail "collector.ingress.hosts: name at least one host" }}
{{- end }}
{{- if and .httpRoute.enabled (not .httpRoute.parentRefs) }}
{{- fail "collector.httpRoute.parentRefs: name a Gateway" }}
{{- end }}
{{- if and (not .serviceAccount.create) (not .serviceAccount.name) }}
{{- fail "collector.serviceAccount.name: name an existing service account, or set create" }}
{{- end }}
{{- $own := and $.Values.injector.enabled $.Values.sidecar.serviceAccountToken.enabled (not $.Values.sidecar.tokenSecret) (not .auth.allowAnonymousWrites) }}
{{- if and $own (not $.Values.kubernetes.identity) }}
{{- fail "sidecar.tokenSecret: without kubernetes.identity the collector accepts no pod's token; name a Secret with a write token" }}
{{- end }}
{{- if and $own (ne $.Values.kubernetes.audience $.Values.sidecar.serviceAccountToken.audience) }}
{{- fail "sidecar.serviceAccountToken.audience: the collector accepts only tokens for kubernetes.audience; set both to the same value" }}
{{- end }}
{{- if and $.Values.agent.enabled (not $.Values.agent.collector) (not $.Values.kubernetes.identity) }}
{{- fail "agent.enabled: the collector knows an agent by its token; set kubernetes.identity" }}
{{- end }}
{{- if and $.Values.kubernetes.attach (not (or $.Values.kubernetes.attachNamespaces $.Values.kubernetes.namespaces)) }}
{{- fail "kubernetes.attachNamespaces: name the namespaces whose pods may get a container with SYS_PTRACE; [\"*\"] means all" }}
{{- end }}
{{- if and $.Values.kubernetes.discovery (gt (len $.Values.kubernetes.namespaces) 20) }}
{{- fail "kubernetes.namespaces: the collector watches at most 20; set [] for the whole cluster, or kubernetes.discovery to false" }}
{{- end }}
{{- end }}
{{- end }}
