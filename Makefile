# Everything a checkout needs, on Debian 12 with Python, Node, Rust and Go. `make help` lists the targets.
# What is installed goes to .venv, .tools and web/node_modules; a target that is up to date does nothing.
# Programs that are built from Go modules are kept in $(CACHE), for every checkout. requirements/tools.mk lists them.
ifndef PARALLEL
.NOTPARALLEL:
endif
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
JOBS ?= 4
VENV := .venv
BIN := $(VENV)/bin
TOOLS := .tools/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTHONS := $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo)
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' core/sidelight/__init__.py)
DISTRIBUTIONS := core model kubernetes sidecar collector injector mcp cli
export HYPOTHESIS_PROFILE ?= dev
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
# Tests start programs of ours by the hundred, each of which would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

# Not $(MAKE) itself in recipes, which would run under `make -n` as well
SUBMAKE := $(MAKE) --no-print-directory
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sidelight/tools
NATIVE_TARGETS ?= x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
include requirements/tools.mk
KUBERNETES := .tools/kubernetes-$(KUBERNETES_VERSION)
GO_TOOLS := .tools/versitygw-$(VERSITYGW_VERSION) .tools/helm-$(HELM_VERSION) .tools/kubeconform-$(KUBECONFORM_VERSION) \
	.tools/crane-$(CRANE_VERSION) .tools/helm-unittest .tools/crds-$(GATEWAY_API_VERSION)-$(PROMETHEUS_OPERATOR_VERSION)

NATIVE_SOURCES := $(shell find native -path native/target -prune -o -type f \( -name '*.rs' -o -name 'Cargo.*' -o -name '*.toml' -o -name '*.pyi' \) -print)
UI_SOURCES := $(shell find web -path web/node_modules -prune -o -path web/dist -prune -o -type f -print)

# $(call need,command,what to do when it is missing)
need = command -v $(1) >/dev/null || { echo "make: $(1) is not on PATH: $(2)" >&2; exit 1; }
# $(call debian,packages): installs those that are missing, and asks nothing of apt when none is
debian = dpkg -s $(1) >/dev/null 2>&1 || { echo "== installing Debian's $(1)"; mkdir -p .tools; exec 8>.tools/apt.lock; flock 8; \
	{ $(SUDO) apt-get -qq update && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $(1); } \
	>.tools/apt.log 2>&1 || { cat .tools/apt.log >&2; exit 1; }; }
# $(call built,name,commands that put it into $$new): built once into $(CACHE)/name, whichever checkout asks first
built = $(call need,go,install Go 1.26 or later); mkdir -p $(CACHE) $(TOOLS); exec 9>$(CACHE)/$(1).lock; flock 9; \
	[ -d $(CACHE)/$(1) ] || { echo "== building $(1) into $(CACHE)"; new=$$(mktemp -d $(CACHE)/unfinished-$(1).XXXX); \
	$(2); chmod 755 "$$new"; mv "$$new" $(CACHE)/$(1); echo "== built $(1) in $$SECONDS s"; }

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
tools: debian-tools $(GO_TOOLS) .tools/ray-daft ## the programs the tests drive: Chromium, Prometheus, an S3 server, Ray with Daft, helm and what checks the chart

.PHONY: debian-tools
debian-tools: ## those of `make tools` that Debian packages
	@$(call debian,$(DEBIAN_TOOLS))
	@$(PYTHON) -c '$(HAS_LIBPYTHON)' || { $(call debian,libpython3-dev); }

.PHONY: ceph
ceph: ## Ceph, whose S3 server has lifecycles, from Debian: for one of the long tests
	@$(call debian,$(DEBIAN_CEPH))

.PHONY: prepare
prepare: ## install and build what the first test needs: `install`, `ui` and `debian-tools` side by side
	@$(SUBMAKE) --jobs=4 PARALLEL=1 install ui debian-tools

.PHONY: pythons
pythons: python3.14 python3.15 python3.13t ## the Pythons that Debian 12 lacks, 3.14, 3.15 and free-threaded 3.13, beside pyenv's, from a later Debian

