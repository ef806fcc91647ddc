"""The whole way's pure parts: what is measured, in which order, and how a choice is judged."""

from pathlib import Path

import pytest
from whole_way_plans import ROUNDS, Choice, Judged, confirm, fulfilled, judge
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


def timed(seconds: float) -> Timing:
    return Timing("ok", seconds, wall_seconds=seconds)


def exhausted(folder: Path) -> Measured:
    """A workload each of whose candidates took a second more than the one before, from 10 s on.

    The first was lucky: it takes 15 s when it is timed again.
    """
    measured = Measured(Workload.load("gru"), folder)
    points = measured.workload.candidates
    for place, point in enumerate(points):
        measured.add(point, timed(10.0 + place))
    for point in missing(points, measured.runs):
        measured.add(point, timed(15.0 if point == points[0] else 10.0 + points.index(point)))
    return measured


def test_a_choice_is_judged_by_fresh_runs_beside_what_measuring_all_would_choose(
    tmp_path: Path,
) -> None:
    measured = exhausted(tmp_path)
    points = measured.workload.candidates
    assert measured.is_whole
    assert measured.exhaustive == pytest.approx(sum(10.0 + place for place in range(len(points))))
    assert measured.best == points[1]  # and not the lucky one
    choice = Choice("gru", 0, 4, measured.exhaustive / 10, 1.0, dict(points[9]), 9.0)
    with pytest.raises(InputError, match="no fresh time"):
        judge(choice, measured)
    for point, times in {
        points[1]: (9, 8, 30),
        points[2]: (6, 6, 6),
        points[9]: (9, 9, 10),
    }.items():
        for seconds in times:
            measured.add(point, timed(seconds))
    found = judge(choice, Measured(measured.workload, tmp_path))
    assert (found.candidates, found.measured, found.best, found.least) == (96, 9.0, 9.0, 6.0)
    assert (found.regret, found.most) == (0.0, 0.5)
    assert found.share == pytest.approx(0.1)


def test_a_run_that_failed_is_no_time(tmp_path: Path) -> None:
    measured = Measured(Workload.load("gru"), tmp_path)
    first, second = measured.workload.candidates[:2]
    measured.add(first, Timing("failed"))
    measured.add(second, timed(4.0))
    for found in (measured, Measured(measured.workload, tmp_path)):
        assert not found.is_whole
        assert found.exhaustive == 4.0
        assert found.typical == {second: 4.0}


def judged(workload: str, seed: int, spent: float, measured: float) -> Judged:
    return Judged(Choice(workload, seed, 10, spent, 1.0, {}, 5.0), 96, 1000.0, measured, 10.0, 9.0)


def test_the_claim_holds_for_each_workload_in_the_mean() -> None:
    fine = [judged("gru", 0, 90.0, 10.0), judged("gru", 1, 105.0, 10.9)]
    assert fulfilled(fine)
    assert not fulfilled([*fine, judged("mixer", 0, 90.0, 10.6)])
    assert not fulfilled([*fine, judged("mixer", 0, 101.0, 10.0)])


def test_what_was_chosen_and_the_best_are_timed_by_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = exhausted(tmp_path)
    monkeypatch.setattr(Workload, "time", lambda *_: timed(9.0))
    points = measured.workload.candidates
    choices = [Choice("gru", 0, 5, 1.0, 1.0, dict(points[-1]), 9.0)]
    confirm(measured, choices)
    again = [point for point, _ in measured.afresh]
    # The lucky one is timed again too: it is among the five that were quickest in the median.
    assert again == [*points[1:5], points[0], points[-1]] * ROUNDS
    confirm(measured, choices)
    assert len(measured.afresh) == len(again)
