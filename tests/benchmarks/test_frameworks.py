"""The study of three frameworks: which points, in which order, how they are cut, what is said."""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import lenet_runs
import numpy as np
import pandas as pd
import pytest
from lenet_constants import Figure
from lenet_costs import START, STEP, WORK, costs_of
from lenet_errors import METHODS, Cache, Job, Key, fill, same_error_alone, with_known_levels
from lenet_points import CHUNK, FRAMEWORKS, SPACE, multiply_adds, tasks
from lenet_report import best_peer, floor, holds, summary
from lenet_runs import Setting, append, missing, recorded, remaining, row, table, undisturbed
from lenet_splits import read, repeat_spread, splits

from forerun.factors import Point
from forerun.jobs.command import Timing
from forerun.workloads.sizes import can_be_built

OK = Timing("ok", 2.5, 2.5, 2.0, 0.25, 1000, 0, "2026-01-01T00:00:00+00:00")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_framework_gets_a_hundred_points_and_repeats_twenty(framework: str) -> None:
    runs = Counter(task.point for task in tasks(framework))
    assert len(runs) >= 100
    assert sorted(runs.values())[-20:] == [3] * 20
    assert all(can_be_built(point) for point in runs)
    assert tasks(framework) == tasks(framework)


def test_every_value_of_every_factor_is_drawn() -> None:
    drawn = [task.point for framework in FRAMEWORKS for task in tasks(framework)]
    for name, factor in SPACE.items():
        assert {point[name] for point in drawn} == set(factor.values)


def test_multiply_adds_are_those_of_the_network() -> None:
    """28 → 24 → 12 → 8 → 4 pixels, as in LeCun's network with 6 filters and wider layers."""
    point = Point(dict(tasks("mxnet")[0].point) | {
        "kernel": 5, "pool": 2, "filters": 6, "padding": "valid", "stride": 1, "dataset": "mnist",
    })  # fmt: skip
    convolutions = 24 * 24 * 25 * 6 + 8 * 8 * 25 * 6 * 12
    assert multiply_adds(point) == convolutions + 4 * 4 * 12 * 120 + 120 * 84 + 84 * 10


def test_measuring_goes_on_where_it_stopped(tmp_path: Path) -> None:
    every = remaining(FRAMEWORKS, tmp_path)
    assert {task.framework for task in every[:3]} == set(FRAMEWORKS)  # they take turns
    for task in every[:100]:
        append(table(tmp_path, task.framework), row(task.point, OK))
    rest = remaining(FRAMEWORKS, tmp_path)
    assert len(rest) == len(every) - 100
    for framework in FRAMEWORKS:
        assert [task.point for task in rest if task.framework == framework] == [
            task.point for task in every[100:] if task.framework == framework
        ]


def test_a_row_that_a_crash_cut_off_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "lenet-mxnet.csv"
    first, second = tasks("mxnet")[:2]
    for task in (first, second):
        append(path, row(task.point, OK))
    path.write_text(path.read_text()[:-20])
    assert recorded(path) == [first.point]
    assert next(missing("mxnet", path)).point == second.point


def test_a_failed_run_has_no_time() -> None:
    failed = Timing("failed", None, 3.0, 2.0, 0.1, 1000, 1, OK.started, reason="exit code 1")
    cells = row(tasks("mxnet")[0].point, failed)
    assert cells["seconds"] == ""
    assert cells["status"] == "failed"


def test_a_disturbed_run_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([0.9, 0.4, 0.6])

    def timed(*_: object) -> Timing:
        return Timing("ok", 1.0, 1.0, other_load=next(loads))

    monkeypatch.setattr(lenet_runs, "time_command", timed)
    setting = Setting({"mxnet": "python"}, Path(), Path())
    assert undisturbed(setting, tasks("mxnet")[0]).other_load == 0.4


def measured(folder: Path, noise: float = 0.0) -> dict[str, pd.DataFrame]:
    """Pretended runs whose costs are known: 2 s, 1 ms a step, 10 ms for 1e9 multiply-adds."""
    draw = random.Random(0)
    for framework in FRAMEWORKS:
        for task in tasks(framework):
            point = {name: float(task.point[name]) for name in SPACE.numeric}
            images = CHUNK * point["chunks"] / point["workers"]
            steps = np.ceil(images / point["batch"]) * point["epochs"]
            work = 3 * images * point["epochs"] * multiply_adds(task.point) / 1e9
            seconds = (2 + 1e-3 * steps + 1e-2 * work) * np.exp(draw.gauss(0, noise))
            timing = Timing("ok", float(seconds), float(seconds), started=OK.started)
            append(table(folder, framework), row(task.point, timing))
    return read(folder)


