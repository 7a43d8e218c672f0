{{/* Values that each may be right and cannot work together: each refusal says what to set. */}}
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
{{- fail "collector.autoscaling: give a target, as targetCPUUtilizationPercentage=75" }}
{{- end }}
{{- if and (not $directory) (not .store.s3.url) }}
{{- fail "collector.store.s3.url: an S3 store needs its url, s3://bucket/prefix" }}
{{- end }}
{{- if and .store.s3.caBundle.configMap .store.s3.caBundle.secret }}
{{- fail "collector.store.s3.caBundle: name a configMap or a secret, not both" }}
{{- end }}
{{- if and .store.s3.credentialsSecret .store.s3.webIdentity.roleArn }}
{{- fail "collector.store.s3: credentialsSecret would hide webIdentity.roleArn from the SDK; give one of them" }}
{{- end }}
{{- if not (or .auth.writeTokensSecret .auth.allowAnonymousWrites $.Values.kubernetes.identity) }}
{{- fail "collector.auth.writeTokensSecret: name a Secret with the tokens that may write (or set kubernetes.identity, or collector.auth.allowAnonymousWrites)" }}
{{- end }}
{{- if and .auth.writeTokensSecret .auth.allowAnonymousWrites }}
{{- fail "collector.auth: writeTokensSecret means nothing with allowAnonymousWrites; give one of them" }}
{{- end }}
{{- if ne (empty .auth.proxy.userHeader) (empty .auth.proxy.trusted) }}
{{- fail "collector.auth.proxy: a header counts only from proxies that are trusted; give userHeader and trusted, or neither" }}
{{- end }}
{{- if and .auth.proxy.groupsHeader (not .auth.proxy.userHeader) }}
{{- fail "collector.auth.proxy.groupsHeader: name the header with the user too (userHeader)" }}
{{- end }}
{{- if and .ingress.enabled (not .ingress.hosts) }}
{{- fail "collector.ingress.hosts: name the hosts it answers to" }}
{{- end }}
{{- if and .httpRoute.enabled (not .httpRoute.parentRefs) }}
{{- fail "collector.httpRoute.parentRefs: name the Gateway it is attached to" }}
{{- end }}
{{- if and (not .serviceAccount.create) (not .serviceAccount.name) }}
{{- fail "collector.serviceAccount.name: name the service account, for none is created" }}
{{- end }}
{{- $own := and $.Values.injector.enabled $.Values.sidecar.serviceAccountToken.enabled (not $.Values.sidecar.tokenSecret) (not .auth.allowAnonymousWrites) }}
{{- if and $own (not $.Values.kubernetes.identity) }}
{{- fail "sidecar.tokenSecret: without kubernetes.identity no pod's own token is taken; name a Secret with a token that may write" }}
{{- end }}
{{- if and $own (ne $.Values.kubernetes.audience $.Values.sidecar.serviceAccountToken.audience) }}
{{- fail "sidecar.serviceAccountToken.audience: the collector takes tokens for kubernetes.audience alone; give both the same" }}
{{- end }}
{{- if and $.Values.kubernetes.attach (not (or $.Values.kubernetes.attachNamespaces $.Values.kubernetes.namespaces)) }}
{{- fail "kubernetes.attachNamespaces: name the namespaces whose pods may get a container with SYS_PTRACE; [\"*\"] is all" }}
{{- end }}
{{- if and $.Values.kubernetes.discovery (gt (len $.Values.kubernetes.namespaces) 20) }}
{{- fail "kubernetes.namespaces: at most 20 are watched one by one; leave it empty, or set kubernetes.discovery to false" }}
{{- end }}
{{- end }}
{{- end }}
