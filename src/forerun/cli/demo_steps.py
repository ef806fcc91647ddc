"""The steps of a demonstration: a command typed and run, a paragraph said."""

from __future__ import annotations

import shlex

import typer

from forerun.cli.common import results


def type_(*words: str) -> None:
    """Show a command as a user would type it, and run it; one that fails ends the whole."""
    from forerun.cli import app

    to = results()
    to.print()
    # The terminal breaks the line itself: so it can still be copied whole.
    to.print("$ " + shlex.join(["forerun", *words]), style="bold cyan", soft_wrap=True)
    code = app(words, prog_name="forerun", standalone_mode=False)
    if code:
        raise typer.Exit(code)


def say(text: str) -> None:
    """A paragraph between two commands."""
    to = results()
    to.print()
    to.print(text)