.PHONY: python3.14 python3.15 python3.13t
python3.14 python3.15 python3.13t:
	@$(call debian,patchelf $(DEBIAN_COMPILER))
	$(PYTHON) tests/interpreters/debian.py $(@:python%=%) --into $(PYTHONS) --cache .tools/debian

PYTEST := $(BIN)/python -m pytest --numprocesses=$(JOBS)

.PHONY: test-fast
test-fast: prepare ## the tests that start no process: pure code and fakes, the UI's logic included
	npm --prefix web test
	$(BIN)/python -m pytest -m fast --numprocesses=logical $(PYTEST_FLAGS)

# What has to be built is built beside the tests that do not need it. Whoever holds .tools/building.lock builds.
BUILD ?= tools
.PHONY: test
test: prepare ## every test that a change is trusted by: cargo, the UI's, pytest (JOBS=4 at a time)
	@mkdir -p .tools; exec 7>.tools/building.lock; flock 7; \
	nice $(SUBMAKE) $(BUILD) >.tools/building.log 2>&1 & building=$$!; exec 7>&-; \
	trap 'kill $$building 2>/dev/null || true' EXIT; set -x; \
	(cd native && cargo test --locked --quiet); \
	npm --prefix web test; \
	$(PYTEST) --durations=25 --durations-min=2 $(PYTEST_FLAGS); \
	{ set +x; } 2>/dev/null; wait $$building || { cat .tools/building.log >&2; exit 1; }

.PHONY: test-long
test-long: prepare cluster-tools tools ceph .tools/osv-scanner-$(OSV_SCANNER_VERSION) .tools/pyroscope-clients test-truth test-harm test-services ## hours: simulations, statistics by trial, truth, harm, services, thousands of sidecars
	$(PYTEST) -m long $(PYTEST_FLAGS)
	$(PYTEST) -m long tests/cluster $(PYTEST_FLAGS)
	$(BIN)/python -m bench.swarm
	$(BIN)/python -m bench.verdicts --quick

.PHONY: cluster-tools
cluster-tools: $(KUBERNETES) ## the programs of a Kubernetes cluster: etcd, containerd (apt), API server to kubectl (Go; 10 min at first)
	@$(call debian,$(DEBIAN_CLUSTER))

.PHONY: cluster-images
cluster-images: cluster-tools ## the images that a cluster runs, of this checkout
	@$(BIN)/python -m tests.cluster.images

.PHONY: test-cluster
test-cluster: prepare cluster-tools tools ## run the tests that need a Kubernetes cluster, on real ones of their own
	$(BIN)/python -m pytest tests/cluster --numprocesses=2 --durations=15 --durations-min=2 $(PYTEST_FLAGS)

.PHONY: test-trino
test-trino: prepare .tools/versitygw-$(VERSITYGW_VERSION) .tools/trino-server-$(TRINO_VERSION) ## run the tests of the external engine on Trino: three nodes on this machine, 2 GB of memory
	$(BIN)/python -m pytest -m trino tests/collector --durations=10 --durations-min=2 $(PYTEST_FLAGS)

.PHONY: cluster
cluster: install cluster-tools ## a Kubernetes cluster with one node and the images of this checkout, until `make cluster-down`
	$(BIN)/python -m tests.cluster.node up

.PHONY: cluster-down
cluster-down: install ## end the cluster of `make cluster` and leave the machine as it was
	$(BIN)/python -m tests.cluster.node down

.PHONY: test-truth
test-truth: install pythons ## sample programs that know what they do, on every Python found; writes bench/results/{truth,waits,free_threaded}.md (5 h)
	$(BIN)/python -m tests.truth --pages bench/results $(TRUTH_FLAGS)

# A machine that atheris has no wheel for fuzzes without it.
.PHONY: fuzz
fuzz: install ## change inputs of every parser and parameter at random (30 min); FUZZ_FLAGS="--only windows --seconds 600"
	@$(PIP) install --only-binary :all: --require-hashes --no-deps --requirement requirements/fuzz.txt || \
		echo "no coverage-guided fuzzing here: atheris has no wheel for this Python"
	$(BIN)/python -m tests.fuzz $(FUZZ_FLAGS)

