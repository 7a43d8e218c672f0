# Everything a checkout needs, on Debian 12 with Python, Node, Rust and Go. `make help` lists the targets.
# What is installed goes to .venv, .tools and web/node_modules; a target that is up to date does nothing.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
JOBS ?= 3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := .tools/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTHONS := $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo)
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' sidelight/__init__.py)
export HYPOTHESIS_PROFILE ?= dev
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
# Tests start programs of ours by the hundred, each of which would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

VERSITYGW_VERSION := v1.8.0
HELM_VERSION := v3.21.4
KUBECONFORM_VERSION := v0.8.0
# The module of v0.34 lacks its pages, and does not build without them.
ALERTMANAGER_VERSION := v0.28.1
PROMETHEUS_VERSION := v0.316.0
GATEWAY_API_VERSION := v1.3.0
PROMETHEUS_OPERATOR_VERSION := v0.83.0
ZIG_VERSION := 0.17.1
NATIVE_TARGETS ?= x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
KUBERNETES_VERSION := $(shell sed -n 's/^.*k8s.io\/kubernetes \(v[^ ]*\).*/\1/p' tests/cluster/kubernetes/go.mod)
KUBERNETES := .tools/kubernetes-$(KUBERNETES_VERSION)
GO_TOOLS := .tools/versitygw-$(VERSITYGW_VERSION) .tools/helm-$(HELM_VERSION) .tools/kubeconform-$(KUBECONFORM_VERSION) \
	.tools/alertmanager-$(ALERTMANAGER_VERSION) .tools/prometheus-$(PROMETHEUS_VERSION) .tools/helm-unittest .tools/promrules .tools/crds-$(GATEWAY_API_VERSION)-$(PROMETHEUS_OPERATOR_VERSION)

NATIVE_SOURCES := $(shell find native -path native/target -prune -o -type f \( -name '*.rs' -o -name 'Cargo.*' -o -name '*.toml' -o -name '*.pyi' \) -print)
UI_SOURCES := $(shell find web -path web/node_modules -prune -o -path web/dist -prune -o -type f -print)

# $(call need,command,what to do when it is missing)
need = command -v $(1) >/dev/null || { echo "make: $(1) is not on PATH: $(2)" >&2; exit 1; }
# $(call debian,packages): installs those that are missing, and asks nothing of apt when none is
debian = dpkg -s $(1) >/dev/null 2>&1 || { $(SUDO) apt-get -qq update && \
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $(1); }

# A test embeds Python in a C program. Debian's interpreter has its shared library in a package of its own.
HAS_LIBPYTHON := import os, sys, sysconfig; var = sysconfig.get_config_var; \
	sys.exit(not os.path.exists(os.path.join(var("LIBDIR") or "", var("LDLIBRARY") or "missing")))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9.-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: install
install: $(VENV)/.package $(VENV)/.native ## locked dependencies, the package (editable) and the native extension in .venv

.PHONY: native
native: $(VENV)/.native ## build the native extension and install it in .venv

.PHONY: ui
ui: web/dist/.built ## build the web UI into web/dist

.PHONY: tools
tools: $(GO_TOOLS) ## the programs the tests drive: Chromium, versitygw, helm and what checks the chart
	@$(call debian,chromium-headless-shell curl fonts-dejavu-core gcc libc6-dev)
	@$(PYTHON) -c '$(HAS_LIBPYTHON)' || { $(call debian,libpython3-dev); }

.PHONY: python3.14
python3.14: ## a Python 3.14 beside pyenv's, from a later Debian's packages (Debian 12 has none)
	@$(call debian,patchelf)
	$(PYTHON) tests/interpreters/debian.py 3.14 --into $(PYTHONS) --cache .tools/debian

.PHONY: test
test: install ui tools ## run every test: cargo, the UI's, pytest (JOBS=3 at a time)
	cd native && cargo test --locked --quiet
	npm --prefix web test
	$(BIN)/python -m pytest --numprocesses=$(JOBS) $(PYTEST_FLAGS)

.PHONY: cluster-tools
cluster-tools: $(KUBERNETES)/.built ## the programs of a Kubernetes cluster: etcd, containerd (apt), API server to kubectl (Go; 10 min at first)
	@$(call debian,etcd-server containerd runc containernetworking-plugins buildah catatonit debootstrap iproute2 nftables conntrack)

.PHONY: test-cluster
test-cluster: install cluster-tools tools ## run the tests that need a Kubernetes cluster, on real ones of their own
	$(BIN)/python -m pytest tests/cluster --numprocesses=2 $(PYTEST_FLAGS)

.PHONY: cluster
cluster: install cluster-tools ## a Kubernetes cluster with one node and the images of this checkout, until `make cluster-down`
	$(BIN)/python -m tests.cluster.node up

.PHONY: cluster-down
cluster-down: install ## end the cluster of `make cluster` and leave the machine as it was
	$(BIN)/python -m tests.cluster.node down

