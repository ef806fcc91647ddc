"""What a campaign decides, with a runner that pretends: it has a clock of its own and no processes.

Real commands are run in `test_campaign_processes.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from forerun.errors import FactorError, InputError, StudyError
from forerun.factors import Factor, Point, Space
from forerun.jobs.command import Timing
from forerun.measuring.campaign import Campaign
from forerun.measuring.design import Chosen, Grid, Listed
from forerun.measuring.outputs import output_directory
from forerun.measuring.program import Program
from forerun.measuring.progress import Limits, Progress
from forerun.measuring.runner import Task
from forerun.study import Run, Status, Study

SPACE = Space([Factor("n", values=(1, 2, 3, 4))])


def timing(seconds: float = 1.0, status: Status = "ok", **others: float) -> Timing:
    reason = "" if status == "ok" else f"it {status}"
    return Timing(
        status,
        seconds=seconds if status == "ok" else None,
        wall_seconds=seconds,
        started="2026-01-01T00:00:00+00:00",
        other_load=others.get("other_load", 0.0),
        left_behind=int(others.get("left_behind", 0)),
        reason=reason,
    )


class Pretended:
    """Ends tasks in the order of their times, on a clock that jumps from one to the next."""

    def __init__(self, result: Callable[[Task], Timing], slots: int = 1) -> None:
        self.slots = slots
        self.now = 0.0
        self.started: list[Task] = []
        self._result = result
        self._under_way: list[tuple[float, Task, Timing]] = []

    def start(self, task: Task) -> None:
        assert len(self._under_way) < self.slots
        self.started.append(task)
        result = self._result(task)
        self._under_way.append((self.now + result.wall_seconds, task, result))

    def finished(self, timeout: float) -> list[tuple[Task, Timing]]:
        assert self._under_way or timeout == 0
        self._under_way.sort(key=lambda item: item[0])
        if not self._under_way:
            return []
        self.now, task, result = self._under_way.pop(0)
        return [(task, result)]

    def host_of(self, task: Task) -> str:
        return f"node {task.point['n']}"

    def cancel_all(self) -> None:
        self._under_way.clear()

    def close(self) -> None:
        self.cancel_all()

    @property
    def order(self) -> list[int]:
        return [int(task.point["n"]) for task in self.started]


class Together(Pretended):
    """Tells of all tasks at once when the last of them has ended."""

    def finished(self, timeout: float) -> list[tuple[Task, Timing]]:
        found: list[tuple[Task, Timing]] = []
        while self._under_way:
            found += super().finished(timeout)
        return found


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study.create(tmp_path / "a.db", SPACE)


def always(result: Timing) -> Callable[[Task], Timing]:
    return lambda _: result


def failing(*values: int, status: Status = "failed") -> Callable[[Task], Timing]:
    return lambda task: timing(1.0, status if task.point["n"] in values else "ok")


def test_it_runs_the_design_and_stores_how_each_run_was_made(study: Study) -> None:
    runner = Pretended(lambda task: timing(float(task.point["n"])))
    summary = Campaign(study, {}, Grid(SPACE, repeats=2), runner).run()
    assert (summary.ended, summary.made, summary.failed, summary.done) == ("done", 8, 0, 8)
    assert summary.seconds_spent == 20.0
    assert summary.reason == "every point has been run as often as the design wants"
    runs = study.runs()
    assert sorted(run.point["n"] for run in runs) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [run.source for run in runs] == ["measure chosen"] * 4 + ["measure repeat"] * 4
    assert all(run.measures == {"seconds": run.point["n"]} for run in runs)
    assert all(run.host == f"node {run.point['n']}" for run in runs)
    assert set(runs[0].versions) >= {"forerun", "linux", "python"}


def test_a_second_start_does_what_is_missing(study: Study) -> None:
    design, runner = Grid(SPACE, seed=3), Pretended(always(timing()))
    first = Campaign(study, {}, design, runner, Limits(runs=3)).run()
    assert (first.ended, first.reason, first.made) == ("runs", "3 runs are done", 3)
    again = Campaign(study, {}, design, runner, Limits(runs=3)).run()
    assert (again.ended, again.made, again.done) == ("runs", 0, 3)
    rest = Campaign(study, {}, Grid(SPACE, seed=3), runner).run()
    assert (rest.ended, rest.made) == ("done", 1)
    assert runner.order == [chosen.point["n"] for chosen in design.next([], [], 4)]


def test_imported_runs_do_not_count_as_measured(study: Study) -> None:
    study.add(Run(Point({"n": 9}), {"seconds": 100.0}, source="runs.csv"))
    runner = Pretended(always(timing()))
    summary = Campaign(study, {}, Grid(SPACE), runner, Limits(runs=2, budget_seconds=50)).run()
    assert (summary.ended, summary.done, summary.seconds_spent) == ("runs", 2, 2.0)


def test_the_budget_is_of_all_starts(study: Study) -> None:
    runner, limits = Pretended(always(timing(10.0))), Limits(budget_seconds=15)
    first = Campaign(study, {}, Grid(SPACE), runner, limits).run()
    assert (first.ended, first.made, first.seconds_spent) == ("budget", 2, 20.0)
    assert first.reason == "the budget of 15 s is spent"
    assert Campaign(study, {}, Grid(SPACE), runner, limits).run().made == 0


def test_failures_cost_seconds_too(study: Study) -> None:
    runner = Pretended(always(timing(10.0, "failed")))
    summary = Campaign(study, {}, Grid(SPACE), runner, Limits(budget_seconds=15)).run()
    assert (summary.ended, summary.failed, summary.seconds_spent) == ("budget", 2, 20.0)


@dataclass
class Stated:
    mape: float
    runs: int


class Learning(Grid):
    """A grid with a model whose error falls with every run, and which every run checks."""

    def stated_error(self, runs: Sequence[Run]) -> Stated | None:
        good = [run for run in runs if run.status == "ok"]
        return Stated(0.6 / len(good), len(good)) if good else None


def test_it_stops_at_the_target_error(study: Study) -> None:
    told: list[Progress] = []
    runner = Pretended(always(timing()))
    summary = Campaign(study, {}, Learning(SPACE), runner, Limits(target_error=0.2)).run(
        told.append
    )
    assert (summary.ended, summary.made) == ("target", 3)
    assert summary.reason == (
        "the stated error is 20 %, at most 20 %; 3 random runs have checked it"
    )
    assert summary.error == Stated(0.6 / 3, 3)
    assert told[0].error is None
    assert told[-1].error == Stated(0.6 / 3, 3)
    assert Campaign(study, {}, Learning(SPACE), runner, Limits(target_error=0.2)).run().made == 0


def test_an_error_that_no_random_runs_have_checked_ends_nothing(study: Study) -> None:
    runner, limits = Pretended(always(timing())), Limits(target_error=0.9)
    summary = Campaign(study, {}, Learning(SPACE), runner, limits).run()
    assert (summary.ended, summary.made) == ("target", 3)  # low enough after the first


def test_a_target_error_needs_a_design_that_states_one(study: Study) -> None:
    with pytest.raises(InputError, match=r"target error: found 20 %, expected an adaptive design"):
        Campaign(study, {}, Grid(SPACE), Pretended(always(timing())), Limits(target_error=0.2))


def test_a_failed_run_is_tried_again_and_given_up(study: Study) -> None:
    runner = Pretended(failing(2))
    summary = Campaign(study, {}, Grid(SPACE), runner, Limits(retries=2)).run()
    assert (summary.ended, summary.made, summary.failed) == ("done", 3, 3)
    assert runner.order.count(2) == 3
    (lost,) = summary.given_up
    assert (lost.point, lost.attempts, lost.reason) == (Point({"n": 2}), 3, "it failed")
    assert summary.warnings[-3:] == (
        "n 2: failed: it failed; it will be tried again (1 of 2)",
        "n 2: failed: it failed; it will be tried again (2 of 2)",
        "n 2: failed: it failed; given up after 3 tries",
    )
    failed = study.runs("failed")
    assert [run.measures for run in failed] == [{"wall_seconds": 1.0}] * 3
    assert len(study.table()) == 3


def test_a_retry_is_what_the_run_was(study: Study) -> None:
    results = iter([timing(1.0, "failed"), timing(), timing()])

    class Randomly(Listed):
        first = "random"

    runner = Pretended(lambda _: next(results))
    Campaign(study, {}, Randomly([Point({"n": 1}), Point({"n": 2})]), runner).run()
    assert [run.source for run in study.runs()] == ["measure random"] * 3
    assert runner.order[0] == runner.order[1]


@pytest.mark.parametrize("status", ["out_of_memory", "timed_out"])
def test_what_would_happen_again_is_not_tried_again(study: Study, status: Status) -> None:
    runner = Pretended(failing(2, status=status))
    summary = Campaign(study, {}, Grid(SPACE), runner, Limits(retries=5)).run()
    assert runner.order.count(2) == 1
    assert [lost.status for lost in summary.given_up] == [status]


def test_a_start_that_was_killed_between_two_tries_is_gone_on_with(study: Study) -> None:
    study.add(Run(Point({"n": 2}), status="failed", source="measure chosen"))
    runner = Pretended(failing(2))
    Campaign(study, {}, Grid(SPACE), runner, Limits(retries=1)).run()
    assert runner.order.count(2) == 1
    assert runner.order[0] == 2
    again = Campaign(study, {}, Grid(SPACE), runner, Limits(retries=1)).run()
    assert runner.order.count(2) == 1
    assert (
        "1 point failed before and will not be tried again (option retry-failed)" in again.warnings
    )


def test_points_that_failed_before_can_be_tried_again(study: Study) -> None:
    Campaign(study, {}, Grid(SPACE), Pretended(failing(2, 3))).run()
    runner = Pretended(failing(3))
    summary = Campaign(study, {}, Grid(SPACE), runner, retry_failed=True).run()
    assert sorted(runner.order) == [2, 3, 3]
    assert [lost.point for lost in summary.given_up] == [Point({"n": 3})]
    assert summary.given_up[0].attempts == 2


def test_failures_of_points_that_nobody_asks_for_are_left_alone(study: Study) -> None:
    study.add(Run(Point({"n": 2}), status="failed", source="measure chosen"))
    study.add(Run(Point({"n": 3}), status="failed", source="measure chosen"))
    study.add(Run(Point({"n": 4}), status="failed", source="sacct"))
    asked = Space([Factor("n", values=(1, 2))])
    runner = Pretended(always(timing()))
    Campaign(
        study, {}, Grid(asked), runner, space=asked, allowed=lambda point: point["n"] != 2
    ).run()
    assert runner.order == [1]


def test_it_stops_when_everything_fails(study: Study) -> None:
    runner = Pretended(always(timing(1.0, "failed")))
    summary = Campaign(study, {}, Grid(SPACE), runner, Limits(failures=3)).run()
    assert (summary.ended, summary.failed) == ("failing", 6)
    assert summary.reason == "3 points failed one after the other: it failed"


def test_few_points_that_all_fail_are_a_failure_too(study: Study) -> None:
    summary = Campaign(study, {}, Grid(SPACE), Pretended(always(timing(1.0, "failed")))).run()
    assert (summary.ended, summary.failed) == ("failing", 6)  # each point twice
    assert summary.reason == "3 points failed one after the other: it failed"


def test_points_that_run_out_of_memory_say_nothing_of_others(study: Study) -> None:
    runner = Pretended(always(timing(1.0, "out_of_memory")))
    summary = Campaign(study, {}, Grid(SPACE), runner).run()
    assert (summary.ended, summary.failed) == ("failing", 4)
    assert summary.reason.startswith("no run ended well: ")


def test_the_tries_of_one_bad_point_end_nothing(study: Study) -> None:
    runner = Pretended(failing(2))
    summary = Campaign(study, {}, Grid(SPACE), runner, Limits(retries=9, failures=2)).run()
    assert (summary.ended, summary.made, summary.failed) == ("done", 3, 10)


def test_each_command_and_each_point_is_warmed_up(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "b.db", Space([Factor("n", values=(1, 2))]))
    programs = {"one": Program.parse("one {n}"), "two": Program.parse("two {n}")}
    for name, program in programs.items():
        study.add_command(name, program.template.text)
    runner = Pretended(always(timing()))
    design = Grid(study.space, repeats=2)
    Campaign(study, programs, design, runner, warmup=3, warmup_point=1).run()
    commands: set[str] = set()
    points: set[Point] = set()
    for task in runner.started:
        first = 0 if task.point in points else 1
        assert task.warmups == (first if task.variant in commands else 3)
        assert task.command is not None
        assert task.command.words == (task.variant, str(task.point["n"]))
        commands.add(task.variant)
        points.add(task.point)
    assert {run.variant for run in study.runs()} == {"one", "two"}


def test_slots_are_filled_and_what_runs_is_not_chosen_again(study: Study) -> None:
    runner = Pretended(lambda task: timing(float(task.point["n"])), slots=3)
    most = 0

    def watch(progress: Progress) -> None:
        nonlocal most
        most = max(most, len(progress.running))

    summary = Campaign(study, {}, Grid(SPACE), runner, Limits(runs=4)).run(watch)
    assert (summary.made, most) == (4, 3)
    assert sorted(runner.order) == [1, 2, 3, 4]
    assert "3 runs at a time disturb each other's times" in summary.warnings


def test_no_more_runs_are_started_than_the_limit_allows(study: Study) -> None:
    runner = Pretended(always(timing()), slots=4)
    assert Campaign(study, {}, Grid(SPACE), runner, Limits(runs=2)).run().done == 2
    assert len(runner.started) == 2


def test_progress_says_how_much_is_left(study: Study) -> None:
    told: list[Progress] = []
    runner = Pretended(always(timing(100.0)))
    Campaign(study, {}, Grid(SPACE, repeats=2), runner, Limits(runs=6)).run(told.append)
    ends = [progress for progress in told if progress.finished is not None]
    assert [progress.done for progress in ends] == [1, 2, 3, 4, 5, 6]
    assert {progress.expected for progress in told} == {6}
    assert [progress.seconds_left for progress in ends] == [500.0, 400.0, 300.0, 200.0, 100.0, 0.0]
    assert [progress.seconds_spent for progress in ends] == [100.0 * i for i in range(1, 7)]
    assert told[0].seconds_left is None
    starts = [progress for progress in told if progress.running]
    assert len(starts) == 6


def test_time_left_is_that_of_the_points_to_come(study: Study) -> None:
    told: list[Progress] = []
    runner = Pretended(lambda task: timing(100.0 * float(task.point["n"])))
    Campaign(study, {}, Grid(SPACE, repeats=2), runner).run(told.append)
    ends = [progress for progress in told if progress.finished is not None]
    left = [1000.0 - 100 * sum(runner.order[4 : 4 + i]) for i in range(5)]
    assert [progress.seconds_left for progress in ends[3:]] == pytest.approx(left)


def test_a_budget_bounds_the_time_left(study: Study) -> None:
    told: list[Progress] = []
    runner = Pretended(always(timing(10.0)))
    Campaign(study, {}, Grid(SPACE), runner, Limits(budget_seconds=25)).run(told.append)
    assert [p.seconds_left for p in told if p.finished] == [15.0, 5.0, 0.0]
    assert told[0].expected == 4


def test_the_first_warm_up_is_no_part_of_the_time_left(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Warming(Pretended):
        def start(self, task: Task) -> None:
            self.now += 10.0 + 500.0 * task.warmups  # until the timed run begins
            super().start(task)

    runner, told = Warming(always(timing(100.0))), list[Progress]()
    clock = SimpleNamespace(monotonic=lambda: runner.now)
    monkeypatch.setattr("forerun.measuring.start.time", clock)
    Campaign(study, {}, Grid(SPACE, repeats=2), runner).run(told.append)
    left = [progress.seconds_left for progress in told if progress.finished]
    assert left == pytest.approx([700.0, *(110.0 * count for count in range(6, -1, -1))])


def test_a_cleanup_that_fails_is_warned_of_once(study: Study) -> None:
    runner = Pretended(always(replace(timing(), reason="cleanup: took longer than 60 s")))
    summary = Campaign(study, {}, Grid(SPACE), runner).run()
    (told,) = [line for line in summary.warnings if "cleanup" in line]
    assert told == f"n {runner.order[0]}: cleanup: took longer than 60 s"


def test_a_disturbed_run_is_warned_of_once_and_counted(study: Study) -> None:
    runner = Pretended(always(timing(other_load=0.5)))
    summary = Campaign(study, {}, Grid(SPACE), runner).run()
    told = [line for line in summary.warnings if "disturb" in line]
    assert "other programs used 0.5 of the processors meanwhile" in told[0]
    assert told[1:] == ["other programs disturbed 4 runs of this start"]
    assert study.targets() == ["seconds", "other_load"]
    assert study.runs()[0].measures["other_load"] == 0.5


def test_a_run_that_leaves_a_processor_idle_is_not_disturbed_by_its_use(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    runner = Pretended(always(replace(timing(other_load=0.5), user_seconds=1.0)))
    summary = Campaign(study, {}, Grid(SPACE), runner).run()
    assert not any("disturb" in line or "busy meanwhile" in line for line in summary.warnings)


def test_a_disturbed_run_is_measured_again_if_asked_for(study: Study) -> None:
    loads = iter([0.5, 0.0, 0.5, 0.5, 0.0, 0.0])
    runner = Pretended(lambda _: timing(other_load=next(loads)))
    Campaign(study, {}, Grid(SPACE), runner, Limits(retries=1), retry_disturbed=True).run()
    assert [run.status for run in study.runs()] == [
        "cancelled",
        "ok",
        "cancelled",
        "ok",
        "ok",
        "ok",
    ]
    assert len(study.table()) == 4


def test_left_behind_processes_are_warned_of(study: Study) -> None:
    runner = Pretended(always(timing(left_behind=1)))
    summary = Campaign(study, {}, Grid(SPACE), runner, Limits(runs=1)).run()
    assert any("the program left a process behind" in line for line in summary.warnings)


def test_noisy_repeats_are_warned_of(study: Study) -> None:
    times = iter([1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0])
    runner = Pretended(lambda _: timing(next(times)))
    summary = Campaign(study, {}, Grid(SPACE, repeats=2), runner).run()
    assert any("repeats of a point spread by 49 %" in line for line in summary.warnings)


def test_it_can_be_stopped_from_outside_and_run_again(study: Study) -> None:
    runner = Pretended(always(timing()))
    campaign = Campaign(study, {}, Grid(SPACE), runner)
    summary = campaign.run(lambda progress: campaign.stop() if progress.done == 2 else None)
    assert (summary.ended, summary.made) == ("interrupted", 2)
    assert summary.reason == "stopped on request; a new start goes on"
    assert campaign.run().made == 2


def test_a_task_that_was_stopped_on_purpose_ends_it(study: Study) -> None:
    results = iter([timing(), timing(1.0, "cancelled")])
    summary = Campaign(study, {}, Grid(SPACE), Pretended(lambda _: next(results))).run()
    assert (summary.ended, summary.made, len(study)) == ("interrupted", 1, 1)


def test_a_runner_that_breaks_ends_it_and_what_is_stored_stays(study: Study) -> None:
    def result(_: Task) -> Timing:
        if len(study) == 2:
            raise InputError("cluster", "no answer", "a scheduler")
        return timing()

    with pytest.raises(InputError, match="cluster: found no answer"):
        Campaign(study, {}, Grid(SPACE), Pretended(result)).run()
    assert len(study) == 2
    assert Campaign(study, {}, Grid(SPACE), Pretended(always(timing()))).run().made == 2


def test_a_study_that_cannot_be_written_loses_nothing(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Study.add

    def full(self: Study, run: Run) -> bool:
        if len(self) == 2:
            raise StudyError(str(self.path), "a full disk", "space to write")
        return add(self, run)

    monkeypatch.setattr(Study, "add", full)
    with pytest.raises(StudyError) as caught:
        Campaign(study, {}, Grid(SPACE), Pretended(always(timing(7.0)))).run()
    assert str(caught.value) == (
        f"{study.path}: found a full disk, expected space to write; 1 run is kept in "
        f"{study.path}.unstored and stored at the next start"
    )
    monkeypatch.undo()
    summary = Campaign(study, {}, Grid(SPACE), Pretended(always(timing(7.0)))).run()
    assert (summary.made, summary.done) == (1, 4)
    assert "1 run that could not be stored before is in the study now" in summary.warnings
    assert [path.name for path in study.path.parent.iterdir()] == ["a.db"]


def test_a_run_that_does_not_fit_the_study_any_more_is_kept_too(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(self: Study, _: Run) -> bool:
        raise FactorError("point", "no m", f"values for the factors of {self.path}")

    monkeypatch.setattr(Study, "add", other)
    with pytest.raises(StudyError, match=r"found no m.*1 run is kept in .*a\.db\.unstored"):
        Campaign(study, {}, Grid(SPACE), Pretended(always(timing()))).run()


def test_of_runs_that_end_together_none_is_lost_where_the_study_cannot_be_written(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Study, _: Run) -> bool:
        raise StudyError(str(self.path), "a full disk", "space to write")

    monkeypatch.setattr(Study, "add", full)
    with pytest.raises(StudyError, match="found a full disk"):
        Campaign(study, {}, Grid(SPACE), Together(always(timing()), slots=3)).run()
    monkeypatch.undo()
    summary = Campaign(study, {}, Grid(SPACE), Pretended(always(timing()))).run()
    assert (summary.made, summary.done) == (1, 4)


def test_of_runs_that_end_together_none_is_lost_where_the_model_breaks(study: Study) -> None:
    class Broken(Grid):
        def stated_error(self, runs: Sequence[Run]) -> Stated | None:
            if runs:
                raise MemoryError("no room for a model")
            return None

    with pytest.raises(MemoryError, match="no room for a model"):
        Campaign(study, {}, Broken(SPACE), Together(always(timing()), slots=3)).run()
    assert len(study) == 3


def test_what_has_ended_is_stored_where_the_runner_breaks(study: Study) -> None:
    class Breaking(Pretended):
        """Breaks once, after a run of each other slot has ended."""

        broken = False

        def finished(self, timeout: float) -> list[tuple[Task, Timing]]:
            if not self.broken:
                self.broken = True
                raise InputError("command", "train", "a program on the PATH")
            return super().finished(timeout)

        def cancel_all(self) -> None:
            """All have just ended by themselves."""

    with pytest.raises(InputError, match="found train, expected a program on the PATH"):
        Campaign(study, {}, Grid(SPACE), Breaking(always(timing()), slots=3)).run()
    assert len(study) == 3


def test_a_changed_command_is_refused_before_anything_runs(study: Study) -> None:
    runner = Pretended(always(timing()))
    Campaign(study, {"": Program.parse("one {n}")}, Grid(SPACE), runner, Limits(runs=1)).run()
    with pytest.raises(StudyError) as caught:
        Campaign(study, {"": Program.parse("two {n}")}, Grid(SPACE), runner).run()
    assert str(caught.value) == (
        f"{study.path}, command: found two {{n}}, expected as before: one {{n}}"
    )
    assert len(runner.started) == 1


def test_a_design_must_keep_to_the_commands_that_there_are(study: Study) -> None:
    space = Space([*SPACE.values(), Factor("variant", "categorical", values=("a", "b"))])
    study.add_command("a", "x {n}")
    study.add_command("b", "x {n}")
    point = Point({"n": 1, "variant": "b"})
    runner = Pretended(always(timing()))
    campaign = Campaign(study, {"a": Program.parse("x {n}")}, Listed([point]), runner, space=space)
    with pytest.raises(InputError, match="variant: found b, expected one of a"):
        campaign.run()
    assert Chosen(point, "chosen").source == "measure chosen"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"runs": 0}, "runs: found 0, expected a whole number of at least 1"),
        ({"budget_seconds": float("nan")}, "budget: found nan, expected a positive number of sec"),
        ({"target_error": -1.0}, "target error: found -1.0, expected a share above 0"),
        ({"retries": -1}, "retries: found -1, expected a whole number of at least 0"),
        ({"failures": 0}, "failures: found 0, expected a whole number of at least 1"),
    ],
)
def test_limits_that_are_none_are_refused(limits: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Limits(**limits)  # type: ignore[arg-type]


def test_no_output_directory_is_made_for_nothing(study: Study) -> None:
    Campaign(study, {}, Grid(SPACE), Pretended(always(timing()))).run()
    assert not output_directory(study.path).exists()
