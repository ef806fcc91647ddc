"""What runs printed: kept beside the study for those that failed, and for the last that did not."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Set
from contextlib import suppress
from pathlib import Path

from forerun.jobs.spec import UID
from forerun.study import Run

KEPT_GOOD = 5  # files of runs that ended well
KEPT_BAD = 50  # files of runs that did not
KEPT_BYTES = 256 * 2**20  # of all of them together


def output_directory(study: Path) -> Path:
    """The directory beside a study for its runs' output: `lenet.output` for `lenet.db`."""
    return study.with_name(f"{study.stem}.output")


def job_folder(directory: Path, uid: str) -> Path:
    """The folder of the job that a run is made by, where it is made by one."""
    return directory / "jobs" / uid


def unseen_jobs(directory: Path, stored: Set[str]) -> list[Path]:
    """The folders of jobs whose runs the study does not have: they may still be under way."""
    jobs = job_folder(directory, "").resolve()
    if directory.is_symlink() or jobs != directory.resolve() / "jobs" or not jobs.is_dir():
        return []
    folders = (one for one in sorted(jobs.iterdir()) if one.is_dir() and not one.is_symlink())
    return [one for one in folders if UID.fullmatch(one.name) and one.name not in stored]


def tidy(directory: Path, runs: Iterable[Run], running: Iterable[str] = ()) -> None:
    """Remove what is no longer worth its space.

    That is the output of good runs but the last few, and of old failures, with the folders of
    their jobs. Files that are named for none of these runs are somebody else's, and stay.
    """
    statuses = {run.uid: run.status for run in runs}
    own = statuses.keys() - set(running)
    good, bad = list[Path](), list[Path]()
    for file in _by_age(directory, own):
        (good if statuses[file.stem] == "ok" else bad).append(file)
    kept = [*good[-KEPT_GOOD:], *bad[-KEPT_BAD:]]  # the failures are the last to go
    for file in (*good[:-KEPT_GOOD], *bad[:-KEPT_BAD]):
        _remove(file)
    sizes = [_size(file) for file in kept]
    while kept and sum(sizes) > KEPT_BYTES:
        _remove(kept.pop(0))
        sizes.pop(0)


def _by_age(directory: Path, uids: Set[str]) -> list[Path]:
    """The files of these runs, oldest first; none where the directory is a link to others."""
    if directory.is_symlink():
        return []
    files = [file for file in directory.glob("*.txt") if file.stem in uids]
    return sorted(files, key=lambda file: (_age(file), file.name))


def _age(file: Path) -> float:
    with suppress(OSError):
        return file.stat().st_mtime
    return 0.0


def _size(file: Path) -> int:
    with suppress(OSError):
        return file.stat().st_size
    return 0


def _remove(file: Path) -> None:
    with suppress(OSError):
        file.unlink()
        shutil.rmtree(job_folder(file.parent, file.stem))
