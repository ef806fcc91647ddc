"""The replay of measured runs: what may be run, what is held out, and how a design is judged."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from adaptive import DESIGNS, Fit, Replay, is_honest, ratio, replay
from replayed import replayed

from forerun.errors import InputError


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """48 points of two numbers and a level, four of them twice."""
    random = np.random.default_rng(0)
    grid = [(b, w, n) for b in (1, 2, 4, 8, 16, 32, 64, 128) for w in (1, 2, 4) for n in "xy"]
    runs = pd.DataFrame([*grid, *grid[::12]], columns=["batch", "workers", "net"])
    work = 1 + runs["batch"] / runs["workers"] * runs["net"].map({"x": 0.1, "y": 0.3})
    seconds = work * np.exp(random.normal(0, 0.02, len(runs)))
    path = tmp_path / "lenet-mine.csv"
    runs.assign(seconds=seconds, other_load=0.0, status="ok").to_csv(path, index=False)
    return path


def test_what_is_held_out_does_not_depend_on_the_order(table: Path, tmp_path: Path) -> None:
    study = replayed([table])
    assert (len(study.pool), len(study.held_out)) == (34, 14)
    assert set(study.pool).isdisjoint(study.held_out)
    assert sum(map(len, (*study.pool.values(), *study.held_out.values()))) == 52
    assert len(study.candidates) == sum(map(len, study.pool.values()))
    turned = tmp_path / "lenet-turned.csv"
    pd.read_csv(table).iloc[::-1].to_csv(turned, index=False)
    assert set(replayed([turned]).held_out) == set(study.held_out)


def test_a_point_is_held_out_for_all_commands(table: Path, tmp_path: Path) -> None:
    other = tmp_path / "lenet-other.csv"
    other.write_text(table.read_text())
    study = replayed([table, other])
    assert study.name == "mine + other"
    assert len(study.held_out) == 2 * len(replayed([table]).held_out)


@pytest.mark.parametrize("design", DESIGNS)
def test_every_design_measures_different_points_of_the_pool(table: Path, design: str) -> None:
    study = replayed([table])
    aim = None if design == "random" else 0.0  # which nothing reaches: the whole pool is run
    made = replay(study, design, 1, aim)
    errors = [fit.error for fit in made.fits]
    assert [fit.runs for fit in made.fits][:3] == [8, 11, 14]
    assert errors[-1] < errors[0]
    assert errors[-1] < 0.1
    assert (made.fits[-1].stated < np.inf) == (design == "adaptive")


def test_an_error_is_reached_where_the_next_fit_confirms_it() -> None:
    errors = [0.3, 0.1, 0.2, 0.1, 0.09]
    fits = [Fit(n, 10.0 * n, error, 1.2 * error) for n, error in enumerate(errors, start=1)]
    made, random = Replay("adaptive", 0, fits), Replay("random", 0, [Fit(9, 80.0, 0.1, np.inf)])
    assert made.reached(0.1) == fits[3]
    assert ratio(made, random) == 0.5
    assert made.stopped(0.1) is None
    assert made.stopped(0.12) == fits[1]
    assert is_honest(made, random)
    assert not is_honest(Replay("adaptive", 0, [Fit(1, 1.0, 0.05, 0.1)]), random)


def test_a_table_without_seconds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lenet-mine.csv"
    path.write_text("batch,status\n1,ok\n")
    with pytest.raises(InputError, match="no column seconds"):
        replayed([path])
