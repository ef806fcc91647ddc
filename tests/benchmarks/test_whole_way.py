"""The whole way's pure parts: what is measured, in which order, and how a choice is judged."""

from pathlib import Path

import pytest
from rows import append
from whole_way_plans import TIMES, Choice, Judged, confirm, fulfilled, judge
from whole_way_runs import BEST, NAMES, REPEATS, Measured, Workload, missing

from forerun.errors import InputError
from forerun.factors import Point
from forerun.jobs.command import Timing
from forerun.planning.trials import trial_of


@pytest.mark.parametrize("name", NAMES)
def test_every_workload_has_enough_candidates_and_shorter_trials(name: str, tmp_path: Path) -> None:
    workload = Workload.load(name)
    assert 40 <= len(workload.candidates) <= 100
    (epochs,) = workload.space["epochs"].values
    tried = trial_of(workload.request, tmp_path / "r.yaml", 60.0).space
    assert tried is not None
    assert min(map(float, tried["epochs"].values)) <= 0.1 * float(epochs)
    assert max(map(float, tried["epochs"].values)) <= float(epochs)
    assert {n: tried[n].values for n in workload.request.free} == {
        n: workload.space[n].values for n in workload.request.free
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_script_takes_what_the_request_gives_it(name: str) -> None:
    workload = Workload.load(name)
    words = workload.command(workload.candidates[0]).words
    script = (Path(str(workload.request.application.directory)) / words[1]).read_text()
    assert words[0] == "python"
    assert "forerun" not in script
    for option in (word for word in words if word.startswith("--")):
        assert f'"{option}"' in script


POINTS = [Point({"batch": batch}) for batch in range(1, 9)]


def test_all_candidates_come_first_and_then_the_best_again() -> None:
    order = missing(POINTS, [])
    assert sorted(order, key=lambda point: point["batch"]) == POINTS
    assert order != POINTS
    made: list[tuple[Point, float | None]] = [(point, float(point["batch"])) for point in order]
    assert missing(POINTS, made[:5]) == order[5:]
    again = missing(POINTS, made)
    assert again == POINTS[:BEST] * (REPEATS - 1)
    made += [(point, 100.0) for point in again]
    assert missing(POINTS, made) == []


def test_what_failed_is_not_among_the_best() -> None:
    made: list[tuple[Point, float | None]] = [
        (point, None if point["batch"] == 1 else float(point["batch"])) for point in POINTS
    ]
    assert missing(POINTS, made)[:BEST] == POINTS[1 : 1 + BEST]


def write(folder: Path, workload: Workload, point: Point, *times: str) -> None:
    columns = (*workload.space, "seconds", "status")
    cells = [{**point, "seconds": t, "status": "ok" if t else "failed"} for t in times]
    append(folder / f"whole-way-{workload.name}.csv", columns, cells)


def test_a_choice_is_judged_by_medians_and_first_runs(tmp_path: Path) -> None:
    workload = Workload.load("gru")
    best, other, failed = workload.candidates[:3]
    write(tmp_path, workload, best, "5.0", "8.0", "8.0")  # the first was lucky
    write(tmp_path, workload, other, "10.0")
    write(tmp_path, workload, failed, "")
    measured = Measured(workload, tmp_path)
    assert not measured.is_whole
    assert measured.exhaustive == pytest.approx(15.0)
    found = judge(Choice("gru", 0, 4, 1.5, 1.0, dict(other), 9.0), measured)
    assert (found.candidates, found.measured, found.best) == (2, 10.0, 8.0)
    assert found.regret == pytest.approx(0.25)
    assert found.share == pytest.approx(0.1)
    with pytest.raises(InputError, match="expected every candidate timed"):
        judge(Choice("gru", 0, 4, 1.5, 1.0, dict(failed), 9.0), measured)


def judged(workload: str, seed: int, spent: float, measured: float) -> Judged:
    return Judged(Choice(workload, seed, 10, spent, 1.0, {}, 5.0), 96, 1000.0, measured, 10.0)


def test_the_claim_holds_for_each_workload_in_the_mean() -> None:
    fine = [judged("gru", 0, 90.0, 10.0), judged("gru", 1, 105.0, 10.9)]
    assert fulfilled(fine)
    assert not fulfilled([*fine, judged("mixer", 0, 90.0, 10.6)])
    assert not fulfilled([*fine, judged("mixer", 0, 101.0, 10.0)])


def test_what_was_chosen_and_the_best_are_timed_by_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = Workload.load("gru")
    monkeypatch.setattr(Workload, "time", lambda *_: Timing("ok", 9.0, wall_seconds=9.0))
    measured = Measured(workload, tmp_path)
    for place, point in enumerate(workload.candidates):
        measured.add(point, Timing("ok", 10.0 + place, wall_seconds=10.0 + place))
    last = workload.candidates[-1]
    confirm(measured, [Choice("gru", 0, 5, 1.0, 1.0, dict(last), 9.0)])
    again = [point for point, _ in measured.runs[len(workload.candidates) :]]
    finalists = [*workload.candidates[:BEST], last]
    assert again == finalists * (TIMES - 1)
    confirm(measured, [])
    assert len(measured.runs) == len(workload.candidates) + len(again)
