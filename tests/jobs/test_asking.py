import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from patience import ENDLESS, LONG, alive, wait_for

from forerun.errors import InputError, JobError
from forerun.jobs.asking import Answer, ask, check_programs


def test_an_answer() -> None:
    found = ask(["sh", "-c", "echo 42; echo careful >&2; exit 3"], seconds=LONG)
    assert found == Answer(3, "42\n", "careful\n")
    assert found.complaint == "42"


def test_one_that_does_not_end_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pid"
    wait = subprocess.Popen.wait

    def patiently(asked: "subprocess.Popen[bytes]", timeout: float | None = None) -> int:
        """Its time begins when it has said something."""
        if timeout is not None:
            wait_for(lambda: file.exists() and file.read_text().endswith("\n"))
        return wait(asked, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", patiently)
    text = f"sleep {ENDLESS} & echo begun; echo $! > {file}; wait"
    began = time.monotonic()
    found = ask(["sh", "-c", text], seconds=0.5)
    assert time.monotonic() - began < 2 * LONG
    assert (found.code, found.output) == (None, "begun\n")
    assert found.complaint == "no answer in time: begun"
    wait_for(lambda: not alive(int(file.read_text())))


def test_a_child_that_lives_on_keeps_nobody_waiting() -> None:
    found = ask(["sh", "-c", f"sleep {ENDLESS} & echo $!"], seconds=LONG)
    assert found.code == 0
    assert alive(int(found.output))
    os.kill(int(found.output), signal.SIGKILL)


def test_where_it_runs(tmp_path: Path) -> None:
    assert ask(["pwd"], tmp_path, LONG).output.strip() == str(tmp_path)


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
    assert f"{name}=x" not in ask(["env"], seconds=LONG).output.splitlines()
    assert os.environ[name] == "x"
    inherited = ask(["env"], seconds=LONG, environment=os.environ)
    assert f"{name}=x" in inherited.output.splitlines()


@pytest.mark.parametrize("name", ["SLURM_CONF", "SLURM_JWT", "PBS_DEFAULT", "PBS_SERVER", "HOME"])
def test_what_leads_to_the_cluster_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    assert f"{name}=x" in ask(["env"], seconds=LONG).output.splitlines()


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
