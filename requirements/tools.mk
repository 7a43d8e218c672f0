# Programs that the tests drive, and where each comes from. What Debian packages is installed with apt; only the rest
# is built, once for each version, into $(CACHE), which all checkouts of this user share.

# --- Debian 12's packages -------------------------------------------------------------------------
# a browser without windows, and a font for its pictures
DEBIAN_BROWSER := chromium-headless-shell fonts-dejavu-core
# Prometheus 2.42 with promtool, Alertmanager 0.25
DEBIAN_MONITORING := prometheus prometheus-alertmanager
DEBIAN_COMPILER := gcc libc6-dev
# an S3 server with lifecycles, for one of the long tests alone
DEBIAN_CEPH := ceph-mon ceph-osd radosgw
DEBIAN_TOOLS := $(DEBIAN_BROWSER) $(DEBIAN_MONITORING) $(DEBIAN_COMPILER) curl
# what a cluster with a node needs beside Kubernetes' own programs
DEBIAN_CLUSTER := etcd-server containerd runc containernetworking-plugins buildah catatonit debootstrap iproute2 nftables conntrack \
	$(if $(filter x86_64,$(shell uname -m)),user-mode-linux)

# --- Built from Go modules: Debian 12 has no package -----------------------------------------------
# an S3 server with exact conditional writes
VERSITYGW_VERSION := v1.8.0
# asks registries for the digests of images, and is a registry in tests
CRANE_VERSION := v0.22.1
# looks for known vulnerabilities: make audit
OSV_SCANNER_VERSION := v2.5.0
HELM_VERSION := v3.21.4
KUBECONFORM_VERSION := v0.8.0
# helm-unittest and Kubernetes have modules of their own, which pin them: tests/deploy/helm-unittest, tests/cluster/kubernetes
KUBERNETES_VERSION := $(shell sed -n 's/^.*k8s.io\/kubernetes \(v[^ ]*\).*/\1/p' tests/cluster/kubernetes/go.mod)

# --- Files out of Go modules: definitions of kinds that are not Kubernetes' own ---------------------
GATEWAY_API_VERSION := v1.3.0
PROMETHEUS_OPERATOR_VERSION := v0.83.0

# --- From the Python registry, for `make wheel` alone -----------------------------------------------
ZIG_VERSION := 0.17.1

# --- From the Maven registry, for `make test-trino` alone --------------------------------------------
TRINO_VERSION := 476
MAVEN_DEPENDENCY := org.apache.maven.plugins:maven-dependency-plugin:3.8.1
