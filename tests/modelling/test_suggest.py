"""Suggested runs lie in the space, cost what they may, and teach."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forerun import PerformanceModel
from forerun.errors import InputError
from forerun.factors import Factor, Point, Space
from forerun.modelling.suggest import suggest
from forerun.study import Run, Study

pytestmark = pytest.mark.filterwarnings("ignore::forerun.errors.ForerunWarning")

BATCHES, GPUS = (8, 16, 32, 64, 128, 256), (1, 2, 4, 8)
SPACE = Space([Factor("batch", values=BATCHES), Factor("gpus", role="workers", values=GPUS)])


def seconds(point: Any) -> float:
    """0.05·batch/gpus + 0.2·log2(2·gpus)."""
    return float(0.05 * point["batch"] / point["gpus"] + 0.2 * np.log2(2 * point["gpus"]))


def noise(point: Point) -> float:
    """The same 2 % for the same point."""
    seed = [int(point["batch"]), int(point["gpus"])]
    return float(np.exp(0.02 * np.random.default_rng(seed).standard_normal()))


def run(point: Point, **more: Any) -> Run:
    return Run(point, {"seconds": seconds(point) * noise(point)}, **more)


def study_of(path: Path, points: list[Point], space: Space = SPACE) -> Study:
    study = Study.create(path / "study.db", space)
    study.add_all(run(point) for point in points)
    return study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return study_of(tmp_path, SPACE.sample(12, seed=1))


def test_as_many_runs_as_asked_for_come_from_the_space(study: Study) -> None:
    grid = set(SPACE.grid())
    for count in (1, 5):
        found = suggest(study, runs=count)
        assert len(found) == count
        for one in found:
            assert one.point in grid
            assert one.low is not None
            assert one.seconds is not None
            assert one.high is not None
            assert 0 < one.low <= one.seconds <= one.high
            assert one.seconds == pytest.approx(seconds(one.point), rel=0.5)
            assert 0 < one.gain < 1


def test_the_same_study_gives_the_same_suggestions(study: Study) -> None:
    assert suggest(study, runs=3) == suggest(study, runs=3)


@pytest.mark.parametrize("budget", [1.0, 3.0, 10.0])
def test_a_budget_is_kept(study: Study, budget: float) -> None:
    found = suggest(study, runs=20, budget_seconds=budget)
    assert found
    assert sum(one.seconds or 0 for one in found) <= budget


def test_a_budget_too_small_for_any_run_gives_none(study: Study) -> None:
    assert suggest(study, budget_seconds=1e-6) == []


def test_no_runs_are_refused(study: Study) -> None:
    with pytest.raises(InputError) as error:
        suggest(study, runs=0)
    assert str(error.value) == "runs: found 0, expected a whole number of at least 1"


def test_what_ran_out_of_memory_is_not_suggested(tmp_path: Path) -> None:
    fits = [point for point in SPACE.grid() if int(point["batch"]) <= 32]
    study = study_of(tmp_path, fits[::2])
    study.add_all(
        Run(Point({"batch": batch, "gpus": gpus}), status="out_of_memory")
        for batch in (64, 256)
        for gpus in GPUS
    )
    found = suggest(study, runs=6)
    assert len(found) == 6
    assert {int(one.point["batch"]) for one in found} <= {8, 16, 32}


def test_where_nothing_was_measured_is_suggested_first(tmp_path: Path) -> None:
    """All runs but one corner: cost aside, the rest of the space is where the error is."""
    near = [
        point for point in SPACE.grid() if int(point["batch"]) <= 32 and int(point["gpus"]) <= 2
    ]
    study = study_of(tmp_path, near * 2)
    found = suggest(study, runs=4)
    assert sum(one.point not in near for one in found) >= 3
    assert any(int(one.point["gpus"]) == 8 for one in found)


def test_a_level_of_the_space_that_was_never_measured_is_no_obstacle(tmp_path: Path) -> None:
    space = Space([*SPACE.values(), Factor("device", "categorical", values=("k80", "p100", "new"))])
    points = [point for point in space.sample(60, seed=2) if point["device"] != "new"]
    found = suggest(study_of(tmp_path, points, space), runs=3)
    assert len(found) == 3
    assert all(one.point["device"] != "new" for one in found)  # it could not be predicted


def test_another_target_is_learnt_at_the_cost_of_its_seconds(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "study.db", SPACE)
    study.add_all(
        Run(point, {"seconds": seconds(point), "memory_bytes": 1e9 + 1e7 * int(point["batch"])})
        for point in SPACE.sample(14, seed=3)
    )
    found = suggest(study, runs=2, target="memory_bytes", budget_seconds=30)
    assert found
    for one in found:
        assert one.seconds == pytest.approx(seconds(one.point), rel=0.5)


def test_without_seconds_runs_cost_alike_and_there_is_no_budget(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "study.db", SPACE)
    study.add_all(Run(point, {"joules": seconds(point)}) for point in SPACE.sample(14, seed=3))
    assert [one.seconds for one in suggest(study, runs=2, target="joules")] == [None, None]
    with pytest.raises(InputError, match="budget"):
        suggest(study, runs=2, target="joules", budget_seconds=30)


def error_of(study: Study) -> float:
    """Mean relative error of a model of the study's runs, over the whole space."""
    table = study.table()
    model = PerformanceModel().fit(table[list(SPACE.names)], table.seconds)
    grid = pd.DataFrame([dict(point) for point in SPACE.grid()])
    exact = np.array([seconds(point) for point in SPACE.grid()])
    return float(np.mean(np.abs(model.predict(grid) / exact - 1)))


def test_suggested_runs_teach_more_than_random_ones(tmp_path: Path) -> None:
    """Six cheap runs to begin with; then six more, suggested or drawn, three at a time."""
    cheap = [
        point for point in SPACE.grid() if int(point["batch"]) <= 32 and int(point["gpus"]) <= 2
    ]
    suggested, drawn, spent = [], [], np.zeros(2)
    for seed in range(4):
        asked, random = (tmp_path / f"{name}{seed}" for name in ("asked", "random"))
        asked.mkdir()
        random.mkdir()
        clever, plain = study_of(asked, cheap), study_of(random, cheap)
        for step in range(2):
            points = [one.point for one in suggest(clever, runs=3, random_state=seed)]
            clever.add_all(run(point) for point in points)
            others = SPACE.sample(3, seed=10 * seed + step)
            plain.add_all(run(point) for point in others)
            spent += [sum(map(seconds, points)), sum(map(seconds, others))]
        suggested.append(error_of(clever))
        drawn.append(error_of(plain))
    assert np.mean(suggested) < np.mean(drawn)
    assert spent[0] < spent[1]