.PHONY: test-truth
test-truth: install ## sample programs that know what they do, on every Python found; writes docs/truth.md (2 h)
	$(BIN)/python -m tests.truth --page docs/truth.md $(TRUTH_FLAGS)

.PHONY: test-harm
test-harm: install tools ## try at length what sampling could do to its target; writes docs/harm.md (30 min)
	$(BIN)/python -m tests.harm --page docs/harm.md $(HARM_FLAGS)

.PHONY: lint
lint: install web/node_modules/.installed ## style, types and import rules of all three languages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	cd native && cargo fmt --check && cargo clippy --locked --quiet --all-targets -- -D warnings
	npm --prefix web run check

.PHONY: format
format: install ## rewrite Python and Rust sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd native && cargo fmt

.PHONY: demo
demo: install ui ## four services, a sidecar on each, a collector and its UI; DEMO_FLAGS="--seconds 20 --no-browser"
	$(BIN)/sidelight demo $(DEMO_FLAGS)

.PHONY: test-services
test-services: install python3.14 ## real services on every Python, into docs/support.md; SERVICES_FLAGS="--service uWSGI --missing"
	@$(call debian,gcc libc6-dev)
	$(BIN)/python -m tests.services --page docs/support.md $(SERVICES_FLAGS)

.PHONY: screenshots
screenshots: install ui tools ## take the pictures of the documentation anew, of real profiles, into docs/pictures (5 min)
	$(BIN)/python -m tests.pictures --into docs/pictures $(SCREENSHOT_FLAGS)

.PHONY: bench
bench: install tools ## run the benchmarks under bench/
	for script in bench/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done
	echo "== bench/swarm"; $(BIN)/python -m bench.swarm
	echo "== bench/verdicts"; $(BIN)/python -m bench.verdicts

.PHONY: wheel
wheel: install ui ## build the sdist, the wheel and the native wheels (x86-64, aarch64) into dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(PIP) install ziglang==$(ZIG_VERSION)
	for target in $(NATIVE_TARGETS); do \
		[ -d "$$(rustc --print sysroot)/lib/rustlib/$$target" ] || rustup target add "$$target" || \
			{ echo "make: no Rust standard library for $$target: add it, or set NATIVE_TARGETS" >&2; exit 1; }; \
		$(BIN)/maturin build --release --locked --quiet --zig --target "$$target" --compatibility manylinux_2_28 \
			--manifest-path native/Cargo.toml --out dist; \
	done

.PHONY: image
image: ## build the images sidelight-sidecar and sidelight-collector with podman, buildah or docker
	builder=$$(command -v podman || command -v buildah || command -v docker) || \
		{ echo "make: none of podman, buildah, docker is on PATH: install one (apt-get install podman)" >&2; exit 1; }; \
	for part in sidecar collector; do \
		"$$builder" build $(IMAGE_FLAGS) --target $$part --tag sidelight-$$part:$(VERSION) .; \
	done

.PHONY: chart
chart: .tools/helm-$(HELM_VERSION) $(VENV)/.package ## lint the Helm chart, write its README, what its schema says of settings, and deploy/helm/rendered/ anew
	$(BIN)/python deploy/helm/schema.py
	$(TOOLS)/helm lint --strict --quiet deploy/helm/sidelight
	$(BIN)/python deploy/helm/readme.py
	$(BIN)/python deploy/helm/render.py

