"""The command line: one module a verb, gathered here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from forerun.cli import (
    build,
    cancel,
    demo,
    deploy,
    describe,
    explain,
    fit,
    import_,
    infra,
    logs,
    measure,
    plan,
    predict,
    report,
    show,
    split,
    status,
    suggest,
    watch,
    workload,
)
from forerun.cli.common import guarded

_HELP = """Time a few runs. Know the rest. Deploy the best.

forerun times a command at well-chosen points, or takes a table of timed runs, turns it into one
readable formula of the run time, and predicts what nobody has run, with an interval.

Start with `forerun demo`, or with a command of your own:
`forerun measure 'python train.py --batch {batch}' -f batch=16..256 -o runs.db`.
"""
_EPILOG = (
    "Exit codes: 0 done, 1 failed inside forerun or in a check, 2 something given is wrong, "
    "3 the job that was waited for did not end well, 130 interrupted. "
    "FORERUN_DEBUG=1 shows the traceback of a failure."
)

app = typer.Typer(
    name="forerun",
    help=_HELP,
    epilog=_EPILOG,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
VERBS: dict[str, tuple[Callable[..., None], str]] = {
    "demo": (demo.demo, "Start here"),
    "measure": (measure.measure, "Runs"),
    "describe": (describe.describe, "Runs"),
    "import": (import_.import_, "Runs"),
    "show": (show.show, "Runs"),
    "fit": (fit.fit, "Model"),
    "predict": (predict.predict, "Model"),
    "explain": (explain.explain, "Model"),
    "suggest": (suggest.suggest, "Model"),
    "report": (report.report, "Model"),
    "plan": (plan.plan, "Plan"),
    "build": (build.build, "Deploy"),
    "deploy": (deploy.deploy, "Deploy"),
    "status": (status.status, "Deploy"),
    "logs": (logs.logs, "Deploy"),
    "cancel": (cancel.cancel, "Deploy"),
    "watch": (watch.watch, "Deploy"),
}
for _name, (_verb, _panel) in VERBS.items():
    app.command(_name, rich_help_panel=_panel)(_verb)
GROUPS: dict[str, tuple[typer.Typer, str]] = {
    "workload": (workload.app, "Runs"),
    "infra": (infra.app, "Plan"),
    "split": (split.app, "Split"),
}
for _name, (_group, _panel) in GROUPS.items():
    app.add_typer(_group, name=_name, rich_help_panel=_panel)


def _version(wanted: bool) -> None:
    if wanted:
        from forerun import __version__

        typer.echo(f"forerun {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, metavar="", help="Print the version."
        ),
    ] = False,
) -> None:
    """Options before the verb."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; no verb at all shows the help."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    return guarded(lambda: app(given, prog_name="forerun", standalone_mode=False))
