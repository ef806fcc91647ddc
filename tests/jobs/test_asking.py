import os
import time
from pathlib import Path

import pytest

from forerun.errors import InputError, JobError
from forerun.jobs.asking import Answer, ask, check_programs


def test_an_answer() -> None:
    found = ask(["sh", "-c", "echo 42; echo careful >&2; exit 3"])
    assert found == Answer(3, "42\n", "careful\n")
    assert found.complaint == "42"


def test_one_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    began = time.monotonic()
    found = ask(["sh", "-c", f"sleep 60 & echo $! > {file}; echo begun; wait"], seconds=0.5)
    assert time.monotonic() - began < 10
    assert (found.code, found.output) == (None, "begun\n")
    assert found.complaint == "no answer in time: begun"
    child = Path("/proc", file.read_text().strip(), "stat")
    limit = time.monotonic() + 5
    while child.exists() and ") Z " not in child.read_text() and time.monotonic() < limit:
        time.sleep(0.05)
    assert not child.exists() or ") Z " in child.read_text()


def test_a_child_that_lives_on_keeps_nobody_waiting() -> None:
    began = time.monotonic()
    assert ask(["sh", "-c", "sleep 5 & echo 42"], seconds=30.0).output == "42\n"
    assert time.monotonic() - began < 4


def test_where_it_runs(tmp_path: Path) -> None:
    assert ask(["pwd"], tmp_path).output.strip() == str(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *("SQUEUE_FORMAT", "SINFO_FORMAT", "SACCT_FORMAT", "SLURM_TIME_FORMAT", "SCANCEL_STATE"),
        *("SBATCH_PARTITION", "SBATCH_ARRAY_INX", "SBATCH_CLUSTERS", "SBATCH_WAIT"),
        # Of the allocation in whose shell we are.
        *("SLURM_CLUSTERS", "SLURM_JOB_ID", "SLURM_MEM_PER_CPU", "SLURM_CPU_BIND"),
        "PBS_DPREFIX",
    ],
)
def test_what_would_change_an_answer_or_a_job_is_left_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "x")
    assert f"{name}=x" not in ask(["env"]).output.splitlines()
    assert os.environ[name] == "x"
    assert f"{name}=x" in ask(["env"], environment=os.environ).output.splitlines()


@pytest.mark.parametrize("name", ["SLURM_CONF", "SLURM_JWT", "PBS_DEFAULT", "PBS_SERVER", "HOME"])
def test_what_leads_to_the_cluster_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    assert f"{name}=x" in ask(["env"]).output.splitlines()


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(JobError, match="found No such file or directory, expected a program"):
        ask(["no-such-scheduler"])
    with pytest.raises(InputError, match="no-such-scheduler: found no such program"):
        check_programs("Slurm", ["sh", "no-such-scheduler"])


@pytest.mark.parametrize(
    ("errors", "complaint"),
    [
        ("sbatch: error: Batch job submission failed: No\n", "Batch job submission failed: No"),
        ("qsub: Unknown queue\n", "Unknown queue"),
        ('sbatch: fatal: x\nTry "sbatch --help" for more information\n', "x"),
        ("", "exit code 1, and not a word"),
    ],
)
def test_last_words(errors: str, complaint: str) -> None:
    assert Answer(1, "", errors).complaint == complaint
