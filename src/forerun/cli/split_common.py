"""What the verbs of `forerun split` share: their options, extras that may be missing, progress."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from forerun.cli.common import note
from forerun.errors import InputError
from forerun.quantities import seconds

if TYPE_CHECKING:
    from forerun.infrastructure import Infrastructure

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="A split, as `forerun split cut` wrote it.", show_default=False
    ),
]
Wire = Literal["float32", "float16", "int8"]
On = Annotated[
    str | None,
    typer.Option(
        metavar="BOARDS.yaml",
        help="An infrastructure with boards (see forerun infra), or a profile's name.",
        show_default=False,
    ),
]
Boards = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="With --on: the boards of the devices, in order, by name (pi-0) or kind (pi).",
        show_default="the first ones",
    ),
]
Tell = Callable[[int, str], None]

_EXTRAS = {
    "onnx": "split",
    "onnxruntime": "split",
    "torch": "torch",
    "onnxscript": "torch",
    "safetensors": "torch",
}
_OFTEN = 10.0  # seconds between two lines of progress where there is no terminal


def need(*modules: str) -> None:
    """InputError, with what to install, unless these can be imported."""
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise InputError(
                f"{name} is missing in the Python that runs forerun:"
                f" pip install 'forerun[{_EXTRAS[name]}]'"
            )


def infrastructure(on: str) -> Infrastructure:
    """The infrastructure of a file or a profile; InputError unless it has boards."""
    from forerun.infrastructure import Infrastructure

    found = Infrastructure.load(Path(on))
    if not found.boards:
        raise InputError(on, "no boards", "an infrastructure with boards")
    return found


def board_names(text: str | None) -> list[str]:
    """The names of a list such as `camera-0,camera-2`; none where nobody names any."""
    return [] if text is None else [part.strip() for part in text.split(",")]


def numbers(option: str, text: str, what: str) -> list[float]:
    """The numbers of a list such as `1,1,0.5`; InputError, which names the option, otherwise."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(option, text, what) from None


def counts(option: str, text: str) -> list[int]:
    """The whole numbers from 1 of a list such as `2,3,4`."""
    expected = "whole numbers from 1, such as 2,3,4"
    found = numbers(option, text, expected)
    if any(one < 1 or one != int(one) for one in found):
        raise InputError(option, text, expected)
    return list(dict.fromkeys(map(int, found)))


def chosen(option: str, text: str, known: tuple[str, ...]) -> list[str]:
    """The names of a list, each one of those that are known."""
    found = [part.strip() for part in text.split(",")]
    for name in found:
        if name not in known:
            raise InputError(option, name, f"one of {', '.join(known)}")
    return list(dict.fromkeys(found))


@contextmanager
def progress(what: str, total: int) -> Iterator[Tell]:
    """How to tell how many of `total` are done, and what is done now, with the time left.

    A bar on a terminal; elsewhere a line now and then, for whoever reads a log.
    """
    from forerun.cli.console import SafeConsole

    console = SafeConsole(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        yield _lines(what, total)
        return
    from rich import progress as bars

    columns = (
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(bar_width=20),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(elapsed_when_finished=True),
        bars.TextColumn("{task.fields[doing]}", style="dim", markup=False),
    )
    with bars.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total, doing="")
        yield lambda done, doing: bar.update(task, completed=done, doing=doing)


def _lines(what: str, total: int) -> Tell:
    last = time.monotonic()
    first: tuple[float, int] | None = (
        None  # from when on there is a pace: starting is no part of it
    )

    def tell(done: int, doing: str) -> None:
        nonlocal first, last
        now = time.monotonic()
        if first is None:
            first = (now, done)
        if now - last < _OFTEN or not first[1] < done < total:
            return
        last, left = now, (now - first[0]) / (done - first[1]) * (total - done)
        note(f"{what}: {done} of {total}, {doing}, {seconds(left)} left")

    return tell
