"""Layers whose channels fall into groups, made from dense ones.

Group i is the i-th of equal intervals of a tensor's channels. Where the decoupled network has the
dense one's channels, its layers start with the dense weights within each group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor, nn

from forerun.splitting.networks import initialise


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of a tensor in groups: how many, and which of the dense ones each stands for.

    Where there are more than the dense network has, they stand for none.
    """

    count: int
    origin: Tensor | None

    def repeated(self, times: int) -> Channels:
        """With so many values of each channel, side by side."""
        origin = self.origin
        if origin is not None:
            origin = (origin[:, None] * times + torch.arange(times)).flatten()
        return Channels(self.count * times, origin)

    def reordered(self, order: Tensor) -> Channels:
        """With the channel at each of these places next."""
        return Channels(self.count, None if self.origin is None else self.origin[order])


class Shuffle(nn.Module):
    """Gives group i every G-th channel from the i-th on: (C/G, G) becomes (G, C/G)."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        if x.is_contiguous():
            return x.unflatten(1, (-1, self.groups)).transpose(1, 2).flatten(1, 2)
        # Channels that are last in memory stay there: later layers would move them back.
        last = x.permute(0, 2, 3, 1).unflatten(3, (-1, self.groups))
        return last.transpose(3, 4).flatten(3).permute(0, 3, 1, 2)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Regroup(nn.Module):
    """Orders the channels of joined tensors by their groups; none moves to another group."""

    order: Tensor

    def __init__(self, sizes: Sequence[int], groups: int) -> None:
        super().__init__()
        shards = [part.chunk(groups) for part in torch.arange(sum(sizes)).split(list(sizes))]
        order = torch.cat(list(chain.from_iterable(zip(*shards, strict=True))))
        self.register_buffer("order", order, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x.index_select(1, self.order)


def is_depthwise(layer: nn.Conv2d) -> bool:
    """Whether each channel is filtered by itself."""
    return layer.groups > 1 and layer.groups == layer.in_channels


def convolution(
    dense: nn.Conv2d, before: Channels | None, after: Channels | None, groups: int
) -> nn.Conv2d:
    """A convolution that reads and writes these channels; None: as many as the dense one does."""
    made = nn.Conv2d(
        before.count if before else dense.in_channels,
        after.count if after else dense.out_channels,
        dense.kernel_size,
        dense.stride,
        dense.padding,
        dense.dilation,
        groups,
        dense.bias is not None,
        dense.padding_mode,
        device=dense.weight.device,
        dtype=dense.weight.dtype,
    )
    initialise(made)
    rows = after.origin if after else torch.arange(dense.out_channels)
    columns = before.origin if before else torch.arange(dense.in_channels)
    if rows is None or columns is None:
        return made
    with torch.no_grad():
        if dense.groups == 1:
            made.weight.copy_(_within_groups(dense.weight, rows, columns, groups))
        elif dense.groups == groups:
            made.weight.copy_(dense.weight[rows])
        if made.bias is not None:
            made.bias.copy_(dense.bias[rows])
    return made


def _within_groups(weight: Tensor, rows: Tensor, columns: Tensor, groups: int) -> Tensor:
    """What the dense weights say of each group's outputs and inputs.

    A sum over a G-th of the inputs varies √G times less: the weights make up for it.
    """
    pairs = zip(rows.chunk(groups), columns.chunk(groups), strict=True)
    return torch.cat([weight[row][:, column] for row, column in pairs]) * groups**0.5


def normalisation(dense: nn.BatchNorm2d, channels: Channels) -> nn.BatchNorm2d:
    """A normalisation of these channels."""
    made = nn.BatchNorm2d(
        channels.count, dense.eps, dense.momentum, dense.affine, dense.track_running_stats
    ).to(next(dense.parameters(), torch.empty(0)).device)
    if channels.origin is not None:
        with torch.no_grad():
            for name, values in dense.state_dict().items():
                made.state_dict()[name].copy_(values[channels.origin] if values.ndim else values)
    return made


def linear(dense: nn.Linear, channels: Channels) -> nn.Linear:
    """A fully connected layer that reads these; what it puts out stays as it was."""
    device = dense.weight.device
    made = nn.Linear(channels.count, dense.out_features, dense.bias is not None, device)
    if channels.origin is not None:
        with torch.no_grad():
            made.weight.copy_(dense.weight[:, channels.origin])
            if made.bias is not None:
                made.bias.copy_(dense.bias)
    return made
