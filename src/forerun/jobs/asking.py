"""Asking a scheduler's own programs, in a way that always comes to an end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forerun.errors import InputError, JobError

PATIENCE = 30.0  # seconds that a program may take to answer
MOST = 64 * 2**20  # bytes of an answer that are read
# What a user has set for their own commands would change what we read; to sbatch it counts for more
# than the lines of a script. And what an allocation has left in this shell is not the new job's.
_NOT_OURS = re.compile(
    r"(SBATCH|SCANCEL|SQUEUE|SACCT|SINFO|SCONTROL|_?SLURM)_|PBS_DPREFIX$"  # the last: of `#PBS`
)
_TO_REACH_IT = re.compile(r"SLURM_(CONF|CONF_SERVER|JWT|SACK_\w+)$")
_HINT = re.compile(r"Try .*--help")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program printed, and how it ended."""

    code: int | None  # negative: the signal that ended it; None: it did not end in time
    output: str
    errors: str

    @property
    def said(self) -> str:
        """All of it: some programs complain on standard output."""
        return f"{self.errors}\n{self.output}".strip()

    @property
    def complaint(self) -> str:
        """Its last words, without the name of who said them."""
        lines = [line.strip(" \t'") for line in self.said.splitlines()]
        last = next((line for line in reversed(lines) if line and not _HINT.match(line)), "")
        said = re.sub(r"^(\w+: )?((error|fatal): )?", "", last)
        if self.code is None:
            return f"no answer in time: {said}" if said else "no answer in time"
        return said or f"exit code {self.code}, and not a word"


def ask(
    words: Sequence[str],
    directory: Path | None = None,
    seconds: float = PATIENCE,
    environment: Mapping[str, str] | None = None,
) -> Answer:
    """The answer of a program; JobError where it cannot be started.

    Its environment is what a scheduler's own may see of ours, unless another one is given.

    What it prints goes to files, so that a child of it that lives on keeps nobody waiting, and what
    is still there when its time is over is ended.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            running = subprocess.Popen(
                words,
                cwd=directory,
                env=_environment(os.environ) if environment is None else environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for us: half a submission helps nobody
            )
        except OSError as error:
            raise JobError(words[0], error.strerror, "a program that can be started") from None
        code = None
        try:
            code = running.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if code is None:
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read(MOST).decode(errors="replace"))
    return Answer(code, *texts)


def check_programs(scheduler: str, names: Sequence[str]) -> None:
    """InputError where one of a scheduler's programs is not on this machine."""
    for name in names:
        if shutil.which(name) is None:
            expected = f"the programs of {scheduler} on the PATH: submit where they are, or deploy"
            raise InputError(name, "no such program", f"{expected} with the back end local")


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Our variables, but for those that change what a scheduler answers, or what it is asked."""
    return {
        name: value
        for name, value in inherited.items()
        if _TO_REACH_IT.match(name) or not _NOT_OURS.match(name)
    }
