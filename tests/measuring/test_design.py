"""Designs give each point as often as planned, in an order that survives any stop."""

import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.errors import InputError
from forerun.factors import Factor, Point, Space
from forerun.measuring.design import (
    Chosen,
    Design,
    Grid,
    LatinHypercube,
    Listed,
    Planned,
    Random,
    design_by_name,
)
from forerun.measuring.domain import Domain
from forerun.study import Run, Status

SPACE = Space(
    [
        Factor("batch", values=(8, 16, 32, 64)),
        Factor("workers", values=(1, 2)),
        Factor("padding", "categorical", values=("same", "valid")),
    ]
)
HUGE = Space([Factor(f"x{i}", values=tuple(range(1, 101))) for i in range(12)])


def run(chosen: Chosen, status: Status = "ok") -> Run:
    measures = {"seconds": 1.0} if status == "ok" else {}
    return Run(chosen.point, measures, status, source=chosen.source)


def played(design: Design, runs: list[Run] | None = None, at_once: int = 1) -> list[Run]:
    """All runs of a design, so many at once."""
    runs = list(runs or [])
    while found := design.next(runs, [], at_once):
        runs += [run(one) for one in found]
    return runs


def small(point: Point) -> bool:
    return int(point["batch"]) * int(point["workers"]) <= 64


