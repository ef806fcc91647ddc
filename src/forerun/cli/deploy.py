"""`forerun deploy`: from a plan to a job that runs."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from forerun.cli.common import Json, note, print_json, working
from forerun.cli.deployments import (
    UNWELL,
    Candidate,
    Folder,
    Image,
    On,
    PlanPath,
    Trust,
    document,
    print_made,
    print_result,
    progress_words,
    trusted,
    waiting,
)
from forerun.errors import InputError

if TYPE_CHECKING:
    from forerun.deploying.deployment import Deployment, Progress
    from forerun.deploying.record import Result


def deploy(
    plan: PlanPath,
    candidate: Candidate = 1,
    output: Folder = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", metavar="", help="Print what would be submitted, and stop."),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", metavar="", help="Wait for its end, and store its time.")
    ] = False,
    patience: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --wait: give up waiting for its start after so long: 10min, 2h.",
            show_default=False,
        ),
    ] = None,
    on: On = None,
    image: Image = "",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Submit the job of a plan; its measured time goes back into the study.

    Without --wait `forerun status` stores the time once the job has ended. Exit code 3: the job
    that was waited for did not end well.
    """
    with working("reading the plan"):
        from forerun.deploying.deployment import Deployment, rehearsed
        from forerun.planning.plans import read_plan

        written = read_plan(plan)
    most = _patience(patience)
    if most is not None and not wait:
        raise InputError("--patience", patience, "--wait with it: without, nothing is waited for")
    if on == "sky" and not dry_run:
        raise InputError("--on", on, "forerun build --on sky, and sky launch with what it writes")
    trusted(written, candidate, on, trust, folder=output, image=image)
    if dry_run:
        made, text = rehearsed(written.plan, candidate - 1, output, backend=on, image=image)
        _print_rehearsal(made, text, json)
        return
    made = Deployment.make(written.plan, candidate - 1, output, backend=on, image=image)
    if written.is_ours and made.record.job is None:  # one of others was shown whole
        note(f"$ {shlex.join(made.record.words)}")
    made.submit()
    if not wait:
        if json:
            print_json(document(made))
        else:
            print_made(made)
        return
    if not json:
        print_made(made)
    result = awaited(made, most)
    if json:
        print_json(document(made))
    else:
        print_result(made, result)
    if result.status != "ok":
        raise typer.Exit(UNWELL)


def awaited(one: Deployment, patience: float | None = None) -> Result:
    """Wait for the end of a job, and show how far it is."""
    with waiting(one) as tell:

        def told(now: Progress) -> None:
            tell(f"{now.state.phase} {now.state.reason}", progress_words(now))

        return one.wait(told, patience)


def _patience(text: str | None) -> float | None:
    from forerun._documents import duration

    if text is None:
        return None
    try:
        return duration(text)
    except ValueError as error:
        raise InputError("--patience", text, str(error)) from None


def _print_rehearsal(made: Deployment, text: str, json: bool) -> None:
    """The very text that would be submitted; of a folder that was built, what is there."""
    if json:
        print_json({**document(made), "text": text})
        return
    note(f"{made.script}, by {made.record.backend}; nothing was submitted")
    sys.stdout.write(text)
