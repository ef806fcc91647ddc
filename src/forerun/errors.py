"""What forerun raises and what it warns of.

    Exception
    └── ForerunError
        └── InputError (also a ValueError)   something that the user gave is wrong; exit code 2
            ├── TableError                   a file, row or column of a table
            ├── FactorError                  a factor, a point or a space
            ├── StudyError                   a study file: missing, foreign, truncated, newer
            ├── LevelError                   a level that the model has never seen
            └── JobError                     what a scheduler refuses, or cannot be asked
                └── RefusalError             what it has refused: there is no such job

    UserWarning
    └── ForerunWarning
        ├── ExtrapolationWarning             a prediction outside what was measured
        └── DataWarning                      a table that can be used, but not as it stands

A model that is asked before it is fitted raises scikit-learn's own `NotFittedError`.
"""

from typing import overload

_LONGEST = 80  # characters of a found value that are shown


class ForerunError(Exception):
    """Everything that forerun raises on purpose."""


class InputError(ForerunError, ValueError):
    """Something that the user gave is wrong: where, what was found and what was expected.

    The message is always one line, whatever the offending value holds.
    """

    @overload
    def __init__(self, where: str) -> None: ...
    @overload
    def __init__(self, where: str, found: object, expected: str) -> None: ...
    def __init__(self, where: str, found: object = None, expected: str | None = None) -> None:
        self.where = where
        self.found = found
        self.expected = expected
        if expected is None:
            message = where
        else:
            message = f"{where}: found {_shown(found)}, expected {expected}"
        super().__init__(one_line(message))


class TableError(InputError):
    """A file, row or column of a table is wrong."""


class FactorError(InputError):
    """A factor, a point or a space is wrong."""


class StudyError(InputError):
    """A study file is missing, foreign, damaged, newer than this forerun, or not writable."""


class LevelError(InputError):
    """A category has a level that the model has never seen."""


class JobError(InputError):
    """A scheduler is not there, or refuses what it was asked: what it said, and what to do next."""


class RefusalError(JobError):
    """A scheduler has answered that it does not take a job: there is none."""


class ForerunWarning(UserWarning):
    """Everything that forerun warns of."""


class ExtrapolationWarning(ForerunWarning):
    """A prediction was asked for outside what was measured."""


class DataWarning(ForerunWarning):
    """A table can be used, but something in it should be known."""


def one_line(text: str) -> str:
    """The text with every character that does not print written as an escape, newlines included."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def _shown(found: object) -> str:
    text = one_line(str(found))
    if not text.strip():
        return repr(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