.PHONY: test-mutation
test-mutation: install ## mutation testing of the store: which of twenty defects the simulation finds (1 h); MUTATION_FLAGS="--only lost-update"
	$(BIN)/python -m tests.mutation $(MUTATION_FLAGS)

.PHONY: test-harm
test-harm: install tools pythons ## try at length what sampling could do to its target; writes bench/results/harm.md (30 min)
	$(BIN)/python -m tests.harm --page bench/results/harm.md $(HARM_FLAGS)

.PHONY: lint
lint: install web/node_modules/.installed ## style, types, import rules and spelling, of all three languages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/typos
	cd native && cargo fmt --check && cargo clippy --locked --quiet --all-targets -- -D warnings
	npm --prefix web run check

.PHONY: format
format: install ## rewrite Python and Rust sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd native && cargo fmt

# The environment of `make install` where there is one, else .demo, with what the demo takes and nothing else.
DEMO := $(if $(wildcard $(VENV)/.native),$(VENV),.demo)
DEMO_PYTHON = $(if $(filter $(VENV),$(DEMO)),$(BIN),.demo/python/bin)/python
DEMO_STEPS = $(if $(filter $(VENV),$(DEMO)),"development environment=install",\
	"Python packages=.demo/.packages" "sampler (Rust)=.demo/.native")

.PHONY: demo
demo: $(if $(filter .demo,$(DEMO)),.demo/.tools) ## four services, a sidecar on each, a collector and its UI; DEMO_FLAGS="--seconds 20 --no-browser"
	@PYTHONPATH=cli $(PYTHON) -m sidelight_cli.demo.install $(DEMO_STEPS) "web UI (npm)=web/dist/.built"
	@$(DEMO_PYTHON) -m sidelight.main demo $(DEMO_FLAGS)

.PHONY: test-services
test-services: install pythons ## real services on every Python, into bench/results/support.md; SERVICES_FLAGS="--service uWSGI --missing"
	@$(call debian,$(DEBIAN_COMPILER))
	$(BIN)/python -m tests.services --page bench/results/support.md $(SERVICES_FLAGS)

.PHONY: screenshots
screenshots: install ui tools ## take the pictures of the documentation anew, of real profiles, into docs/pictures (5 min)
	$(BIN)/python -m tests.pictures --into docs/pictures $(SCREENSHOT_FLAGS)

.PHONY: bench
bench: install tools ## run the benchmarks under bench/
	for script in bench/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done
	echo "== bench/swarm"; $(BIN)/python -m bench.swarm
	echo "== bench/verdicts"; $(BIN)/python -m bench.verdicts

.PHONY: wheel
wheel: install ui ## build the wheel of each distribution, and the native wheels (x86-64, aarch64), into dist/
	rm -rf dist
	for folder in $(DISTRIBUTIONS); do $(BIN)/python -m build --wheel --no-isolation --outdir dist $$folder; done
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

.PHONY: base-images
base-images: $(VENV)/bin/python .tools/crane-$(CRANE_VERSION) ## pin the Dockerfile's base images by their newest digests; BASE_IMAGES_FLAGS=--check only compares
	$(BIN)/python deploy/base_images.py $(BASE_IMAGES_FLAGS)

.PHONY: sbom
sbom: $(VENV)/.package ## list the packages of the images, the extension and the pages (CycloneDX) and their licences in dist/sbom
	@$(call need,cargo,install Rust 1.88 or later with rustup)
	$(BIN)/python -m deploy.sbom --into dist/sbom

.PHONY: audit
audit: sbom .tools/osv-scanner-$(OSV_SCANNER_VERSION) ## look for known vulnerabilities in the packages of `make sbom`; AUDIT_FLAGS="--database DIR --image FILE"
	$(BIN)/python -m deploy.sbom.audit $(AUDIT_FLAGS)

.PHONY: chart
chart: .tools/helm-$(HELM_VERSION) $(VENV)/.package ## lint the Helm chart, write its README, what its schema says of settings, and deploy/helm/rendered/ anew
	$(BIN)/python deploy/helm/schema.py
	$(TOOLS)/helm lint --strict --quiet deploy/helm/sidelight --set collector.auth.allowAnonymousReads=true
	$(BIN)/python deploy/helm/readme.py
	$(BIN)/python deploy/helm/render.py

