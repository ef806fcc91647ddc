"""`forerun demo`: the whole way, step by step, on this machine or on runs that ship with it."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.common import Json, note, print_json
from forerun.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

_BUDGET = "150"  # seconds of runs: under five minutes with all that is around them


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files go.")
    ] = Path("forerun-demo"),
    recorded: Annotated[
        bool,
        typer.Option(
            "--recorded",
            metavar="",
            help="Take runs that ship with forerun instead: no PyTorch, under a minute.",
        ),
    ] = False,
    budget: Annotated[
        str, typer.Option(metavar="SECONDS", help="How long to measure: 150, 5min.")
    ] = _BUDGET,
    json: Json = False,
) -> None:
    """Go the whole way in about five minutes: measure, fit, predict, plan, deploy, split, report.

    A real PyTorch training script is measured on this machine. Then a configuration that was not
    run is predicted, and run after all; the best one is planned, run as a job, and its time goes
    back. A small network is trained, cut over two devices of this machine, and its answers are
    compared. PyTorch is set up first in a folder of its own, unless this Python has it.
    Interrupted, the next start goes on with the runs that there are.
    """
    walk = _recorded if recorded else _live(budget)
    try:
        if not json:
            walk(output)
            return
        with redirect_stdout(StringIO()):
            document = walk(output)
    except (KeyboardInterrupt, typer.Exit):
        note("start it again to go on: what was measured is kept")
        raise
    print_json(document)


def _recorded(output: Path) -> dict[str, Any]:
    from forerun.cli.demo_recorded import walk

    return walk(output)


def _live(budget: str) -> Callable[[Path], dict[str, Any]]:
    """The demonstration on this machine, or on recorded runs where there can be no PyTorch."""
    from forerun._documents import validated
    from forerun.cli import demo_live
    from forerun.measuring.settings import Settings

    validated(Settings, {"budget": budget}, "--")

    def walk(output: Path) -> dict[str, Any]:
        try:
            trainer = demo_live.trainer()
        except InputError as error:
            note(f"PyTorch cannot be had here ({error}): on with runs recorded on another machine")
            return _recorded(output)
        return demo_live.walk(output, trainer, budget)

    return walk
