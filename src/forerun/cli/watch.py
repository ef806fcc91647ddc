"""`forerun watch`: how far a job is against its prediction, or how far a log says that it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.common import Json, note, print_json, results, working
from forerun.cli.deployments import (
    UNWELL,
    document,
    find,
    left_document,
    left_words,
    print_result,
    progress_words,
    share_words,
    waiting,
)
from forerun.errors import InputError

if TYPE_CHECKING:
    from forerun.deploying.deployment import Deployment, Progress
    from forerun.deploying.progress import Left, Steps, Tail
    from forerun.deploying.record import Result

PAUSE = 0.5  # seconds between two looks at a log


def watch(
    what: Annotated[
        str,
        typer.Argument(
            metavar="JOB_OR_LOG", help="A job, as for `status`, or a log.", show_default=False
        ),
    ],
    marker: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="What a line says that tells a step: 'epoch {n}', 'epoch {n}/{of}'.",
            show_default=False,
        ),
    ] = None,
    of: Annotated[
        int | None,
        typer.Option(
            "--of", metavar="N", help="The last step, where no line tells it.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show how far a job or a log is, and how long it will still take, with its interval.

    With --json it is one look, as things stand.
    """
    from forerun.deploying.progress import Pattern, Steps

    steps = None if marker is None else Steps(Pattern(marker, of), total=of)
    if Path(what).is_file():
        if steps is None:
            raise InputError("--marker", "none", "what a line of the log says: 'epoch {n}/{of}'")
        _watch_log(Path(what), steps, json)
        return
    one = find(what)
    if steps is not None and steps.total is None and one.record.steps is not None:
        steps.total = int(float(one.record.point[one.record.steps]))
    if json:
        _print_look(one, steps)
        return
    result = _watched(one, steps)
    print_result(one, result)
    if result.status != "ok":
        raise typer.Exit(UNWELL)


def _watched(one: Deployment, steps: Steps | None) -> Result:
    from forerun.deploying.progress import Tail

    tail = Tail(one.output)
    with waiting(one) as tell:

        def told(now: Progress) -> None:
            left = _left(steps, tail, now.left)
            if left is None or left.source == "prediction":
                tell(f"{now.state.phase} {now.state.reason}", progress_words(now))
            else:
                assert steps is not None
                words = f"step {steps.last} of {steps.total}, {left_words(left)}"
                tell(f"step {steps.last}", f"{now.state.phase}, {words}")

        return one.wait(told)


def _left(steps: Steps | None, tail: Tail, predicted: Left | None) -> Left | None:
    """By the output once it tells enough, else by the prediction."""
    from forerun.deploying.progress import FEWEST

    if steps is None:
        return predicted
    now = time.time()
    while text := tail.read():
        steps.take(text, now)
    by_output = steps.left(now)
    if by_output is None or (predicted is not None and len(steps.seen) <= FEWEST):
        return predicted
    return by_output


def _print_look(one: Deployment, steps: Steps | None) -> None:
    from forerun.deploying.progress import Tail

    progress = None
    if one.record.result is None and one.record.submitted is not None:
        progress = one.progress()
        if progress.state.has_ended:
            one.settle()
    if steps is not None:
        _left(steps, Tail(one.output), None)
    print_json({**document(one, progress), **_told(steps)})


def _told(steps: Steps | None) -> dict[str, Any]:
    return {
        "step": None if steps is None else steps.last,
        "of": None if steps is None else steps.total,
    }


def _watch_log(path: Path, steps: Steps, json: bool) -> None:
    """Until the last step is told; a log tells when its lines came only while it is watched."""
    from forerun.deploying.progress import Tail

    tail = Tail(path)
    left = _left(steps, tail, None)
    if json:
        shown = None if left is None else left_document(left)
        print_json({"log": str(path), **_told(steps), "left": shown})
        return
    if steps.last is not None and steps.total is None:
        note(f"step {steps.last}; of how many no line tells: --of N does. Ctrl-C ends watching")
    with working(f"watching {path}"):
        said = steps.last
        while not steps.are_all:
            time.sleep(PAUSE)
            left = _left(steps, tail, None)
            if steps.last != said:
                said = steps.last
                of = "" if steps.total is None else f" of {steps.total}"
                words = "" if left is None else f": {share_words(left)}, {left_words(left)}"
                note(f"step {said}{of}{words}")
    results().print(f"{path}: step {steps.last} of {steps.total}, the last")
