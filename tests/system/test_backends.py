"""What every back end does, shown by real jobs: processes, Slurm, and PBS over Slurm."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from beds import BACKENDS, HEADS, LONG, Bed, bed_of, small_cluster
from slurm import Cluster

from forerun.errors import InputError, JobError
from forerun.jobs.attempts import read_attempts
from forerun.jobs.backend import Limit, Submission, backend_of
from forerun.jobs.pbs import Pbs
from forerun.jobs.slurm import Slurm

HUNGRY = "python3 -c 'import time; held = b\"x\" * (400 << 20); time.sleep(300)'"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield from small_cluster()


@pytest.fixture(params=list(BACKENDS))
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Bed:
    return bed_of(request.param, request, tmp_path)


@pytest.fixture(scope="module")
def overdue(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[str, Submission]]:
    """Jobs that are over their time when their test comes: schedulers count in minutes."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
        for name in ("slurm", "pbs"):
            if name == "slurm" or shutil.which("qsub"):
                folder = tmp_path_factory.mktemp(name)
                bed = Bed(BACKENDS[name](), folder, HEADS[name])
                job = bed.job("overdue", "sleep 600", minutes="1")
                found[name] = bed.backend.submit(job), job
    return found


@pytest.mark.usefixtures("overdue")  # so that they start now
def test_the_cluster_is_there(cluster: Cluster) -> None:
    assert len(cluster.nodes) == 4


def test_the_back_end_is_there(bed: Bed) -> None:
    bed.backend.check()
    assert type(backend_of(bed.backend.name)) is type(bed.backend)


def test_a_job_that_ends_well(bed: Bed) -> None:
    submission = bed.job("well", "echo trained; sleep 1")
    began = time.monotonic()
    job = bed.backend.submit(submission)
    assert bed.until(job, submission, "running").phase in ("running", "done")
    found = bed.until(job, submission)
    assert (found.phase, found.reason, found.exit_code) == ("done", "", 0)
    assert (found.starts, len(found.nodes)) == (1, 1)
    assert found.waited is not None
    assert 0 <= found.waited < time.monotonic() - began + 1  # schedulers count whole seconds
    assert (submission.script.parent / "job.out").read_text() == "trained\n"


def test_a_job_that_fails(bed: Bed) -> None:
    submission = bed.job("fails", "echo no such data; exit 3")
    found = bed.until(bed.backend.submit(submission), submission)
    assert (found.phase, found.reason, found.exit_code) == ("failed", "exit code 3", 3)


def test_a_job_that_is_cancelled_leaves_nothing(bed: Bed) -> None:
    submission = bed.job("endless", 'sleep 3000 & note "host pid$!"; wait "$!"')
    job = bed.backend.submit(submission)
    assert bed.until(job, submission, "running").phase == "running"
    folder = submission.script.parent
    while not (started := read_attempts(folder)) or not started[0].host:
        time.sleep(0.1)
    bed.backend.cancel(job)
    assert bed.until(job, submission).phase == "cancelled"
    pid = int(started[0].host.removeprefix("pid"))
    limit = time.monotonic() + LONG
    while Path(f"/proc/{pid}").exists() and time.monotonic() < limit:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()
    bed.backend.cancel(job)  # it has ended, and is left as it is
    assert bed.state(job, submission).phase == "cancelled"


def test_a_job_that_runs_out_of_memory(bed: Bed) -> None:
    submission = bed.job("hungry", HUNGRY, memory="100")
    found = bed.until(bed.backend.submit(submission), submission)
    assert found.phase == "out_of_memory"


def test_the_same_submission_is_one_job(bed: Bed) -> None:
    submission = bed.job("once", "sleep 0.5")
    assert bed.backend.find(submission.uid) is None
    with ThreadPoolExecutor(3) as pool:
        jobs = list(pool.map(bed.backend.submit, [submission] * 3))
    assert len(set(jobs)) == 1
    assert bed.backend.find(submission.uid) == jobs[0]
    assert bed.backend.find("0" * 32) is None
    assert bed.until(jobs[0], submission).phase == "done"
    assert bed.backend.submit(submission) == jobs[0]  # also when it has ended
    assert [path.name for path in (submission.script.parent / "attempts").iterdir()] == ["1"]


def test_what_was_never_submitted(bed: Bed) -> None:
    with pytest.raises(JobError) as caught:
        bed.backend.state("; touch /tmp/canary")
    assert len(str(caught.value).splitlines()) == 1


def test_limits(bed: Bed) -> None:
    limits = {limit.queue: limit for limit in bed.backend.limits()}
    if bed.backend.name == "local":
        assert limits == {"local": Limit("local", None, 1)}
    else:
        assert limits == {"debug": Limit("debug", 3600.0), "short": Limit("short", 600.0, 2)}


@pytest.mark.parametrize(
    ("kind", "line", "told"),
    [
        ("slurm", "#SBATCH --partition=nowhere", "expected a queue that is there"),
        ("slurm", "#SBATCH --time=2-00:00:00", "expected a wall time and nodes within the queue's"),
        ("slurm", "#SBATCH --nodes=9", "expected no more than the queue's nodes have"),
        ("slurm", "#SBATCH --gres=gpu:1", "expected no more than the queue's nodes have"),
        ("slurm", "#SBATCH --colour=green", "expected options that it knows"),
        ("pbs", "#PBS -q nowhere", "expected a queue that is there"),
        ("pbs", "#PBS -l walltime=99:00:00", "expected a wall time and nodes within the queue's"),
    ],
)
def test_a_job_that_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, line: str, told: str
) -> None:
    bed = bed_of(kind, request, tmp_path)
    submission = bed.job("refused", "true", more=line)
    with pytest.raises(JobError) as caught:
        bed.backend.submit(submission)
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert bed.backend.find(submission.uid) is None


@pytest.mark.parametrize("kind", ["slurm", "pbs"])
def test_where_no_scheduler_is(
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed = bed_of(kind, request, tmp_path)
    # Slurm waits a minute for the file to appear; we do not.
    bed = replace(bed, backend=replace(cast(Slurm | Pbs, bed.backend), seconds=2.0))
    submission = bed.job("lost", "true")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    for call in (bed.backend.check, lambda: bed.backend.submit(submission)):
        with pytest.raises(InputError) as caught:
            call()
        assert len(str(caught.value).splitlines()) == 1
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no such program, expected the programs of"):
        bed.backend.check()


@pytest.mark.parametrize("kind", ["local", "slurm", "pbs"])
def test_a_job_that_takes_too_long(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    bed = bed_of(kind, request, tmp_path)
    if kind == "local":
        submission = bed.job("overdue", "sleep 600", minutes="1")
        job = bed.backend.submit(submission)
    else:
        job, submission = request.getfixturevalue("overdue")[kind]
    found = bed.until(job, submission)
    assert (found.phase, found.starts) == ("timed_out", 1)