# Arrow imports pandas wherever it finds it, which chdb would bring: 0.3 s at each start, in no image of ours.
.PHONY: lock
lock: $(VENV)/bin/python ## resolve pyproject.toml's extras into requirements/*.txt; LOCK_FLAGS=--upgrade takes new versions
	$(PIP) install 'uv>=0.9'
	for extra in dev sidecar collector build; do \
		constraint=$$([ $$extra = dev ] || echo "--constraint requirements/dev.txt"); \
		$(BIN)/uv pip compile --quiet pyproject.toml --extra $$extra $$constraint --output-file requirements/$$extra.txt \
			--universal --generate-hashes --no-emit-index-url --no-header --no-annotate --no-emit-package pandas $(LOCK_FLAGS); \
	done
	for stack in tests/services/requirements/*.in; do \
		$(BIN)/uv pip compile --quiet "$$stack" --output-file "$${stack%.in}.txt" --universal --python-version 3.8 \
			--no-emit-index-url --no-header --no-annotate $(LOCK_FLAGS); \
	done

.PHONY: clean
clean: ## remove what was built; .venv, .tools and node_modules stay
	rm -rf dist web/dist native/target sidelight/collector/ui .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -not -path './.venv/*' -exec rm -rf {} +

$(VENV)/bin/python:
	@$(call need,$(PYTHON),install Python 3.11 or later (apt-get install python3))
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("make: Python 3.11 or later is needed, not " + sys.version)'
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || { $(call debian,python3-venv); }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.dependencies: requirements/dev.txt | $(VENV)/bin/python
	$(PIP) install --require-hashes --no-deps --requirement requirements/dev.txt
	touch $@

$(VENV)/.package: pyproject.toml hatch_build.py sidelight/__init__.py $(VENV)/.dependencies
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.native: $(NATIVE_SOURCES) $(VENV)/.dependencies
	@$(call need,cargo,install Rust 1.88 or later with rustup)
	@$(call debian,gcc libc6-dev)
	rm -rf .tools/wheels
	$(BIN)/maturin build --release --locked --quiet --manifest-path native/Cargo.toml --interpreter $(BIN)/python --out .tools/wheels
	$(PIP) install --no-deps --force-reinstall .tools/wheels/*.whl
	touch $@

web/node_modules/.installed: web/package.json web/package-lock.json
	@$(call need,npm,install Node 20.19 or later with npm)
	npm --prefix web ci --no-audit --no-fund --loglevel=error
	touch $@

web/dist/.built: $(UI_SOURCES) web/node_modules/.installed
	npm --prefix web run build
	touch $@

# $(call go-tool,program,module path,version): the stamp carries the version, so that a new one is built
define go-tool
.tools/$(1)-$(3):
	@$$(call need,go,install Go 1.26 or later)
	GOBIN=$$(CURDIR)/$$(TOOLS) go install $(2)@$(3)
	touch $$@
endef
$(eval $(call go-tool,versitygw,github.com/versity/versitygw/cmd/versitygw,$(VERSITYGW_VERSION)))
$(eval $(call go-tool,helm,helm.sh/helm/v3/cmd/helm,$(HELM_VERSION)))
$(eval $(call go-tool,alertmanager,github.com/prometheus/alertmanager/cmd/alertmanager,$(ALERTMANAGER_VERSION)))
# Without the discovery of clouds, of which one needs a module that is not to be had
.tools/prometheus-$(PROMETHEUS_VERSION):
	@$(call need,go,install Go 1.26 or later)
	GOBIN=$(CURDIR)/$(TOOLS) go install -tags remove_all_sd github.com/prometheus/prometheus/cmd/prometheus@$(PROMETHEUS_VERSION)
	touch $@

$(eval $(call go-tool,kubeconform,github.com/yannh/kubeconform/cmd/kubeconform,$(KUBECONFORM_VERSION)))

KUBERNETES_FLAGS = -s -w $(foreach value,component-base/version.gitVersion=$(KUBERNETES_VERSION) \
	component-base/version.gitMajor=1 component-base/version.gitMinor=$(word 2,$(subst ., ,$(KUBERNETES_VERSION))) \
	client-go/pkg/version.gitVersion=$(KUBERNETES_VERSION),-X k8s.io/$(value))

$(KUBERNETES)/.built: $(wildcard tests/cluster/kubernetes/*)
	@$(call need,go,install Go 1.26 or later)
	mkdir -p $(KUBERNETES)/bin
	cd tests/cluster/kubernetes && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags '$(KUBERNETES_FLAGS)' \
		-o $(CURDIR)/$(KUBERNETES)/bin/kubernetes .
	for name in kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubectl kubelet; do \
		ln -sf kubernetes $(KUBERNETES)/bin/$$name; \
	done
	touch $@

# $(call go-module,program,directory,package): from a module of its own, where one line of go.mod or a file of ours is needed
define go-module
.tools/$(1): $(wildcard $(2)/*)
	@$$(call need,go,install Go 1.26 or later)
	mkdir -p $(TOOLS)
	cd $(2) && go build -o $$(CURDIR)/$$(TOOLS)/$(1) $(3)
	touch $$@
endef
$(eval $(call go-module,helm-unittest,tests/deploy/helm-unittest,github.com/helm-unittest/helm-unittest/cmd/helm-unittest))
$(eval $(call go-module,promrules,tests/deploy/promrules,.))

# The definitions of the kinds that are not Kubernetes' own, out of the Go modules that they are published in
.tools/crds-$(GATEWAY_API_VERSION)-$(PROMETHEUS_OPERATOR_VERSION):
	@$(call need,go,install Go 1.26 or later)
	rm -rf .tools/crds && mkdir -p .tools/crds
	gateway=$$(go mod download -json sigs.k8s.io/gateway-api@$(GATEWAY_API_VERSION) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'); \
		cp "$$gateway"/config/crd/standard/gateway.networking.k8s.io_httproutes.yaml .tools/crds
	operator=$$(go mod download -json github.com/prometheus-operator/prometheus-operator@$(PROMETHEUS_OPERATOR_VERSION) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'); \
		cp "$$operator"/example/prometheus-operator-crd/monitoring.coreos.com_{servicemonitors,podmonitors,prometheusrules}.yaml .tools/crds
	chmod -R u+w .tools/crds
	touch $@
