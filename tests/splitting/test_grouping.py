"""Layers in groups, and the order of their channels."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from forerun.splitting.grouping import Channels, Regroup, Shuffle, convolution, linear

GROUPS = 4


def test_a_shuffle_gives_each_group_every_gth_channel() -> None:
    x = torch.arange(12.0).view(1, 12, 1, 1)
    wanted = [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
    assert Shuffle(GROUPS)(x).flatten().tolist() == wanted


def test_channels_that_are_last_in_memory_stay_there() -> None:
    last = torch.randn(2, 12, 3, 5).to(memory_format=torch.channels_last)
    shuffled = Shuffle(GROUPS)(last)
    assert torch.equal(shuffled, Shuffle(GROUPS)(last.contiguous()))
    assert shuffled.is_contiguous(memory_format=torch.channels_last)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(2, 5))
def test_joined_tensors_are_ordered_by_group_and_within_it_as_they_were(
    shares: list[int], groups: int
) -> None:
    sizes = [share * groups for share in shares]
    of = torch.cat([torch.arange(groups).repeat_interleave(share) for share in shares])
    order = Regroup(sizes, groups).order
    assert sorted(order.tolist()) == list(range(sum(sizes)))
    assert of[order].tolist() == sorted(of.tolist())
    for group in range(groups):
        inside = order[of[order] == group].tolist()
        assert inside == sorted(inside)


def test_a_group_takes_the_dense_weights_of_what_its_channels_stand_for() -> None:
    dense = nn.Conv2d(4, 4, 1, bias=False)
    with torch.no_grad():
        dense.weight.copy_(torch.arange(16.0).view(4, 4, 1, 1))
    before = Channels(4, torch.tensor([0, 2, 1, 3]))
    made = convolution(dense, before, Channels(4, torch.arange(4)), 2)
    assert made.groups == 2
    wanted = [[0, 2], [4, 6], [9, 11], [13, 15]]
    assert (made.weight.flatten(1) / 2**0.5).tolist() == [pytest.approx(row) for row in wanted]


def test_channels_that_stand_for_none_start_anew() -> None:
    torch.manual_seed(0)
    dense = nn.Conv2d(8, 8, 3, padding=1)
    made = convolution(dense, Channels(12, None), Channels(12, None), 2)
    assert made.weight.shape == (12, 6, 3, 3)
    assert made.weight.std().item() == pytest.approx((2 / 54) ** 0.5, rel=0.1)
    assert (made.padding, made.kernel_size) == ((1, 1), (3, 3))


def test_a_flat_vector_keeps_the_values_of_a_channel_together() -> None:
    channels = Channels(3, torch.tensor([2, 0, 1])).repeated(2)
    assert channels.count == 6
    assert channels.origin is not None
    assert channels.origin.tolist() == [4, 5, 0, 1, 2, 3]
    dense = nn.Linear(6, 1)
    assert torch.equal(linear(dense, channels).weight, dense.weight[:, [4, 5, 0, 1, 2, 3]])
