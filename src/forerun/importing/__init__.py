"""Runs that people already have: read from the files of other tools into a study.

Every reader turns its file into columns of text (`columns`), which become factors, measures and
runs in one place (`runs`). A reader is imported when its format is met.
"""

from __future__ import annotations

import stat
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from forerun.errors import InputError
from forerun.factors import Space
from forerun.importing.detection import detect
from forerun.importing.options import ImportOptions
from forerun.importing.runs import ImportedRuns

__all__ = ["FORMATS", "ImportOptions", "ImportedRuns", "read_runs"]

FORMATS = {
    "csv": "table",
    "tsv": "table",
    "optuna": "optuna",
    "sacct": "sacct",
    "hyperfine": "hyperfine",
    "extra-p": "extra_p",
}


class _Reader(Protocol):
    def read(self, path: str, options: ImportOptions, like: Space | None) -> ImportedRuns: ...


def read_runs(
    path: str | Path,
    format: str | None = None,  # noqa: A002 - what everybody calls it; format() is not used here
    *,
    like: Space | None = None,
    **options: Any,
) -> ImportedRuns:
    """The space and the runs of a file of another tool.

    `format` is one of `FORMATS`; without it the content tells. `like` is the space of a study to
    which the runs shall be added. The other options are those of `ImportOptions`.
    """
    chosen = ImportOptions.of(**options)
    text = str(path)
    if format is not None and format not in FORMATS:
        raise InputError("--format", format, f"one of {', '.join(FORMATS)}")
    try:
        _check_file(text)
        name = format or detect(text)
        chosen.check_format(name)
        reader: _Reader = import_module(f"{__name__}.{FORMATS[name]}")
        return reader.read(text, chosen, like)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise InputError(text, reason, "a file of runs") from None


def _check_file(path: str) -> None:
    """Refuse what could be read without end, before anything is read."""
    if "://" in path and not path.startswith("sqlite:///"):
        return  # no file; the search for its format says what may stand there
    mode = Path(path.removeprefix("sqlite:///")).stat().st_mode
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise InputError(path, kinds.get(stat.S_IFMT(mode), "a device"), "a file")