.PHONY: docs
docs: $(VENV)/.dependencies ## the documentation as a site with search, in dist/docs; links and anchors are checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Arrow imports pandas wherever it finds it, which chdb would bring: 0.3 s at each start, in no image of ours.
.PHONY: lock
lock: $(VENV)/bin/python ## resolve pyproject.toml's extras into requirements/*.txt; LOCK_FLAGS=--upgrade takes new versions
	$(PIP) install 'uv>=0.9'
	for extra in dev sidecar collector demo build fuzz; do \
		constraint=$$([ $$extra = dev ] || echo "--constraint requirements/dev.txt"); \
		$(BIN)/uv pip compile --quiet pyproject.toml --extra $$extra $$constraint --output-file requirements/$$extra.txt \
			--universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
			$(patsubst %,--no-emit-package %,pandas sidelight $(patsubst %,sidelight-%,$(filter-out core,$(DISTRIBUTIONS)) workspace)) $(LOCK_FLAGS); \
	done
	for file in $(CLIENTS)/requirements/*.in; do \
		$(BIN)/uv pip compile --quiet "$$file" --output-file "$${file%.in}.txt" --universal --python-version 3.11 \
			--no-emit-index-url --no-header --no-annotate $(LOCK_FLAGS); \
	done
	$(BIN)/uv pip compile --quiet $(RAY_DAFT:.txt=.in) --output-file $(RAY_DAFT) --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --no-annotate $(LOCK_FLAGS)
	for stack in tests/services/requirements/*.in; do \
		$(BIN)/uv pip compile --quiet "$$stack" --output-file "$${stack%.in}.txt" --universal --python-version 3.8 \
			--no-emit-index-url --no-header --no-annotate $(LOCK_FLAGS); \
	done

.PHONY: clean
clean: ## remove what was built; .venv, .tools and node_modules stay
	rm -rf dist web/dist native/target collector/sidelight_collector/ui .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -not -path './.venv/*' -exec rm -rf {} +

define need-python
	@$(call need,$(PYTHON),install Python 3.11 or later (apt-get install python3))
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("make: Python 3.11 or later is needed, not " + sys.version)'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { $(call debian,python3-venv); }
endef

$(VENV)/bin/python:
	$(need-python)
	$(PYTHON) -m venv $(VENV)

# Before the steps of the demo, which run side by side: apt works for one at a time, and sudo may ask for a password.
.demo/.tools:
	$(need-python)
	@$(call need,cargo,install Rust 1.88 or later with rustup)
	@$(call need,npm,install Node 20.19 or later with npm)
	@$(call debian,$(DEBIAN_COMPILER))
	@mkdir -p $(@D) && touch $@

# Modules are compiled as they are imported: of some packages the demo needs one in a hundred.
DEMO_DISTRIBUTIONS := $(filter-out injector mcp,$(DISTRIBUTIONS))
.demo/.packages: requirements/demo.txt | .demo/.tools
	$(PYTHON) -m venv --clear .demo/python
	.demo/python/bin/python -m pip --disable-pip-version-check install --progress-bar off --no-compile \
		--require-hashes --no-deps --requirement requirements/demo.txt
	printf '%s\n' ../../../../lib > "$$(echo .demo/python/lib/python3*/site-packages)/sidelight-native.pth"
	.demo/python/bin/python -m pip --disable-pip-version-check install --progress-bar off --no-deps --no-build-isolation \
		$(DEMO_DISTRIBUTIONS:%=--editable ./%)
	.demo/python/bin/python -c 'import sidelight_collector.main, sidelight_sidecar.main, sidelight_cli.demo.command, tornado.web, uvloop'
	touch $@