DESIGNS: dict[str, Callable[[], Planned]] = {
    "grid": lambda: Grid(SPACE, repeats=3, seed=1, allowed=small),
    "latin": lambda: LatinHypercube(SPACE, 6, repeats=3, seed=1, allowed=small),
    "random": lambda: Random(SPACE, 6, repeats=3, seed=1, allowed=small),
    "listed": lambda: Listed(list(SPACE.grid())[:5], repeats=3, seed=1),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_every_point_is_run_as_often_as_planned(name: str) -> None:
    design = DESIGNS[name]()
    runs = played(design)
    times = Counter(run.point for run in runs)
    assert set(times.values()) == {3}
    assert len(runs) == design.total
    assert all(map(small, times))


@pytest.mark.parametrize("name", DESIGNS)
def test_repeats_come_in_rounds_and_say_so(name: str) -> None:
    design = DESIGNS[name]()
    runs = played(design)
    count = len(design.points)
    rounds = [runs[start : start + count] for start in range(0, len(runs), count)]
    assert all(len({run.point for run in one}) == count for one in rounds)
    first = "measure random" if name == "random" else "measure chosen"
    assert {run.source for run in rounds[0]} == {first}
    assert {run.source for one in rounds[1:] for run in one} == {"measure repeat"}
    assert [run.point for run in rounds[0]] != [run.point for run in rounds[1]]
    assert all(a.point != b.point for a, b in pairwise(runs))


def test_more_runs_than_anybody_makes_are_refused_at_once() -> None:
    grid = Grid(Space([Factor("n", values=(1, 2, 3))]), repeats=10**9)
    with pytest.raises(InputError, match="repeats: found 1000000000 of 3 points, expected at most"):
        grid.next([], [], 1)


@pytest.mark.parametrize("name", DESIGNS)
@settings(max_examples=20, deadline=None)
@given(stop=st.integers(0, 12), at_once=st.integers(1, 5), seed=st.integers(0, 99))
def test_a_campaign_stopped_anywhere_goes_on_as_if_it_had_not_been(
    name: str, stop: int, at_once: int, seed: int
) -> None:
    whole = played(DESIGNS[name]())
    begun = whole[:stop]
    random.Random(seed).shuffle(begun)  # parallel runs end in any order
    again = played(DESIGNS[name](), begun, at_once)
    assert [run.point for run in again[stop:]] == [run.point for run in whole[stop:]]


def test_pending_points_are_not_offered_again() -> None:
    design = Grid(SPACE)
    pending = [one.point for one in design.next([], [], 3)]
    assert not {one.point for one in design.next([], pending, 100)} & set(pending)
    assert len(design.next([], pending, 100)) == design.total - 3


def test_a_point_whose_last_run_failed_is_left_to_the_campaign() -> None:
    design = Grid(SPACE, repeats=2)
    first, second = design.next([], [], 2)
    runs = [run(first, "failed"), run(second, "timed_out")]
    assert first.point not in {one.point for one in design.next(runs, [], 100)}
    runs.append(run(first))  # tried again, and fine
    left = Counter(one.point for one in design.next(runs, [], 100))
    assert left[first.point] == 1
    assert left[second.point] == 0


def test_a_cancelled_run_counts_as_never_made() -> None:
    design = Grid(SPACE)
    one = design.next([], [], 1)
    assert design.next([run(one[0], "cancelled")], [], 1) == one


def test_runs_that_were_imported_are_not_made_again() -> None:
    design = Grid(SPACE)
    runs = [Run(point, {"seconds": 2.0}, source="runs.csv") for point in SPACE.sample(5)]
    assert len(played(design, runs)) == design.total


@pytest.mark.parametrize("count", [4, 8, 12])
def test_a_latin_hypercube_uses_the_values_of_each_factor_evenly(count: int) -> None:
    space = Space([*SPACE.values(), Factor("filters", values=(4, 8, 16, 32))])
    points = LatinHypercube(space, count, seed=3).points
    assert len(set(points)) == count
    for name, factor in space.items():
        used = Counter(point[name] for point in points)
        assert set(used.values()) == {count // len(factor.values)}


def test_a_latin_hypercube_swaps_values_where_a_constraint_forbids_points() -> None:
    space = Space([Factor(name, values=tuple(range(1, 11))) for name in "abc"])
    points = LatinHypercube(space, 20, seed=2, allowed=lambda p: p["a"] != p["b"]).points
    assert len(points) == 20
    assert all(point["a"] != point["b"] for point in points)
    for name in "abc":
        used = Counter(point[name] for point in points)
        assert set(used.values()) == {2}


def test_more_points_than_there_are_gives_all() -> None:
    for design in (LatinHypercube(SPACE, 99, allowed=small), Random(SPACE, 99, allowed=small)):
        assert set(design.points) == set(filter(small, SPACE.grid()))


def test_random_points_are_the_first_of_one_order() -> None:
    assert Random(SPACE, 8, seed=5).points[:3] == Random(SPACE, 3, seed=5).points
    assert Random(HUGE, 8, seed=5).points[:3] == Random(HUGE, 3, seed=5).points


def test_a_huge_space_is_drawn_from_and_not_gone_through() -> None:
    rare = lambda point: point["x0"] == 1  # noqa: E731
    for design in (LatinHypercube(HUGE, 9), Random(HUGE, 9, allowed=rare)):
        assert len(set(design.points)) == 9
    with pytest.raises(InputError, match=r"grid: found 1000000000000000000000000 points, expected"):
        _ = Grid(HUGE).total


def test_a_constraint_that_allows_nothing_is_named() -> None:
    for name in ("grid", "latin", "random"):
        design = design_by_name(name, SPACE, points=3, allowed=lambda _: False)
        with pytest.raises(InputError, match="constraint: found no point that it allows"):
            design.next([], [], 1)
    assert Domain(HUGE, lambda _: False).draw(1, 0) == []


def test_a_listed_domain_has_its_points_alone() -> None:
    domain = Domain(HUGE, listed=HUGE.sample(7))
    assert set(domain.draw(99, seed=3)) == set(HUGE.sample(7))
    assert domain.draw(99, seed=3) != domain.draw(99, seed=4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "grd"}, "design: found grd, expected one of adaptive, grid, latin, d-optimal"),
        ({"name": "grid", "repeats": 0}, "repeats: found 0, expected a whole number of at least 1"),
        ({"name": "latin", "points": 0}, "points: found 0, expected a whole number of at least 1"),
    ],
)
def test_what_makes_no_design_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        design_by_name(space=SPACE, **arguments)  # type: ignore[arg-type]
