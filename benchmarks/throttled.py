"""A disk that is slow for some processes: a control group (version 1, blkio) limits what they read.

Only reads that reach the disk are limited. What is in the page cache is not, so whoever measures
must see that it is not there.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup/blkio")
LIMIT = "blkio.throttle.read_bps_device"


@dataclass(frozen=True)
class Group:
    """Processes for which one disk is slow."""

    folder: Path

    def run(self, words: Sequence[str]) -> str:
        """What a program prints that reads from the slow disk; an error where it fails."""
        done = subprocess.run(
            words, preexec_fn=self.enter, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout

    def enter(self) -> None:
        """Make the calling process one of them."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))


def disk_of(path: Path) -> str:
    """Major and minor number of the whole disk that a path lies on; OSError if there is none."""
    number = path.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    block = Path("/sys/dev/block") / device
    if not block.exists():
        raise OSError(f"{path} lies on no disk")
    if (block / "partition").exists():  # the limit is a disk's
        return (block.resolve().parent / "dev").read_text().strip()
    return device


def why_not(path: Path) -> str:
    """Why the disk of a path cannot be made slow; empty where it can."""
    if os.geteuid() != 0:
        return "limiting a disk takes root"
    if not (GROUPS / LIMIT).exists() and not any(GROUPS.glob(f"*/{LIMIT}")):
        return "there are no control groups of version 1 with blkio on this machine"
    try:
        disk_of(path)
    except OSError as error:
        return str(error)
    return ""


@contextmanager
def throttled(path: Path, rate: float) -> Iterator[Group]:
    """A group whose processes read at most so many bytes a second from the disk of a path."""
    folder = Path(tempfile.mkdtemp(prefix="forerun-", dir=GROUPS))
    try:
        (folder / LIMIT).write_text(f"{disk_of(path)} {round(rate)}")
        yield Group(folder)
    finally:
        folder.rmdir()
