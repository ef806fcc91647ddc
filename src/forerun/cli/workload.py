"""`forerun workload`: training scripts to measure, in four frameworks, with their environments."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.common import Json, note, print_json, results, shown, table, warn
from forerun.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forerun.workloads.data import Say
    from forerun.workloads.environments import Framework

app = typer.Typer(
    name="workload",
    help="""Training scripts to measure, in PyTorch, TensorFlow, MXNet and JAX.

The scripts are ordinary ones with the same options, and know nothing of forerun. Each framework
has an environment of its own, and the data sets are decoded once, below `$FORERUN_HOME` (else
`~/.local/share/forerun`).
""",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
DATA, ALL = "data", "all"


@app.command("list")
def list_(json: Json = False) -> None:
    """List the frameworks with their networks, the data sets, and what is set up where."""
    document = summary()
    if json:
        print_json(document)
    else:
        _print(document)


@app.command("setup")
def setup(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="pytorch, tensorflow, mxnet, jax, data (the data sets) or all.",
            show_default=False,
        ),
    ],
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PROGRAM",
            help="The Python to make an environment with, if not the one that runs forerun.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Set up a framework's environment (pip installs pinned versions), or the data sets (npm).

    What is there already is kept; what was interrupted is gone on with. Where one of several cannot
    be set up, the others are all the same.
    """
    from forerun.workloads.environments import FRAMEWORKS

    if what not in (choices := (*FRAMEWORKS, DATA, ALL)):
        raise InputError("workload setup", what, f"one of {', '.join(choices)}")
    names = list(FRAMEWORKS) if what == ALL else [what] if what in FRAMEWORKS else []
    failed = [error for name in names for error in _set_up_environment(FRAMEWORKS[name], python)]
    if what in (DATA, ALL):
        failed += _set_up_data()
    for line in dict.fromkeys(str(error) for error in failed[1:] if str(error) != str(failed[0])):
        warn(line)
    if failed:
        raise failed[0]
    if json:
        print_json(summary())


@app.command("command")
def command(
    framework: Annotated[
        str,
        typer.Argument(
            metavar="FRAMEWORK", help="pytorch, tensorflow, mxnet or jax.", show_default=False
        ),
    ],
    json: Json = False,
) -> None:
    """Print the command that trains, ready to be measured.

    For instance: forerun measure "$(forerun workload command pytorch) --batch {batch}" …
    """
    from forerun.workloads.environments import FRAMEWORKS, words
    from forerun.workloads.home import data_directory

    if framework not in FRAMEWORKS:
        raise InputError("workload command", framework, f"one of {', '.join(FRAMEWORKS)}")
    found = [*words(FRAMEWORKS[framework]), "--data", str(data_directory())]
    if json:
        print_json({"framework": framework, "words": found})
    else:
        # A hole of `forerun measure` is written in braces: those of a path are doubled.
        typer.echo(shlex.join(word.replace("{", "{{").replace("}", "}}") for word in found))


def summary() -> dict[str, Any]:
    """All that `list` shows, as one JSON document."""
    from forerun.workloads.data import SETS, is_prepared
    from forerun.workloads.environments import FRAMEWORKS
    from forerun.workloads.home import data_directory, home

    directory = data_directory()
    return {
        "home": str(home()),
        "frameworks": [_framework(framework) for framework in FRAMEWORKS.values()],
        "data": [
            {
                "name": one.name,
                "images": list(one.shape),
                "package": one.package or "scikit-learn",
                "ready": is_prepared(one, directory),
                "directory": str(directory),
            }
            for one in SETS.values()
        ],
    }


def _framework(framework: Framework) -> dict[str, Any]:
    from forerun.workloads.environments import facts, state

    found = facts(framework) or {}
    return {
        "name": framework.name,
        "networks": list(framework.networks),
        "state": state(framework),
        "script": str(framework.script),
        "environment": str(framework.directory),
        "python": found.get("python"),
        "versions": found.get("versions", {}),
        "megabytes": framework.megabytes,
    }


def _print(document: Mapping[str, Any]) -> None:
    to = results()
    to.print(f"{shown(document['home'])} has environments and data\n", soft_wrap=True)
    made = table("framework", "networks", "environment", "versions")
    for row in document["frameworks"]:
        versions = ", ".join(f"{name} {value}" for name, value in row["versions"].items())
        size = f"{row['megabytes'] / 1000:.1f} GB"
        state = row["state"] if row["state"] == "ready" else f"{row['state']} ({size})"
        made.add_row(row["name"], ", ".join(row["networks"]), state, shown(versions))
    to.print(made)
    made = table("data set", "images", "size", "from", "")
    for row in document["data"]:
        count, height, width, channels = row["images"]
        state = "ready" if row["ready"] else "missing"
        size = f"{height} x {width} x {channels}"
        made.add_row(row["name"], str(count), size, shown(row["package"]), state)
    to.print(made)
    open_ = [row["name"] for row in document["frameworks"] if row["state"] != "ready"]
    open_ += [DATA] if not all(row["ready"] for row in document["data"]) else []
    if open_:
        to.print(f"to set up: forerun workload setup {' | '.join(open_)}", soft_wrap=True)


def _set_up_environment(framework: Framework, python: str | None) -> list[InputError]:
    """Set up a framework's environment; returns what was wrong."""
    from forerun.workloads.environments import set_up

    with _saying(framework.name) as (say, passing):
        try:
            set_up(framework, say, passing, python)
        except InputError as error:
            return [error]
    return []


def _set_up_data() -> list[InputError]:
    """Set up the data sets; returns what was wrong with each that could not be."""
    from forerun.workloads.data import SETS, prepare
    from forerun.workloads.home import data_directory

    failed = []
    for one in sorted(SETS.values(), key=lambda one: one.megabytes):
        with _saying(one.name) as (say, _):
            try:
                prepare(one, data_directory(), say)
            except InputError as error:
                failed.append(error)
    return failed


@contextmanager
def _saying(text: str) -> Iterator[tuple[Say, Say]]:
    """How to say a line that stays, and one that the next replaces, on standard error.

    Lines in passing are for those who watch a terminal.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        yield note, lambda _: None
        return
    with console.status(Text(shown(text))) as status:  # a plain one would be read as markup
        yield (
            lambda line: console.print(shown(line), style="dim", soft_wrap=True),
            lambda line: status.update(Text(shown(line)[: console.width - 4])),
        )
