"""What runs printed: kept beside the study for those that failed, and for the last that did not."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from forerun.study import Run

KEPT_GOOD = 5  # files of runs that ended well
KEPT_BAD = 50  # files of runs that did not
KEPT_BYTES = 256 * 2**20  # of all of them together


def output_directory(study: Path) -> Path:
    """The directory beside a study for its runs' output: `lenet.output` for `lenet.db`."""
    return study.with_name(f"{study.stem}.output")


def tidy(directory: Path, runs: Iterable[Run], running: Iterable[str] = ()) -> None:
    """Remove what is no longer worth its space.

    That is the output of good runs but the last few, and of old failures, to which runs belong
    whose end nobody saw. Files that no run's output is named like are somebody else's, and stay.
    """
    under_way = set(running)
    went_well = {run.uid for run in runs if run.status == "ok"}
    good, bad = list[Path](), list[Path]()
    for file in _by_age(directory):
        if file.stem not in under_way:
            (good if file.stem in went_well else bad).append(file)
    kept = [*good[-KEPT_GOOD:], *bad[-KEPT_BAD:]]  # the failures are the last to go
    for file in (*good[:-KEPT_GOOD], *bad[:-KEPT_BAD]):
        _remove(file)
    sizes = [_size(file) for file in kept]
    while kept and sum(sizes) > KEPT_BYTES:
        _remove(kept.pop(0))
        sizes.pop(0)


def _by_age(directory: Path) -> list[Path]:
    """The files of runs, oldest first: 32 hexadecimal digits, as their uids."""
    files = [
        file
        for file in directory.glob("*.txt")
        if len(file.stem) == 32 and not set(file.stem) - set("0123456789abcdef")
    ]
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
