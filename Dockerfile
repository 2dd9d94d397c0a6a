# The image of the daemon. From a checkout:
#
#   docker build -t registry.example.com/numaplace:0.1.0 .
#
# Another base, by digest or from a mirror, needs Python 3.11 with venv in both stages:
#
#   docker build --build-arg BASE=mirror.example.com/python:3.11-slim -t ... .
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /src
# A virtual environment without pip: only what runs is copied into the image.
RUN python3 -m venv --without-pip /opt/numaplace && python3 -m venv /opt/build
COPY requirements/run.lock requirements/build.lock requirements/
RUN /opt/build/bin/pip --python /opt/numaplace/bin/python install \
        --no-cache-dir --no-compile --require-hashes -r requirements/run.lock \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/build.lock
COPY pyproject.toml README.md LICENSE ./
COPY plugin plugin
# Bytecode by hash, not by time: the image is then the same whenever it is built. Without bytecode a start takes
# 0.6 s longer, and a read-only root cannot keep what Python compiles.
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/build/bin/pip --python /opt/numaplace/bin/python install \
        --no-cache-dir --no-compile --no-deps /wheels/*.whl \
    && /opt/numaplace/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/numaplace/lib

# What is in the image: the packages of Python as they are installed, and those of the base.
COPY requirements/sbom.lock requirements/
RUN python3 -m venv /opt/sbom \
    && /opt/sbom/bin/pip install --no-cache-dir --require-hashes -r requirements/sbom.lock
COPY image/sbom.py image/
RUN /opt/sbom/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
        /opt/numaplace/bin/python >/tmp/python.json \
    && /opt/sbom/bin/python image/sbom.py </tmp/python.json >/opt/numaplace/sbom.cdx.json

FROM ${BASE}
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="numaplace" \
      org.opencontainers.image.description="A Kubernetes device plugin that puts SR-IOV VFs and GPUs on the right NUMA node" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
COPY --from=build /opt/numaplace /opt/numaplace
ENV PATH=/opt/numaplace/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# The kubelet's sockets belong to root, so `run` needs user 0, but no capability: run it with all of them dropped.
# Commands that open no socket (simulate, explain, config check) work as any user.
USER 0
EXPOSE 9477
ENTRYPOINT ["numaplace"]
