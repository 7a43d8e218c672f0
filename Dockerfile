# Two images: `sidecar` samples the processes it shares a pod with, `collector` stores and shows what was sampled.
# Behind a proxy with a CA of its own, hand the bundle to the build: --secret id=ca,src=/etc/ssl/certs/ca-certificates.crt
# `make base-images` adds and updates the digests of the base images: docs/supply-chain.md.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm
ARG RUST_IMAGE=rust:1-slim-bookworm
ARG NODE_IMAGE=node:24-bookworm-slim

FROM ${NODE_IMAGE} AS ui
ENV NODE_EXTRA_CA_CERTS=/run/secrets/ca
WORKDIR /src/web
COPY web/package.json web/package-lock.json ./
RUN --mount=type=secret,id=ca npm ci --no-audit --no-fund --loglevel=error
COPY web ./
RUN npm run build

FROM ${RUST_IMAGE} AS native
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CERT=/etc/ssl/certs/ca-certificates.crt
RUN apt-get -qq update && apt-get -qq install -y --no-install-recommends python3-venv && python3 -m venv /build
WORKDIR /src
COPY requirements/build.txt requirements/
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    /build/bin/pip install --quiet --require-hashes --requirement requirements/build.txt
COPY native native
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    /build/bin/maturin build --release --locked --strip --manifest-path native/Cargo.toml --out /wheels

FROM ${PYTHON_IMAGE} AS python
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CERT=/etc/ssl/certs/ca-certificates.crt
WORKDIR /src
RUN python -m venv /build && python -m venv --without-pip /opt/sidelight
COPY requirements/build.txt requirements/
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    /build/bin/pip install --quiet --require-hashes --requirement requirements/build.txt

FROM python AS package
COPY LICENSE ./
COPY core core
COPY model model
COPY kubernetes kubernetes
COPY sidecar sidecar
COPY collector collector
COPY injector injector
COPY mcp mcp
COPY cli cli
COPY examples examples
COPY --from=ui /src/web/dist web/dist
RUN set -e; for folder in core model kubernetes sidecar collector injector mcp cli; do \
        /build/bin/python -m build --no-isolation --wheel --outdir /wheels/$folder $folder; \
    done

FROM python AS sidecar-environment
COPY requirements/sidecar.txt requirements/
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    /build/bin/pip --python /opt/sidelight/bin/python install --quiet --require-hashes --requirement requirements/sidecar.txt
# CPython loads the C backend.
RUN rm -f /opt/sidelight/lib/python3*/site-packages/zstandard/_cffi*.so && /opt/sidelight/bin/python -c 'import zstandard'
# record and top work in the sidecar's container.
COPY --from=package /wheels/core /wheels/model /wheels/sidecar /wheels/cli /wheels/
COPY --from=native /wheels /wheels
RUN /build/bin/pip --python /opt/sidelight/bin/python install --quiet --no-deps /wheels/*.whl

FROM python AS collector-environment
COPY requirements/collector.txt requirements/
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    /build/bin/pip --python /opt/sidelight/bin/python install --quiet --require-hashes --requirement requirements/collector.txt
# A third of it is for services and file systems that no collector speaks to, for compilers, or the same library again.
RUN cd /opt/sidelight/lib/python3*/site-packages \
    && rm -rf pyarrow/tests pyarrow/include pyarrow/*flight* pyarrow/*arrow_s3* pyarrow/*s3fs* numpy/f2py numpy/*/tests \
    && rm -rf numpy/distutils pyarrow/src pyarrow/libarrow_python*.so pyarrow/libarrow_python*.so.*.*.* \
    && rm -rf kubernetes/aio zstandard/_cffi*.so \
    && find botocore/data -mindepth 1 -maxdepth 1 -type d ! -name s3 ! -name sts ! -name sso ! -name sso-oidc ! -name signin -exec rm -rf {} + \
    && /opt/sidelight/bin/python -c 'import kubernetes.config, boto3, numpy, pyarrow.compute, pyarrow.parquet, zstandard; boto3.client("s3", "us-east-1")'
# The injector checks the sidecar's settings by the sidecar's own code.
COPY --from=package /wheels/core /wheels/model /wheels/kubernetes /wheels/sidecar /wheels/collector /wheels/injector /wheels/mcp /wheels/
COPY --from=native /wheels /wheels
RUN /build/bin/pip --python /opt/sidelight/bin/python install --quiet --no-deps /wheels/*.whl

FROM ${PYTHON_IMAGE} AS runtime
ENV PATH=/opt/sidelight/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["sidelight"]

# Runs as root: Kubernetes gives capabilities to uid 0 alone, and reading another process takes SYS_PTRACE.
# Drop every other capability: docs/operations.md has the container's security context.
FROM runtime AS sidecar
COPY --from=sidecar-environment /opt/sidelight /opt/sidelight
CMD ["sidecar"]

FROM runtime AS collector
RUN useradd --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin sidelight \
    && install -d -o 10001 -g 10001 /var/lib/sidelight
COPY --from=collector-environment /opt/sidelight /opt/sidelight
USER 10001:10001
VOLUME /var/lib/sidelight
EXPOSE 8080
CMD ["collector"]
