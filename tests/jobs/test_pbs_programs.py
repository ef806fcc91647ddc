"""Whose job is found again: by what a `qstat` prints. Real jobs are in tests/system."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from patience import LONG

from forerun.jobs.pbs import Pbs

UID = "0123456789abcdef" * 2
OURS = pwd.getpwuid(os.geteuid()).pw_name
JOB = """\
Job Id: 7.head
    Job_Name = {name}
{owner}    job_state = R
    Variable_List = PBS_O_HOME=/home,
\t{variable}

"""


@pytest.mark.parametrize(
    ("before_slurm", "owner", "name", "variable", "found"),
    [
        (False, OURS, "lenet", f"FORERUN_UID={UID}", "7.head"),
        (False, "", "lenet", f"FORERUN_UID={UID}", "7.head"),
        (False, "mallory", "lenet", f"FORERUN_UID={UID}", None),
        (False, OURS, f"lenet-{UID[:12]}", "PBS_O_LANG=C", None),
        (True, OURS, f"lenet-{UID[:12]}", "PBS_O_LANG=C", "7.head"),
        (True, "mallory", f"lenet-{UID[:12]}", "PBS_O_LANG=C", None),
    ],
)
def test_only_this_users_job_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before_slurm: bool,
    owner: str,
    name: str,
    variable: str,
    found: str | None,
) -> None:
    owned = f"    Job_Owner = {owner}@login.example.org\n" if owner else ""
    (tmp_path / "jobs.txt").write_text(JOB.format(name=name, owner=owned, variable=variable))
    for program in ("qstat", "sbatch")[: 1 + before_slurm]:
        (tmp_path / program).write_text(f"#!/bin/sh\nexec /bin/cat {tmp_path}/jobs.txt\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Pbs(LONG).find(UID) == found
