"""What Slurm's programs are asked, where only a cluster of another kind would show it.

Jobs of a real Slurm are in tests/system; the programs here print what such a cluster would, and
keep what they were asked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from patience import LONG

from forerun.errors import JobError
from forerun.jobs.backend import Limit, Submission
from forerun.jobs.slurm import Slurm

UID = "0123456789abcdef" * 2
CONFIG = "Configuration data\nClusterName             = here\nMessageTimeout          = 10 sec\n"

Programs = Callable[..., None]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Programs that print what they are told to, each by its name."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def make(**outputs: str) -> None:
        for name, output in outputs.items():
            (folder / f"{name}.txt").write_text(output)
            text = f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/asked\ncat {folder}/{name}.txt\n'
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    make(sbatch="42\n", squeue="", scontrol=CONFIG, scancel="", sinfo="", sacct="")
    return make


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    (tmp_path / "job.sh").write_text("true\n")
    return Submission(UID, "lenet", tmp_path / "job.sh")


def asked(folder: Path, name: str) -> list[str]:
    lines = (folder / "asked").read_text().splitlines()
    return [line for line in lines if line.split()[0] == name]


@pytest.mark.parametrize("answer", ["42\n", "42;here\n"])
def test_a_job_of_this_cluster(programs: Programs, submission: Submission, answer: str) -> None:
    programs(sbatch=answer)
    assert Slurm(LONG).submit(submission) == "42"
    assert asked(submission.script.parent, "scancel") == []


def test_a_job_that_went_to_another_cluster_is_refused(
    programs: Programs, submission: Submission
) -> None:
    programs(sbatch="42;other\n")
    expected = "job 42: found sent to the cluster other, ended there, expected a job of this cluste"
    with pytest.raises(JobError, match=expected):
        Slurm(LONG).submit(submission)
    assert asked(submission.script.parent, "scancel") == ["scancel --clusters=other 42"]


# A partition that its operator hides from lists: only who asks for all of them sees its jobs.
HIDES = """\
#!/bin/sh
case " $* " in *" --all "*) cat {0}.txt ;; esac
"""


def test_hidden_partitions_are_seen(programs: Programs, submission: Submission) -> None:
    programs(squeue=f"41|RUNNING|n1|forerun:{UID}\n", sinfo="hidden|1:00:00|1-2\n")
    for name in ("squeue", "sinfo"):
        program = submission.script.parent / "programs" / name
        program.write_text(HIDES.format(program))
    assert Slurm(LONG).find(UID) == "41"
    assert Slurm(LONG).submit(submission) == "41"  # and not a second one
    assert Slurm(LONG).limits() == [Limit("hidden", 3600.0, 2)]


@pytest.mark.parametrize(
    ("config", "seconds"),
    [(CONFIG, 13.0), (CONFIG.replace("10 sec", "100 sec"), 103.0), ("ClusterName = here\n", 0.0)],
)
def test_how_long_a_message_may_wait(programs: Programs, config: str, seconds: float) -> None:
    programs(scontrol=config)
    assert Slurm(LONG)._waits() == seconds
