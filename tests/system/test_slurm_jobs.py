"""What only Slurm does: arrays, dependencies, lost nodes; and answers that never come."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from beds import PROGRAMS, Bed, bed_of, program, small_cluster
from slurm import Cluster

from forerun.errors import JobError
from forerun.jobs.attempts import read_attempts, run_seconds
from forerun.jobs.backend import Backend, Submission
from forerun.jobs.pbs import Pbs
from forerun.jobs.slurm import Slurm
from forerun.jobs.slurm_answers import COMPLETED, accounted

UNTIL = "until test -e go; do sleep 0.1; done"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield from small_cluster()


@pytest.fixture
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Bed:
    return bed_of("slurm", request, tmp_path)


def test_an_array_is_one_job(bed: Bed) -> None:
    lines = 'test "$SLURM_ARRAY_TASK_ID" != 2 || exit 5'
    submission = bed.job("array", lines, more="#SBATCH --array=1-3")
    job = bed.backend.submit(submission)
    assert bed.backend.find(submission.uid) == job
    found = bed.until(job, submission)
    assert (found.phase, found.exit_code, found.starts) == ("failed", 5, 1)
    assert found.reason == "1 failed, 2 done of 3 tasks: exit code 5"
    assert len(read_attempts(submission.script.parent)) == 3


def test_a_job_waits_for_another(bed: Bed) -> None:
    first = bed.job("first", UNTIL)
    before = bed.backend.submit(first)
    second = bed.job("second", "true", more=f"#SBATCH --dependency=afterok:{before}")
    job = bed.backend.submit(second)
    found = bed.state(job, second)
    assert (found.phase, found.starts) == ("queued", 0)
    assert found.reason == "Dependency: waits for another job"
    (first.script.parent / "go").touch()
    assert bed.until(job, second).phase == "done"
    assert bed.state(before, first).phase == "done"


def test_what_slurm_keeps_of_ended_jobs(bed: Bed, cluster: Cluster) -> None:
    submission = bed.job("kept", "exit 4")
    job = bed.backend.submit(submission)
    assert bed.until(job, submission).phase == "failed"
    sacct = ("sacct", "--completion", "--parsable2", "--noheader", f"--jobs={job}")
    found = accounted(cluster.run(*sacct, f"--format={','.join(COMPLETED)}"), job)
    assert found is not None
    assert (found.phase, found.starts, len(found.nodes)) == ("failed", 1, 1)
    forgotten = bed.state("999999", submission)  # Slurm never had it: the folder tells
    assert (forgotten.phase, forgotten.exit_code) == ("failed", 4)


def test_a_job_that_stands_still_for_a_while(bed: Bed, cluster: Cluster) -> None:
    submission = bed.job("still", UNTIL)
    job = bed.backend.submit(submission)
    assert not bed.until(job, submission, "running").suspended
    cluster.run("scontrol", "suspend", job)
    assert bed.state(job, submission).phase == "running"
    cluster.run("scontrol", "resume", job)
    (submission.script.parent / "go").touch()
    found = bed.until(job, submission)
    assert (found.phase, found.starts, found.suspended) == ("done", 1, True)


def test_what_this_shell_has_set_is_not_the_jobs(
    bed: Bed, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SBATCH_PARTITION": "short",
        "SBATCH_ARRAY_INX": "1-3",
        "SBATCH_OUTPUT": "elsewhere.out",
        "SBATCH_CLUSTERS": "other",  # which would be asked for, and is not there
        "SLURM_MEM_PER_CPU": "17",
        "SLURM_CPU_BIND": "none",
    }.items():
        monkeypatch.setenv(name, value)
    submission = bed.job("shell", "env")
    job = bed.backend.submit(submission)
    assert bed.until(job, submission).phase == "done"
    assert "Partition=debug " in cluster.run("scontrol", "show", "job", "--oneliner", job)
    printed = (submission.script.parent / "job.out").read_text().splitlines()
    assert f"SLURM_JOB_ID={job}" in printed
    for line in ("SLURM_MEM_PER_CPU=17", "SLURM_CPU_BIND=none", "SLURM_ARRAY_TASK_ID=1"):
        assert line not in printed


SHIM = """\
#!/bin/bash
# Submits, or does not, and in most cases does not say.
case $((RANDOM % 8)) in
    0 | 1) exec {real} "$@" ;;
    2) {real} "$@" > /dev/null ;;
    3) {real} "$@" > /dev/null; kill -KILL $$ ;;
    4) kill -KILL $$ ;;
    5) {real} "$@" > /dev/null; sleep 60 ;;
    6) {real} "$@" > /dev/null
       echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv" >&2
       exit 1 ;;
    7) echo "sbatch: error: Batch job submission failed: Unable to contact slurm controller" >&2
       exit 1 ;;
esac
"""


@pytest.mark.parametrize(("kind", "count"), [("slurm", 100), ("pbs", 10)])
def test_answers_that_are_lost_make_no_second_job(
    kind: str,
    count: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
) -> None:
    bed = bed_of(kind, request, tmp_path)
    backend: Backend = (Slurm if kind == "slurm" else Pbs)(seconds=3.0, looks=(0.2, 0.4, 0.8))
    shims = tmp_path / "shims"
    shims.mkdir()
    name = PROGRAMS[kind]
    (shims / name).write_text(SHIM.format(real=program(name)))
    (shims / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:{os.environ['PATH']}")
    submissions = [bed.job(f"lost{number}", "true") for number in range(count)]

    def submitted(submission: Submission) -> str:
        for _ in range(5):
            try:
                return backend.submit(submission)
            except JobError as error:
                last = error  # after several tries it says so: somebody tries again
        raise last

    with ThreadPoolExecutor(4) as pool:
        jobs = list(pool.map(submitted, submissions))
    shown = {"slurm": "%k", "pbs": "%j"}[kind]  # the comment, or the name, which has the uid
    listed = cluster.run(
        "squeue", "--noheader", "--states=all", f"--format=%F {shown}"
    ).splitlines()
    wanted = {
        f"forerun:{one.uid}" if kind == "slurm" else f"{one.name}-{one.uid[:12]}": job
        for one, job in zip(submissions, jobs, strict=True)
    }
    found = [(key, job) for job, key in (line.split() for line in listed) if key in wanted]
    assert sorted(found) == sorted(wanted.items())  # none twice, none missing
    assert len(set(jobs)) == count


# The last: the cluster has a node less from here on.
def test_a_node_is_lost(bed: Bed, cluster: Cluster) -> None:
    lines = 'test "${SLURM_RESTART_COUNT:-0}" != 0 || sleep 600'
    submission = bed.job("cut", lines, more="#SBATCH --requeue")
    job = bed.backend.submit(submission)
    (node,) = bed.until(job, submission, "running").nodes
    folder = submission.script.parent
    while not read_attempts(folder):
        time.sleep(0.1)
    cluster.lose(node)
    found = bed.until(job, submission)
    assert (found.phase, found.starts, found.waited) == ("done", 2, None)
    assert found.nodes != (node,)
    attempts = read_attempts(folder)
    assert [(one.number, one.ended is None, one.job) for one in attempts] == [
        (1, True, job),
        (2, False, job),
    ]
    assert run_seconds(attempts) is None  # twice started: no clean time
    assert bed.backend.submit(submission) == job
