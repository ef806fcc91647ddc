"""`forerun status`: what has become of jobs; the time of those that have ended is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from forerun.cli.common import Json, note, print_json, results, shown, table, warn
from forerun.cli.deployments import (
    SHORT,
    document,
    every,
    find,
    left_words,
    print_result,
    progress_words,
)
from forerun.errors import InputError
from forerun.quantities import between, seconds

if TYPE_CHECKING:
    from forerun.deploying.deployment import Deployment, Progress

LATEST = 20  # deployments that are listed


def status(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help="One job: its number, its name, the first digits of its uid, or its folder.",
            show_default="all",
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", metavar="", help=f"List all of them, not the last {LATEST}."),
    ] = False,
    json: Json = False,
) -> None:
    """Say what has become of the jobs that you deployed, and store the time of those that ended."""
    if job is not None:
        _one(find(job), json)
        return
    found = list(every())
    shown_ones = found if everything else found[:LATEST]
    now = [(one, _looked(one)) for one in shown_ones]
    if json:
        print_json({"deployments": [document(one, progress) for one, progress in now]})
        return
    if not now:
        results().print("no jobs yet; forerun deploy PLAN submits one")
        return
    made = table("uid", "name", "job", "by", "state", "run")
    for column in made.columns:
        column.no_wrap = column.header in ("uid", "job")  # people copy these
    for one, progress in now:
        record = one.record
        made.add_row(
            record.uid[:SHORT],
            shown(record.name),
            shown(record.job or ""),
            record.backend,
            record.state.replace("_", " "),
            _run(one, progress),
        )
    results().print(made)
    if len(found) > len(now):
        results().print(f"and {len(found) - len(now)} more; --all lists them", style="dim")


def _one(one: Deployment, json: bool) -> None:
    progress = _looked(one, strict=True)
    if json:
        print_json(document(one, progress))
        return
    to, record = results(), one.record
    if record.result is not None:
        print_result(one, record.result)
    else:
        no_number = "not submitted" if record.submitted is None else "of no known number"
        to.print(f"job {shown(record.job or no_number)}: {shown(record.name)}")
        if progress is not None:
            to.print(shown(progress_words(progress)), soft_wrap=True)
        if record.predicted is not None:
            said = record.predicted
            told = f"{seconds(said.seconds)}, 90 % interval {between(said.low, said.high)}"
            to.print(f"predicted: {told}")
    to.print(f"kept in {shown(record.folder)}", soft_wrap=True)


def _looked(one: Deployment, strict: bool = False) -> Progress | None:
    """How a job stands now; one that has ended is settled, and it is said what was stored."""
    if one.record.result is not None or one.record.submitted is None:
        return None
    try:
        now = one.progress()
        if now.state.has_ended:
            result = one.settle()
            note(f"{one.record.uid[:SHORT]}: {result.told[-1]}")
    except InputError as error:
        if strict:
            raise
        warn(f"{one.record.uid[:SHORT]}: {error}")
        return None
    return now


def _run(one: Deployment, progress: Progress | None) -> str:
    result, predicted = one.record.result, one.record.predicted
    if result is not None and result.run_seconds is not None:
        said = f", predicted {seconds(predicted.run)}" if predicted is not None else ""
        return f"{seconds(result.run_seconds)}{said}"
    if progress is not None and progress.left is not None:
        return left_words(progress.left)
    return f"predicted {seconds(predicted.run)}" if predicted is not None else ""
