# Made by forerun VERSION: image lenet-5, pytorch 2.13.0, flavour
# pip.

FROM docker.io/library/debian@sha256:5555555555555555555555555555555555555555555555555555555555555555

RUN apt-get update -y && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates \
        libjemalloc2 \
        python3 \
        python3-venv && \
    rm -rf /var/lib/apt/lists/*

RUN python3 -m venv /opt/venv

# pip
COPY requirements.txt /opt/forerun/requirements.txt
RUN /opt/venv/bin/python -m pip --no-cache-dir --disable-pip-version-check install -r /opt/forerun/requirements.txt && \
    rm -rf /opt/forerun/requirements.txt

ENV LD_PRELOAD="/usr/lib/x86_64-linux-gnu/libjemalloc.so.2" \
    MALLOC_CONF="oversize_threshold:1,background_thread:true,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1" \
    MKL_NUM_THREADS="2" \
    NPROC="2" \
    NVIDIA_TF32_OVERRIDE="1" \
    OMP_NUM_THREADS="2" \
    OMP_PLACES="cores" \
    OMP_PROC_BIND="close" \
    ONEDNN_DEFAULT_FPMATH_MODE="BF16" \
    OPENBLAS_NUM_THREADS="2" \
    PATH="/opt/venv/bin:$PATH" \
    TF_NUM_INTEROP_THREADS="1" \
    TF_NUM_INTRAOP_THREADS="2" \
    TORCH_ALLOW_TF32_CUBLAS_OVERRIDE="1"

COPY app /app

WORKDIR /app

LABEL forerun.flavour="pip" \
    forerun.framework="pytorch 2.13.0" \
    forerun.lock="sha256:HASH" \
    forerun.microarchitecture="zen3" \
    forerun.partition="cpu" \
    forerun.version="VERSION" \
    org.opencontainers.image.base.digest="sha256:5555555555555555555555555555555555555555555555555555555555555555" \
    org.opencontainers.image.base.name="docker.io/library/debian:bookworm-slim" \
    org.opencontainers.image.title="lenet-5"

RUN /opt/venv/bin/python -c 'import torch; print(torch.__version__)'
