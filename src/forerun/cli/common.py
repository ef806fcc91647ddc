"""What all verbs share: where output goes, how errors end, and the options that every verb has.

Results go to standard output; progress, notes, warnings and errors go to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.errors import ExtrapolationWarning, ForerunWarning, InputError, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from forerun.modelling.kept import KeptModel
    from forerun.study import Study

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

StudyPath = Annotated[
    Path, typer.Argument(metavar="STUDY", help="The study file.", show_default=False)
]
Json = Annotated[
    bool, typer.Option("--json", metavar="", help="Print one JSON document instead of text.")
]
Target = Annotated[
    str,
    typer.Option("--target", metavar="NAME", help="The measured column: seconds, memory, joules …"),
]

_FEWEST = 2  # runs that a model can be fitted to
_TARGET_NAMES = {"memory": "memory_bytes", "time": "seconds", "energy": "joules"}


def guarded(call: Callable[[], int | None]) -> int:
    """Run `call`; say what went wrong in one line, and return the exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("default" if _debugging() else "ignore")
        warnings.simplefilter("always", ForerunWarning)
        warnings.simplefilter("ignore", ExtrapolationWarning)  # verbs print the cautions themselves
        try:
            code = call() or OK
            sys.stdout.flush()  # here, where a reader that has left is no failure
            if code == INTERRUPTED:  # what Typer makes of a KeyboardInterrupt
                return _failed(None, "interrupted", INTERRUPTED)
            return code
        except InputError as error:
            return _failed(error, str(error), BAD_INPUT)
        except typer.TyperException as error:
            return _failed(error, error.format_message(), BAD_INPUT)
        except (KeyboardInterrupt, typer.Abort):
            return _failed(None, "interrupted", INTERRUPTED)
        except BrokenPipeError:
            return _unread()
        except SystemExit as error:  # what Rich and Typer make of a broken pipe
            if isinstance(error.__context__, BrokenPipeError):
                return _unread()
            raise
        except OSError as error:
            named = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            return _failed(error, named, BAD_INPUT if error.filename else FAILED)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            return _failed(error, f"{reason} (FORERUN_DEBUG=1 shows where)", FAILED)


def results() -> Console:
    """Where results go. Names and values come from outside: neither markup nor control is read."""
    from forerun.cli.console import SafeConsole

    return SafeConsole(markup=False, highlight=False, emoji=False, soft_wrap=False)


def note(text: str) -> None:
    """One line of progress or advice on standard error."""
    _stderr(text, "dim")


@contextmanager
def working(text: str) -> Iterator[None]:
    """A sign of life on standard error, if that is a terminal, while something takes its time."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(shown(text))):  # as text: a plain one would be read as markup
        yield


def warn(text: str) -> None:
    """One line of warning on standard error."""
    _stderr(f"forerun: warning: {text}", "yellow")


def json_text(document: Mapping[str, Any] | list[Any]) -> str:
    """A document as JSON; InputError where a number is not finite, which JSON cannot say."""
    try:
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError:
        found = "a number that is not finite"
        raise InputError("the answer", found, "numbers that JSON can hold") from None


def print_json(document: Mapping[str, Any] | list[Any]) -> None:
    """One JSON document on standard output."""
    text = json_text(document)
    # What JSON allows in a text but a terminal might obey is written as JSON's own escape.
    safe = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    sys.stdout.write(f"{safe}\n")


def table(*columns: str, numeric: Iterable[str] = (), title: str | None = None) -> Table:
    """An empty Rich table in the one style of all verbs; the `numeric` columns align right."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for column in columns:
        made.add_column(
            shown(column), justify="right" if column in set(numeric) else "left", overflow="fold"
        )
    return made


def shown(value: object) -> str:
    """A name or value safe to print: no control character reaches the terminal."""
    if isinstance(value, float):
        from forerun.quantities import number

        return number(value, 6)
    return one_line(str(value))


def pairs(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    """`NAME=VALUE` each; the value may be empty and hold further signs."""
    found = []
    for text in texts or []:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InputError(option, text, "NAME=VALUE")
        found.append((name.strip(), value.strip()))
    return found


def counted(count: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def target_of(study: Study, name: str) -> str:
    """The measured column that the user means by `name`; `memory` is short for `memory_bytes`."""
    known = study.targets()
    for candidate in (name, _TARGET_NAMES.get(name, name)):
        if candidate in known:
            return candidate
    raise InputError(
        f"{study.path}: --target", name, f"one of {', '.join(known) or '(no runs yet)'}"
    )


def fittable(study: Study, name: str) -> str:
    """As `target_of`; InputError, which names the study, where there is nothing to fit it to."""
    target = target_of(study, name)
    runs = len(study.table(target))
    if runs < _FEWEST:
        raise InputError(str(study.path), counted(runs, "run"), f"at least {_FEWEST}")
    return target


def study_model(study: Study, target: str) -> KeptModel:
    """The study's model of `target`; fitted first, and said so, where there is none or new runs."""
    from forerun.modelling.kept import kept, model_of

    found = kept(study, target)
    if found is None:
        reason = "no model yet" if study.model_document(target) is None else "runs have changed"
        note(f"{study.path}: {reason}: fitting {target} first")
        with working(f"fitting {target}"):
            found = model_of(study, target)
        for line in found.model.notes_:
            warn(line)
    return found


def _stderr(text: str, style: str) -> None:
    from rich.console import Console

    Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True).print(
        shown(text), style=style
    )


def _unread() -> int:
    """The reader, `head` for example, has what it wants: not a failure of ours to report."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _failed(error: BaseException | None, text: str, code: int) -> int:
    if error is not None and _debugging():
        traceback.print_exception(error)
    line = " ".join(text.split())
    _stderr(f"forerun: error: {line}", "bold red")
    return code


def _debugging() -> bool:
    return os.environ.get("FORERUN_DEBUG", "") not in ("", "0")


def _show_warning(
    message: Warning | str, category: type[Warning], *_: object, **__: object
) -> None:
    warn(
        f"{message}" if issubclass(category, ForerunWarning) else f"{category.__name__}: {message}"
    )