.demo/.native: $(NATIVE_SOURCES) | .demo/.tools
	cd native && env -u PYO3_PYTHON PYO3_NO_PYTHON=1 CARGO_TARGET_DIR=$(CURDIR)/.demo/build \
		cargo build --profile demo --locked --lib --features extension-module
	mkdir -p .demo/lib
	mv .demo/build/demo/libsidelight_native.so .demo/lib/sidelight_native.abi3.so
	rm -rf .demo/build
	touch $@

$(VENV)/.dependencies: requirements/dev.txt | $(VENV)/bin/python
	@echo "== installing Python packages into $(VENV)"
	@$(PIP) install --require-hashes --no-deps --requirement requirements/dev.txt
	touch $@

$(VENV)/.package: $(DISTRIBUTIONS:%=%/pyproject.toml) collector/hatch_build.py core/sidelight/__init__.py $(VENV)/.dependencies
	$(PIP) install --no-deps --no-build-isolation $(DISTRIBUTIONS:%=--editable ./%)
	touch $@

$(VENV)/.native: $(NATIVE_SOURCES) $(VENV)/.dependencies
	@$(call need,cargo,install Rust 1.88 or later with rustup)
	@$(call debian,$(DEBIAN_COMPILER))
	@echo "== building the native extension"
	@rm -rf .tools/wheels
	$(BIN)/maturin build --release --locked --quiet --manifest-path native/Cargo.toml --interpreter $(BIN)/python --out .tools/wheels
	$(PIP) install --no-deps --force-reinstall .tools/wheels/*.whl
	touch $@

web/node_modules/.installed: web/package.json web/package-lock.json
	@$(call need,npm,install Node 20.19 or later with npm)
	@echo "== installing the UI's packages into web/node_modules"
	@npm --prefix web ci --no-audit --no-fund --loglevel=error
	touch $@

web/dist/.built: $(UI_SOURCES) web/node_modules/.installed
	@echo "== building the UI"
	@npm --prefix web run build --silent -- --logLevel warn
	@touch $@

# $(call go-tool,program,module path,version): the stamp carries the version, so that a new one is built
define go-tool
.tools/$(1)-$(3):
	@$$(call built,$(1)-$(3),GOBIN=$$$$new go install $(2)@$(3))
	@ln -sf $(CACHE)/$(1)-$(3)/$(1) $(TOOLS)/$(1) && touch $$@
endef
$(eval $(call go-tool,versitygw,github.com/versity/versitygw/cmd/versitygw,$(VERSITYGW_VERSION)))
$(eval $(call go-tool,helm,helm.sh/helm/v3/cmd/helm,$(HELM_VERSION)))
$(eval $(call go-tool,osv-scanner,github.com/google/osv-scanner/v2/cmd/osv-scanner,$(OSV_SCANNER_VERSION)))
$(eval $(call go-tool,crane,github.com/google/go-containerregistry/cmd/crane,$(CRANE_VERSION)))
$(eval $(call go-tool,kubeconform,github.com/yannh/kubeconform/cmd/kubeconform,$(KUBECONFORM_VERSION)))

# Of modules of their own the name carries a hash
hash = $(shell cat $(sort $(wildcard $(1)/*)) | sha256sum | cut -c1-12)

HELM_UNITTEST := helm-unittest-$(call hash,tests/deploy/helm-unittest)
.tools/helm-unittest: $(wildcard tests/deploy/helm-unittest/*)
	@$(call built,$(HELM_UNITTEST),(cd tests/deploy/helm-unittest && go build -o "$$new/" github.com/helm-unittest/helm-unittest/cmd/helm-unittest))
	@ln -sf $(CACHE)/$(HELM_UNITTEST)/helm-unittest $(TOOLS)/helm-unittest && touch $@

# Clients of Pyroscope in Go, Node and Python, and Grafana's flame graph, which the long tests run
CLIENTS := tests/collector/pyroscope_clients
CLIENT_FILES := $(sort $(foreach part,flamegraph go node requirements,$(wildcard $(CLIENTS)/$(part)/*)))
CLIENTS_CACHED := pyroscope-clients-$(shell cat $(CLIENT_FILES) | sha256sum | cut -c1-12)
.tools/pyroscope-clients: $(CLIENT_FILES) $(VENV)/.dependencies
	@$(call need,npm,install Node 20.19 or later with npm)
	@$(call built,$(CLIENTS_CACHED),(cd $(CLIENTS)/go && go build -mod=readonly -o "$$new/" .); \
		cp -r $(CLIENTS)/node "$$new/node"; cp $(CLIENTS)/node/.npmrc "$$new/node"; \
		npm --prefix "$$new/node" ci --ignore-scripts --loglevel=error; \
		cp -r $(CLIENTS)/flamegraph "$$new/page"; npm --prefix "$$new/page" ci --ignore-scripts --loglevel=error; \
		npm --prefix "$$new/page" run build --silent -- --logLevel error; \
		mv "$$new/page/dist" "$$new/flamegraph"; rm -r "$$new/page"; \
		for file in $(CLIENTS)/requirements/*.txt; do name=$${file##*/}; \
			$(PIP) install --no-deps --target "$$new/$${name%.txt}" --requirement "$$file"; done)
	@touch $(CACHE)/$(CLIENTS_CACHED) && ln -sfn $(CACHE)/$(CLIENTS_CACHED) $@

