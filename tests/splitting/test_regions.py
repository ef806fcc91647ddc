"""Sets of places and regions are what Python's own sets would be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.errors import InputError
from forerun.splitting.regions import (
    EMPTY,
    Indices,
    Region,
    as_json,
    checked_shares,
    hull,
    runs,
    shared_out,
    whole,
)

PLACES = st.sets(st.integers(0, 40))


def region(channels: set[int], rows: set[int]) -> Region:
    return Region(Indices.of(channels), Indices.of(rows))


def pairs(found: Region) -> set[tuple[int, int]]:
    return {(channel, row) for channel in found.channels for row in found.rows}


@given(PLACES, PLACES)
def test_indices_are_sets(a: set[int], b: set[int]) -> None:
    one, other = Indices.of(a), Indices.of(b)
    assert set(one & other) == a & b
    assert set(one | other) == a | b
    assert set(one - other) == a - b
    assert (one <= other) == (a <= b)
    assert (len(one), bool(one)) == (len(a), bool(a))
    assert list(one) == sorted(a)


@given(PLACES)
def test_intervals_cover_a_set_and_its_hull(a: set[int]) -> None:
    found = Indices.of(a)
    assert [place for part in found.intervals() for place in part] == sorted(a)
    assert set(found.hull()) == (set(range(min(a), max(a) + 1)) if a else set())


@given(PLACES, PLACES, PLACES, PLACES)
def test_a_difference_of_regions_has_no_overlap(
    a: set[int], b: set[int], c: set[int], d: set[int]
) -> None:
    one, other = region(a, b), region(c, d)
    parts = one.minus(other)
    assert set().union(*map(pairs, parts)) == pairs(one) - pairs(other)
    assert sum(part.size for part in parts) == len(pairs(one) - pairs(other))
    assert pairs(one & other) == pairs(one) & pairs(other)
    assert one <= hull([one, other])
    assert (one <= other) == (pairs(one) <= pairs(other))


def test_nothing_is_in_everything() -> None:
    assert not EMPTY
    assert whole(3, 2) >= EMPTY
    assert hull([]) == EMPTY
    assert whole(3, 2).minus(whole(3, 2)) == []


@given(st.integers(0, 100), st.lists(st.floats(0.1, 10), min_size=1, max_size=6))
def test_shares_are_fair_to_less_than_a_place(total: int, shares: list[float]) -> None:
    parts = shared_out(total, shares)
    assert [place for part in parts for place in part] == list(range(total))
    for part, share in zip(parts, shares, strict=True):
        assert abs(len(part) - total * share / sum(shares)) < 1 + 1e-6


def test_seven_rows_on_four_devices() -> None:
    assert [len(part) for part in shared_out(7, (1, 1, 1, 1))] == [2, 2, 1, 2]
    assert [len(part) for part in shared_out(2, (1, 1, 1, 1))] == [1, 0, 1, 0]


@pytest.mark.parametrize("shares", [(), (1, 0), (1, -1), (float("nan"),), (float("inf"),)])
def test_shares_that_are_none(shares: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"devices: found 0|a number above 0"):
        checked_shares(shares)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=20), st.booleans())
def test_runs_are_the_same_pairs(given_pairs: list[tuple[int, int]], unit: bool) -> None:
    first = np.array([a for a, _ in given_pairs], np.int64)
    second = np.array([b for _, b in given_pairs], np.int64)
    found = runs(first, second, unit)
    assert [pair for a, b in found for pair in zip(a, b, strict=True)] == given_pairs
    if unit:
        assert all(a.step == b.step == 1 for a, b in found)


def test_a_shuffle_is_one_run_with_steps() -> None:
    assert runs(np.arange(4, 8), np.arange(1, 16, 4)) == [(range(4, 8), range(1, 14, 4))]


def test_boxes_as_a_package_has_them() -> None:
    assert as_json((range(1, 5, 3), range(2, 4))) == [[1, 5, 3], [2, 4]]
