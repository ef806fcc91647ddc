# Made by forerun VERSION: image lenet-5, tensorflow 2.21.0,
# flavour official.

FROM docker.io/tensorflow/tensorflow:2.21.0-gpu

RUN apt-get update -y && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        libjemalloc2 && \
    rm -rf /var/lib/apt/lists/*

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
    TF_NUM_INTEROP_THREADS="1" \
    TF_NUM_INTRAOP_THREADS="2" \
    TORCH_ALLOW_TF32_CUBLAS_OVERRIDE="1"

COPY app /app

WORKDIR /app

LABEL forerun.flavour="official" \
    forerun.framework="tensorflow 2.21.0" \
    forerun.microarchitecture="icelake" \
    forerun.partition="gpu" \
    forerun.version="VERSION" \
    org.opencontainers.image.base.name="docker.io/tensorflow/tensorflow:2.21.0-gpu" \
    org.opencontainers.image.title="lenet-5"

RUN /usr/bin/env python3 -c 'import tensorflow; print(tensorflow.__version__)'
