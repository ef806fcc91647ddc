"""A D-optimal design knows more of the expression's constants than as many random points."""

import math

import numpy as np
import pytest

from forerun.factors import Factor, Point, Space
from forerun.measuring.design import Random, design_by_name
from forerun.measuring.domain import Domain
from forerun.measuring.optimal import DOptimal, Terms

SPACE = Space(
    [
        Factor("batch", values=(8, 16, 32, 64, 128, 256)),
        Factor("filters", values=tuple(range(4, 65, 4))),
        Factor("dropout", values=(0, 0.2, 0.4, 0.6)),
        Factor("activation", "categorical", values=("relu", "tanh", "sigmoid")),
        Factor("device", "categorical", values=("one",)),
    ]
)


def knows(points: list[Point], space: Space = SPACE) -> float:
    """Log determinant of the information."""
    domain = Domain(space)
    sign, value = np.linalg.slogdet(Terms(space).information([domain.row(p) for p in points]))
    assert sign > 0
    return float(value)


@pytest.mark.parametrize("count", [6, 12, 30])
def test_it_knows_more_than_random_points(count: int) -> None:
    points = DOptimal(SPACE, count, seed=1).points
    assert len(set(points)) == count
    drawn = [knows(Random(SPACE, count, seed=seed).points) for seed in range(20)]
    assert knows(points) > max(drawn) + 1


def test_few_points_tell_all_main_effects_apart() -> None:
    """One constant, three numbers and two differences of levels: six points are enough."""
    rows = [Domain(SPACE).row(point) for point in DOptimal(SPACE, 6, seed=1).points]
    assert np.linalg.matrix_rank(Terms(SPACE)(rows)[:, :6]) == 6


def test_with_a_straight_line_alone_the_ends_are_best() -> None:
    space = Space([Factor("a", values=(1, 10)), Factor("b", values=(1, 10, 100))])
    points = DOptimal(space, 4, seed=0).points
    assert set(points) == {Point({"a": a, "b": b}) for a in (1, 10) for b in (1, 100)}


def test_points_left_over_look_for_curvature() -> None:
    points = DOptimal(Space([Factor("a", values=(1, 2, 4, 8, 16))]), 3, seed=0).points
    assert sorted(int(point["a"]) for point in points) == [1, 4, 16]


def test_it_keeps_to_the_constraint() -> None:
    def allowed(point: Point) -> bool:
        return int(point["batch"]) * int(point["filters"]) <= 1024

    points = DOptimal(SPACE, 15, seed=2, allowed=allowed).points
    assert all(map(allowed, points))
    corners = {(8, 4), (8, 64), (256, 4)}
    assert corners <= {(point["batch"], point["filters"]) for point in points}


def test_the_same_seed_gives_the_same_points() -> None:
    assert DOptimal(SPACE, 9, seed=4).points == DOptimal(SPACE, 9, seed=4).points


def test_a_huge_space_with_more_pairs_than_can_be_afforded() -> None:
    space = Space(
        [Factor(f"x{i}", values=tuple(range(1, 51))) for i in range(14)]
        + [Factor(f"c{i}", "categorical", values=tuple("abcde")) for i in range(4)]
    )
    points = DOptimal(space, 20, seed=0).points
    assert len(set(points)) == 20
    ends = sum(point[f"x{i}"] in (1, 50) for point in points for i in range(14))
    assert ends > 0.7 * 20 * 14


def test_more_points_than_there_are_gives_all() -> None:
    space = Space([Factor("a", values=(1, 2)), Factor("b", values=(3, 4))])
    design = design_by_name("d-optimal", space, points=9, repeats=2)
    assert design.total == 2 * math.prod((2, 2))
