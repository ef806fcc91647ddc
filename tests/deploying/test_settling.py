"""What comes back into the study, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forerun.deploying.record import Predicted, Record
from forerun.deploying.settling import settled
from forerun.factors import Factor, Point, Space
from forerun.jobs.attempts import Attempt
from forerun.jobs.backend import State
from forerun.measuring.program import Program, keep_programs
from forerun.study import Run, Study

UID = "c" * 32
CLEAN = Attempt(
    1,
    job="42",
    nodes=("n1",),
    host="n1",
    started=1_800_000_000.0,
    begun=1_800_000_010.0,
    done=1_800_000_110.0,
    code=0,
    ended=1_800_000_111.0,
    peaks={0: 200_000_000, 1: 300_000_000},
)
DONE = State("done", nodes=("n1",), starts=1, exit_code=0, waited=5.0)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = Study.create(tmp_path / "s.db", Space([Factor.parse("n=1,2,3")]), {"": "train {n}"})
    for n in (1, 2, 3):
        made.add(Run(Point({"n": n}), {"seconds": 50.0 * n}, host="n1"))
    return made


@pytest.fixture
def record(tmp_path: Path, study: Study) -> Record:
    return Record(
        uid=UID,
        name="toy",
        plan="d" * 64,
        request="toy",
        infrastructure="quad",
        candidate=1,
        partition="cpu",
        nodes=1,
        backend="slurm",
        folder=str(tmp_path),
        script="job.sh",
        output="job.out",
        made="2027-01-31T18:00:00+00:00",
        job="42",
        predicted=Predicted(seconds=100, low=90, high=110, run=100, memory_bytes=4e8),
        study=str(study.path),
        point={"n": 2},
        alone=True,
        node_memory=4e9,
    )


def changed(record: Record, **changes: Any) -> Record:
    return record.model_copy(update=changes)


def stored(study: Study) -> Run:
    return next(run for run in study.runs() if run.uid == UID)


def test_a_clean_run_is_one_of_the_studys(record: Record, study: Study) -> None:
    result = settled(record, DONE, [CLEAN])
    run = stored(study)
    assert run.seconds == 100.0
    assert run.measures == {"seconds": 100.0, "memory_bytes": 300_000_000.0}
    assert (run.status, run.host, run.source) == ("ok", "n1", f"deployment {UID}")
    assert run.started == "2027-01-15T08:00:10.000+00:00"
    assert (result.inside, result.stored, result.memory_bytes) == (True, "time", 300_000_000)
    assert result.told == (
        "the run took 1 min 40 s; predicted were 1 min 40 s, 1 min 30 s to 1 min 50 s: "
        "inside the 90 % interval",
        f"{study.path}: the run is stored; the next fit uses it",
    )
    settled(record, DONE, [CLEAN])
    assert len(study) == 4  # once, however often


@pytest.mark.parametrize(
    ("attempts", "state", "why"),
    [
        (
            [replace(CLEAN, done=None, ended=None, code=None), replace(CLEAN, number=2)],
            DONE,
            "more",
        ),
        ([CLEAN], replace(DONE, starts=2), "started more than once"),
        ([CLEAN], replace(DONE, suspended=True), "suspended for a while"),
        ([replace(CLEAN, warned=1_800_000_050.0)], DONE, "asked to save"),
        ([replace(CLEAN, requeued=1_800_000_050.0)], DONE, "asked to save"),
    ],
)
def test_a_time_that_is_not_clean_is_kept_apart(
    record: Record, study: Study, attempts: list[Attempt], state: State, why: str
) -> None:
    result = settled(record, state, attempts)
    run = stored(study)
    assert run.seconds is None
    assert run.measures == {"elapsed_seconds": 100.0, "memory_bytes": 300_000_000.0}
    assert result.stored == "apart"
    assert why in result.told[-1]
    assert len(study.table("seconds")) == 3


@pytest.mark.parametrize(
    ("phase", "status"),
    [
        ("failed", "failed"),
        ("out_of_memory", "out_of_memory"),
        ("timed_out", "timed_out"),
        ("node_lost", "failed"),
        ("cancelled", "cancelled"),
    ],
)
def test_what_ended_badly_is_no_time(record: Record, study: Study, phase: Any, status: str) -> None:
    result = settled(record, replace(DONE, phase=phase), [replace(CLEAN, code=1)])
    run = stored(study)
    assert (run.status, run.seconds) == (status, None)
    assert run.measures == {"memory_bytes": 300_000_000.0}
    assert (result.status, result.stored, result.inside) == (status, "status", None)


def test_what_never_began_is_no_run(record: Record, study: Study) -> None:
    result = settled(record, State("cancelled"), [])
    assert len(study) == 3
    assert result.stored == ""
    assert result.told == (f"{study.path}: nothing was run: nothing stored",)


def test_steps_are_divided_out(record: Record, study: Study) -> None:
    settled(changed(record, repeats=8.0, startup=20.0), DONE, [CLEAN])
    run = stored(study)
    assert run.measures["seconds"] == 10.0
    assert run.measures["wall_seconds"] == 100.0


def test_a_marker_tells_the_time_as_it_did_before(
    record: Record, study: Study, tmp_path: Path
) -> None:
    keep_programs(study, {"": Program.parse("train {n}", marker=r"trained in (\S+) s")})
    (tmp_path / "job.out").write_text("hello\ntrained in 91.5 s\n")
    result = settled(record, DONE, [CLEAN])
    assert stored(study).measures["seconds"] == 91.5
    assert (result.run_seconds, result.inside) == (91.5, True)


def test_a_marker_that_needs_the_clock_does_not(
    record: Record, study: Study, tmp_path: Path
) -> None:
    keep_programs(study, {"": Program.parse("train {n}", marker="epoch")})
    (tmp_path / "job.out").write_text("epoch 1\nepoch 2\n")
    assert settled(record, DONE, [CLEAN]).stored == "apart"
    assert stored(study).seconds is None


def test_other_conditions_are_kept_apart(record: Record, study: Study) -> None:
    other = changed(record, apart="it read its data from scratch, the study's runs from home")
    assert (
        "apart (elapsed_seconds): it read its data from" in settled(other, DONE, [CLEAN]).told[-1]
    )
    assert stored(study).seconds is None


def test_a_plan_for_another_machine_counts_where_the_study_was_made(record: Record) -> None:
    here = changed(record, elsewhere=True, uid="e" * 32)
    assert settled(here, DONE, [CLEAN]).stored == "time"  # n1 has made runs before
    there = settled(changed(record, elsewhere=True), DONE, [replace(CLEAN, host="laptop")])
    assert there.stored == "apart"
    assert "no run of the study was made on this machine" in there.told[-1]


def test_a_surprise_is_explained_as_far_as_can_be(record: Record) -> None:
    slow = replace(CLEAN, done=1_800_000_160.0, nodes=("n3",), host="n3", peaks={0: 3_900_000_000})
    said = Predicted(seconds=130, low=115, high=145, run=100, wait=20, staging=10, memory_bytes=4e8)
    other = changed(record, predicted=said, alone=False, cautions=("workers 8 is beyond",))
    state = replace(DONE, nodes=("n3",), waited=600.0)
    result = settled(other, state, [replace(slow, staged=30.0)])
    assert result.inside is False
    told = "\n".join(result.told)
    assert "the run took 2 min 30 s; predicted were 1 min 40 s, 1 min 25 s to 1 min 55 s: " in told
    assert "50 % longer, outside the 90 % interval" in told
    assert "it waited 10 min in the queue, where the plan had 20 s" in told
    assert "bringing the data there took 30 s, planned were 10 s" in told
    assert "node: the study has no run from n3" in told
    assert "other load: what else ran there meanwhile is not known; job.exclusive" in told
    assert "memory: a process needed 3.63 GiB, more than the 381 MiB that was predicted" in told
    assert "memory: a process needed nearly all of its node's" in told
    assert "the plan had warned: workers 8 is beyond" in told


def test_or_said_to_be_unexplained(record: Record) -> None:
    quick = replace(CLEAN, done=1_800_000_060.0)
    result = settled(record, DONE, [quick])
    assert "50 % shorter, outside the 90 % interval" in result.told[0]
    assert result.told[1].startswith("nothing that is known explains it")


def test_without_a_study_or_a_prediction(record: Record, tmp_path: Path) -> None:
    bare = changed(record, study=None, predicted=None)
    result = settled(bare, DONE, [CLEAN])
    assert result.told == (
        "the run took 1 min 40 s; nothing was predicted",
        "the request has no study: nothing was stored",
    )
    gone = settled(changed(record, study=str(tmp_path / "gone.db")), DONE, [CLEAN])
    assert gone.told[-1].endswith("gone.db: no such file: nothing stored")
