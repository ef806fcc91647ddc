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


def test_what_people_set_for_their_eyes_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    found = ask(["env"]).output.splitlines()
    assert "SLURM_CONF=/etc/slurm.conf" in found
    assert not [line for line in found if line.startswith(("SQUEUE_", "SLURM_TIME"))]
    assert os.environ["SQUEUE_FORMAT"] == "%i"


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