# A cluster that reads a store's objects in a test: 200 MB of packages, none of which the product needs
RAY_DAFT := tests/collector/ray_daft/requirements.txt
RAY_DAFT_CACHED := ray-daft-$(shell sha256sum $(RAY_DAFT) | cut -c1-12)
.tools/ray-daft: $(RAY_DAFT)
	@$(call built,$(RAY_DAFT_CACHED),$(PYTHON) -m venv "$$new"; "$$new/bin/python" -m pip --disable-pip-version-check --quiet install \
		--require-hashes --no-deps --only-binary :all: --requirement $(RAY_DAFT))
	@touch $(CACHE)/$(RAY_DAFT_CACHED) && ln -sfn $(CACHE)/$(RAY_DAFT_CACHED) $@

# Of the server's plugins the tests need one. Others are hard links of the same files.
.tools/trino-server-$(TRINO_VERSION):
	@$(call need,mvn,install Maven (apt-get install maven) and Java 24 or later)
	@$(call built,trino-server-$(TRINO_VERSION),mvn --batch-mode --quiet -Dstyle.color=never -Dmaven.repo.local="$$new/maven" \
		$(MAVEN_DEPENDENCY):copy -Dartifact=io.trino:trino-server:$(TRINO_VERSION):tar.gz -DoutputDirectory="$$new"; \
		rm -r "$$new/maven"; tar -xzf "$$new"/*.tar.gz -C "$$new" --strip-components=1; rm "$$new"/*.tar.gz; \
		find "$$new/plugin" -mindepth 1 -maxdepth 1 ! -name hive -exec rm -r {} +)
	@touch $(CACHE)/trino-server-$(TRINO_VERSION) && ln -sfn $(CACHE)/trino-server-$(TRINO_VERSION) $@

KUBERNETES_FLAGS = -s -w $(foreach value,component-base/version.gitVersion=$(KUBERNETES_VERSION) \
	component-base/version.gitMajor=1 component-base/version.gitMinor=$(word 2,$(subst ., ,$(KUBERNETES_VERSION))) \
	client-go/pkg/version.gitVersion=$(KUBERNETES_VERSION),-X k8s.io/$(value))
KUBERNETES_CACHED := kubernetes-$(KUBERNETES_VERSION)-$(call hash,tests/cluster/kubernetes)
KUBERNETES_PROGRAMS := kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubectl kubelet
$(KUBERNETES): $(wildcard tests/cluster/kubernetes/*)
	@$(call built,$(KUBERNETES_CACHED),mkdir "$$new/bin"; (cd tests/cluster/kubernetes && CGO_ENABLED=0 \
		go build -mod=readonly -trimpath -ldflags '$(KUBERNETES_FLAGS)' -o "$$new/bin/kubernetes" .); \
		for name in $(KUBERNETES_PROGRAMS); do ln -s kubernetes "$$new/bin/$$name"; done)
	@touch $(CACHE)/$(KUBERNETES_CACHED) && ln -sfn $(CACHE)/$(KUBERNETES_CACHED) $@

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
