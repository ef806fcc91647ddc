"""What the standard networks are made of: units, blocks, heads.

Blocks take channel counts as they are; which ones, and how many, is in `networks`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

Shape = tuple[int, int, int, int]  # samples, channels, rows, columns
Layers = list[nn.Module]


class Network(nn.Sequential):
    """Parts that run one after the other, and what else must be known of a network."""

    def __init__(
        self, parts: Mapping[str, nn.Module], pixels: int, stage_ends: Sequence[str] = ()
    ) -> None:
        super().__init__(OrderedDict(parts))
        self.input_shape: Shape = (1, 3, pixels, pixels)
        # The modules that decoupled networks shuffle after; none: where the rows change.
        self.stage_ends = tuple(stage_ends)


class Residual(nn.Module):
    """A body and what goes around it: both are added, and then activated."""

    def __init__(self, body: nn.Module, around: nn.Module, activation: nn.Module) -> None:
        super().__init__()
        self.body, self.around, self.activation = body, around, activation

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.body(x) + self.around(x))


class Fire(nn.Module):
    """SqueezeNet's block: few channels, then many from two kernels, joined."""

    def __init__(self, before: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(before, squeezed, 1), nn.ReLU(inplace=True))
        self.narrow = nn.Sequential(nn.Conv2d(squeezed, expanded, 1), nn.ReLU(inplace=True))
        self.wide = nn.Sequential(
            nn.Conv2d(squeezed, expanded, 3, padding=1), nn.ReLU(inplace=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        squeezed = self.squeeze(x)
        return torch.cat([self.narrow(squeezed), self.wide(squeezed)], 1)


def unit(
    before: int,
    after: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    active: type[nn.Module] | None = nn.ReLU,
) -> Layers:
    """A convolution, its normalisation and, unless it is linear, its activation."""
    layers: Layers = [
        nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
    ]
    return [*layers, active(inplace=True)] if active else layers


def head(channels: int, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """The mean of each channel, and a score of each class."""
    dropped: Layers = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), *dropped, nn.Linear(channels, classes)
    )


def basic(before: int, width: int, stride: int) -> nn.Module:
    """ResNet's block of two convolutions."""
    body = [*unit(before, width, 3, stride), *unit(width, width, 3, active=None)]
    return _added(body, before, width, stride)


def bottleneck(before: int, width: int, stride: int) -> nn.Module:
    """ResNet's block of three, with its stride in the second."""
    body = [
        *unit(before, width, 1),
        *unit(width, width, 3, stride),
        *unit(width, 4 * width, 1, active=None),
    ]
    return _added(body, before, 4 * width, stride)


def _added(body: Layers, before: int, after: int, stride: int) -> nn.Module:
    same = before == after and stride == 1
    around = nn.Identity() if same else nn.Sequential(*unit(before, after, 1, stride, active=None))
    return Residual(nn.Sequential(*body), around, nn.ReLU(inplace=True))


def three(features: int, classes: int) -> nn.Sequential:
    """The three fully connected layers of the early networks."""
    layers: Layers = [nn.Flatten()]
    for before, after in pairwise((features, 4096, 4096)):
        layers += [nn.Dropout(0.5), nn.Linear(before, after), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(4096, classes))


def inverted(before: int, after: int, kernel: int, stride: int, expand: int) -> nn.Module:
    """A block that widens, filters each channel by itself, and narrows again."""
    wide = before * expand
    body = unit(before, wide, 1, active=nn.ReLU6) if expand > 1 else []
    body += unit(wide, wide, kernel, stride, wide, active=nn.ReLU6)
    body += unit(wide, after, 1, active=None)
    if stride == 1 and before == after:
        return Residual(nn.Sequential(*body), nn.Identity(), nn.Identity())
    return nn.Sequential(*body)


def as_tensorflow(network: nn.Module) -> None:
    """Pad strided convolutions of an even size more at the end, and take TensorFlow's epsilon."""
    for layers in [one for one in network.modules() if isinstance(one, nn.Sequential)]:
        for name, layer in list(layers.named_children()):
            if isinstance(layer, nn.BatchNorm2d):
                layer.eps, layer.momentum = 1e-3, 0.01
            elif isinstance(layer, nn.Conv2d) and layer.stride == (2, 2):
                total = layer.kernel_size[0] - 2
                first, rest = total // 2, total - total // 2
                layer.padding = (0, 0)
                padding = nn.ZeroPad2d((first, rest, first, rest))
                setattr(layers, name, nn.Sequential(padding, layer))
