"""Runs that could not be stored, kept beside the study until it can be written again.

The file is made, with room for many runs, before the first of them: when a disk is full it is too
late to ask for space.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import fields

from forerun._rows import as_json, from_json
from forerun.errors import FactorError, InputError, StudyError
from forerun.study import Run, Study

_ROOM = 64 * 2**10  # bytes


class Unstored:
    """The side file of one study; only for who holds the study's lock."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self.path = study.path.with_name(f"{study.path.name}.unstored")

    def take_in(self) -> int:
        """Store what an earlier campaign could not; returns how many runs were new."""
        runs = self._runs()
        try:  # their uids keep them from coming twice
            added = self._study.add_all(runs) if runs else 0
        except FactorError as error:
            found = f"runs that do not fit the study ({error})"
            raise StudyError(str(self.path), found, "its factors, or no such file") from error
        with suppress(OSError):
            self.path.unlink()
        return added

    def reserve(self) -> None:
        """Take the space for runs that cannot be stored later on."""
        with suppress(OSError), self.path.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, _ROOM)

    def keep(self, run: Run, error: InputError) -> StudyError:
        """Keep a run that the study refused with this error; returns the error to be told."""
        runs = [*self._runs(), run]
        text = "".join(f"{_line(one)}\n" for one in runs)
        try:
            with self.path.open("r+b" if self.path.exists() else "wb") as file:
                file.write(text.encode())  # over the reserved space, not into a new file
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            return StudyError(f"{error}; nor could this run be kept beside it: {_line(run)}")
        are = "1 run is" if len(runs) == 1 else f"{len(runs)} runs are"
        return StudyError(f"{error}; {are} kept in {self.path} and stored at the next start")

    def close(self) -> None:
        """Remove the file, unless it holds runs."""
        if not self._runs():
            with suppress(OSError):
                self.path.unlink()

    def _runs(self) -> list[Run]:
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise StudyError(str(self.path), "no regular file", "runs by forerun, or no such file")
        try:
            lines = self.path.read_bytes().split(b"\n")
        except OSError:
            return []
        found = []
        for line in lines[:-1]:  # after the last line end there is only reserved space
            try:
                found.append(Run(**from_json(line.decode())))
            except (InputError, TypeError, AttributeError, UnicodeDecodeError) as error:
                raise StudyError(
                    str(self.path), f"a damaged line ({error})", "runs by forerun, or no such file"
                ) from error
        return found


def _line(run: Run) -> str:
    document = {field.name: getattr(run, field.name) for field in fields(run)}
    return as_json(document | {"point": dict(run.point)})
