"""Six networks from MODAK's MNIST-CNN to ResNet-50, as lists of layers for any framework.

A layer is a word and its numbers: ("conv", filters, kernel, stride), ("norm",), ("relu",),
("maxpool", size, stride), ("meanpool",) over the whole image, ("flatten",), ("dense", units),
("dropout", rate), or ("residual", layers, layers of the shortcut). Convolutions pad by half their
kernel, but those of the MNIST-CNN, as published, do not: ("bare", filters, kernel).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Layers = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Network:
    """A network, and the batches that it is trained on."""

    layers: Layers
    pixels: int
    channels: int
    classes: int
    batch: int


def _conv(filters: int, kernel: int, stride: int = 1) -> Layers:
    return [("conv", filters, kernel, stride), ("norm",)]


def _block(filters: int, stride: int, narrow: bool, grows: bool) -> Layers:
    """Two convolutions, or a bottleneck of three, around which the input goes too."""
    if narrow:
        inner = [*_conv(filters, 1), ("relu",), *_conv(filters, 3, stride), ("relu",)]
        inner += _conv(4 * filters, 1)
    else:
        inner = [*_conv(filters, 3, stride), ("relu",), *_conv(filters, 3)]
    around = _conv(4 * filters if narrow else filters, 1, stride) if grows else []
    return [("residual", inner, around), ("relu",)]


def _residual(stem: Layers, blocks: tuple[int, ...], width: int, narrow: bool = False) -> Layers:
    layers = list(stem)
    for stage, count in enumerate(blocks):
        for place in range(count):
            stride = 2 if stage and not place else 1
            grows = not place and (stage > 0 or narrow)
            layers += _block(width * 2**stage, stride, narrow, grows)
    return [*layers, ("meanpool",)]


def _small(filters: int) -> Layers:
    return [*_conv(filters, 3), ("relu",)]


def _large() -> Layers:
    return [*_conv(64, 7, 2), ("relu",), ("maxpool", 3, 2)]


_MNIST_CNN: Layers = [
    *[("bare", 32, 3), ("relu",), ("bare", 64, 3), ("relu",), ("maxpool", 2, 2), ("dropout", 0.25)],
    *[("flatten",), ("dense", 128), ("relu",), ("dropout", 0.5), ("dense", 10)],
]

NETWORKS = {
    "mnist-cnn": Network(_MNIST_CNN, 28, 1, 10, 128),
    "resnet-8": Network([*_residual(_small(16), (1, 1, 1), 16), ("dense", 10)], 32, 3, 10, 64),
    "resnet-20": Network([*_residual(_small(16), (3, 3, 3), 16), ("dense", 10)], 32, 3, 10, 64),
    "resnet-18": Network([*_residual(_large(), (2, 2, 2, 2), 64), ("dense", 200)], 64, 3, 200, 16),
    "resnet-26": Network(
        [*_residual(_large(), (2, 2, 2, 2), 64, narrow=True), ("dense", 200)], 112, 3, 200, 8
    ),
    "resnet-50": Network(
        [*_residual(_large(), (3, 4, 6, 3), 64, narrow=True), ("dense", 1000)], 224, 3, 1000, 4
    ),
}
