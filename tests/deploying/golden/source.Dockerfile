# Made by forerun VERSION: image lenet-5, pytorch 2.13.0, flavour
# source.

FROM docker.io/library/debian:bookworm-slim AS build

RUN apt-get update -y && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates \
        g++ \
        gcc \
        libjemalloc2 \
        libopenblas-dev \
        libopenblas0-pthread \
        make \
        pkg-config \
        python3 \
        python3-dev \
        python3-venv && \
    rm -rf /var/lib/apt/lists/*

RUN python3 -m venv /opt/venv

# pip
RUN CFLAGS='-O3 -march=znver3 -mtune=znver3 -frecord-gcc-switches' CXXFLAGS='-O3 -march=znver3 -mtune=znver3 -frecord-gcc-switches' /opt/venv/bin/python -m pip --no-cache-dir --disable-pip-version-check install numpy==2.4.6 torch==2.13.0 --only-binary :all: --no-binary numpy --extra-index-url https://download.pytorch.org/whl/cpu

FROM docker.io/library/debian:bookworm-slim

RUN apt-get update -y && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates \
        libjemalloc2 \
        libopenblas0-pthread \
        python3 \
        python3-venv && \
    rm -rf /var/lib/apt/lists/*

COPY --from=build /opt/venv /opt/venv

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

LABEL forerun.flavour="source" \
    forerun.framework="pytorch 2.13.0" \
    forerun.microarchitecture="zen3" \
    forerun.partition="cpu" \
    forerun.version="VERSION" \
    org.opencontainers.image.base.name="docker.io/library/debian:bookworm-slim" \
    org.opencontainers.image.title="lenet-5"

RUN /opt/venv/bin/python -c 'import torch; print(torch.__version__)'
