"""Networks whose own code looks at sizes, as graphs that compute the same."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from forerun.errors import InputError
from forerun.splitting.tracing import traced

EXAMPLE = torch.zeros(1, 3, 9, 7)


class Looking(nn.Module):
    """What it does is up to a function of its layer and the input."""

    def __init__(self, looks: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.looks, self.layer = looks, nn.Conv2d(3, 3, 3, padding=1)
        self.register_buffer("shift", torch.randn(3, 1, 1))
        self.scale = torch.randn(3, 1, 1)  # no parameter, and no buffer

    def forward(self, x: Tensor) -> Tensor:
        return self.looks(self.layer, x * self.scale + self.shift)


def chosen(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x) if x.shape[2] > x.shape[3] else x


def checked(layer: nn.Module, x: Tensor) -> Tensor:
    assert x.ndim == len(x.shape) == x.dim() == 4
    if x.size(1) not in (1, 3) or x.shape[-2:] == (1, 1):
        raise ValueError("an image of other channels")
    return layer(x)


def counted(layer: nn.Module, x: Tensor) -> Tensor:
    for _ in range(x.shape[3] // 2):
        x = x + layer(x)
    return x


def padded(layer: nn.Module, x: Tensor) -> Tensor:
    high, wide = (int(size / 2 + 0.5) * 2 for size in x.shape[2:])
    return layer(functional.pad(x, [0, wide - x.shape[3], 0, high - x.shape[2]]))


def parted(layer: nn.Module, x: Tensor) -> Tensor:
    return torch.cat([layer(x) + part for part in x.chunk(3, 1)], 1)


def seen_whole(layer: nn.Module, x: Tensor) -> Tensor:
    x = functional.avg_pool2d(nn.ReLU()(layer(x)), [*map(int, x.shape[2:])])
    return x.view(x.shape[0], -1) * torch.linspace(0, 1, x.shape[1]) * float(x.shape[1] / 2)


@pytest.mark.parametrize("looks", [chosen, checked, counted, padded, parted, seen_whole])
def test_what_is_decided_by_sizes_is_traced(
    looks: Callable[[nn.Module, Tensor], Tensor],
) -> None:
    """And computes the same, whatever the batch."""
    module = Looking(looks)
    with pytest.raises(Exception, match=r".") as refused:
        fx.symbolic_trace(module)
    assert not isinstance(refused.value, InputError)
    found = traced(module, EXAMPLE)
    for batch in (1, 4):
        given = torch.randn(batch, 3, 9, 7)
        torch.testing.assert_close(found(given), module(given), rtol=0, atol=0)


def test_what_is_traced_can_be_copied_and_pickled() -> None:
    module, given = Looking(chosen), torch.randn(2, 3, 9, 7)
    found = copy.deepcopy(traced(module, EXAMPLE))
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    for one in (found, again):
        torch.testing.assert_close(one(given), module(given), rtol=0, atol=0)


def test_tracing_leaves_the_network_as_it_was() -> None:
    module = Looking(counted)
    before = copy.deepcopy(module.state_dict())
    found = traced(module, EXAMPLE)
    assert module.training
    assert found.layer is not module.layer
    assert {one.device.type for one in found.state_dict().values()} == {"cpu"}
    torch.testing.assert_close(module.state_dict(), before, rtol=0, atol=0)


def test_sizes_that_nobody_needs_leave_no_trace() -> None:
    found = traced(Looking(checked), EXAMPLE)
    targets = [str(node.target) for node in found.graph.nodes if node.op.startswith("call")]
    assert [name.rpartition(".")[2] for name in targets][-1] == "layer"
    assert len(targets) == 3  # scaled, shifted, and the layer


def by_numbers(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x) if x.sum() > 0 else x


def as_often_as_a_number_says(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x) * range(int(x.max()))[0]


def by_the_batch(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x) if x.shape[0] > 1 else x


def each_sample(layer: nn.Module, x: Tensor) -> Tensor:
    return torch.stack([layer(one) for one in x])


def refusing(layer: nn.Module, x: Tensor) -> Tensor:
    if x.shape[2] % 2:
        raise ValueError("an odd image")
    return layer(x)


@pytest.mark.parametrize(
    ("looks", "reason"),
    [
        (by_numbers, "operation gt: found a choice by the numbers of a tensor, expected one by"),
        (as_often_as_a_number_says, "operation max_1: found a choice by the numbers of a tensor"),
        (by_the_batch, "operation gt: found a choice by the size of the batch, expected the same"),
        (each_sample, "operation add: found a choice by the size of the batch, expected the same"),
        (refusing, "network Looking: found ValueError: an odd image, expected one that torch.fx"),
    ],
)
def test_what_cannot_be_known_is_named(
    looks: Callable[[nn.Module, Tensor], Tensor], reason: str
) -> None:
    with pytest.raises(InputError, match=f"^{reason}") as caught:
        traced(Looking(looks), EXAMPLE)
    assert "\n" not in str(caught.value)


def test_an_example_that_does_not_fit_is_named() -> None:
    with pytest.raises(InputError, match=r"^example: found \(1, 4, 9, 7\), expected"):
        traced(nn.Sequential(nn.Conv2d(3, 3, 1), Looking(chosen)), torch.zeros(1, 4, 9, 7))