def test_costs_that_add_are_found(tmp_path: Path) -> None:
    costs = costs_of(measured(tmp_path)["pytorch"])
    assert costs[START].value == pytest.approx(2, rel=0.01)
    assert costs[STEP].value == pytest.approx(1, rel=0.02)
    assert costs[WORK].value == pytest.approx(10, rel=0.02)


def test_repeats_and_shared_points_stay_together(tmp_path: Path) -> None:
    tables = measured(tmp_path)
    cuts = splits(tables, 3)
    held = {name: set(cut.unseen["point"]) for name, cut in cuts.items()}
    for cut in cuts.values():
        assert not set(cut.learn["point"]) & set(cut.unseen["point"])
        assert len(cut.learn) + len(cut.unseen) == len(tables["mxnet"])
    shared = set.intersection(*(set(runs["point"]) for runs in tables.values()))
    assert held["mxnet"] & shared == held["pytorch"] & shared
    assert splits(tables, 4)["mxnet"].unseen["point"].tolist() != list(held["mxnet"])


def test_the_spread_between_repeats_is_that_of_the_noise(tmp_path: Path) -> None:
    runs = measured(tmp_path, noise=0.1)["tensorflow"]
    spread, points = repeat_spread(runs)
    assert points >= 20
    assert spread == pytest.approx(0.1, rel=0.35)
    assert floor(runs)[1] == pytest.approx(100 * spread * 0.798, rel=0.01)


def errors(peer: float) -> pd.DataFrame:
    """The default model at 10 % in the mean, all others at `peer`, over four splits."""
    rows = [
        ("mxnet", method, split, (10 if method == METHODS[0] else peer) + split * step)
        for place, method in enumerate(METHODS)
        for split, step in enumerate((-1, 1, -1, 1) if place % 2 else (1, -1, 1, -1))
    ]
    return pd.DataFrame(rows, columns=["framework", "method", "split", "error"])


def test_the_best_peer_is_beaten_or_not() -> None:
    far, near = (summary(errors(peer))["mxnet"] for peer in (5.0, 11.0))
    assert not holds(far)
    assert holds(near)
    assert near[best_peer(near)].above == pytest.approx(near[best_peer(near)].error - 10, abs=0.6)


def test_what_few_runs_are_worth() -> None:
    rows = [("mxnet", 0, runs, False, 100 / runs) for runs in (5, 10, 20, 40)]
    table_ = pd.DataFrame(
        [*rows, ("mxnet", 0, 5, True, 100 / 15)],
        columns=["framework", "seed", "runs", "others", "error"],
    )
    assert same_error_alone(table_, "mxnet") == pytest.approx(15)
    table_.loc[4, "error"] = 1.0
    assert same_error_alone(table_, "mxnet") == np.inf


def test_levels_that_were_never_run_become_the_most_frequent(tmp_path: Path) -> None:
    runs = measured(tmp_path)["mxnet"]
    known = runs[runs["dataset"] == "mnist"]
    asked = with_known_levels(known, runs)
    assert set(asked["dataset"]) == {"mnist"}
    assert (asked["optimiser"] == runs["optimiser"]).all()


def test_the_cache_keeps_what_was_found(tmp_path: Path) -> None:
    tables = {"mxnet": pd.DataFrame({"seconds": [1.0, 2.0]})}
    path = tmp_path / "cache.json"
    Cache(path, tables).put({("a", 1): 0.5})
    assert Cache(path, tables)["a", 1] == 0.5
    other = {"mxnet": pd.DataFrame({"seconds": [1.0, 3.0]})}
    assert ("a", 1) not in Cache(path, other)


def asked_for(known: float, keys: Sequence[Key]) -> list[float]:
    return [known + int(str(key[-1])) for key in keys]


def test_only_what_the_cache_does_not_know_is_found(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache.json", {"mxnet": pd.DataFrame({"seconds": [1.0]})})
    cache.put({("a", 1): 0.0})
    jobs = [
        Job([("a", 1), ("a", 2)], partial(asked_for, 10.0)),
        Job([("a", 1)], partial(asked_for, 20.0)),
    ]
    fill(cache, jobs, lambda items, *_: items, "finding")
    assert (cache["a", 1], cache["a", 2]) == (0.0, 12.0)


def test_a_figure_is_written_with_its_spread() -> None:
    assert f"{Figure.of(2.0, [1.0, 1.0, 3.0]):.1f}" == "2.0 (1.0 to 2.8)"


def test_the_committed_runs_are_complete() -> None:
    folder = Path(lenet_runs.__file__).parent / "measured"
    for framework in FRAMEWORKS:
        with (folder / f"lenet-{framework}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert Counter(cells["status"] for cells in rows) == {"ok": len(tasks(framework))}
        assert not list(missing(framework, folder / f"lenet-{framework}.csv"))
        assert np.median([float(cells["seconds"]) for cells in rows]) < 10
