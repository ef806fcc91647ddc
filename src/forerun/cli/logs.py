"""`forerun logs`: what a job printed, and prints."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from forerun.cli.common import Json, note, print_json
from forerun.cli.deployments import Job, find
from forerun.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from forerun.deploying.deployment import Deployment

PAUSE = 0.5  # seconds between two looks at what is being printed
_ASKED = 20  # looks after which the scheduler is asked once whether the job still runs
_MOST = 2**24  # bytes at the end of an output that one document holds


def logs(
    job: Job,
    follow: Annotated[
        bool, typer.Option("--follow", metavar="", help="Go on until the job has ended.")
    ] = False,
    errors: Annotated[
        bool,
        typer.Option("--errors", metavar="", help="Print its errors, where they are kept apart."),
    ] = False,
    json: Json = False,
) -> None:
    """Print what a job has printed."""
    one = find(job)
    if errors and one.record.errors is None:
        raise InputError("--errors", "errors among the output", "a job that keeps them apart")
    path = one.folder / one.record.errors if errors and one.record.errors else one.output
    if json:
        text = _text(path) or _of_pods(one)
        print_json({"uid": one.record.uid, "job": one.record.job, "path": str(path), "text": text})
        return
    if not path.exists() and not follow:
        if text := _of_pods(one):
            _print(text)
            return
        note(f"{path}: nothing yet ({one.record.state})")
        return
    _stream(one, path, follow)


def _stream(one: Deployment, path: Path, follow: bool) -> None:
    from forerun.deploying.progress import Tail

    tail, looks, ended = Tail(path), 0, not follow
    while True:
        while text := tail.read():
            _print(text)
        if ended:
            break
        looks += 1
        if looks % _ASKED == 0 or looks == 1:
            ended = one.record.result is not None or one.state().has_ended
        if not ended:
            time.sleep(PAUSE)
    _print(tail.rest())


def _print(text: str) -> None:
    """What a program printed, without what a terminal would obey."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    safe = (c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in plain)
    sys.stdout.write("".join(safe))
    sys.stdout.flush()


def _of_pods(one: Deployment) -> str:
    """What the cluster has of a job whose pods could not write into its folder."""
    from forerun.jobs.kubernetes import Kubernetes

    backend = one.backend if one.record.backend == Kubernetes.name else None
    if not isinstance(backend, Kubernetes) or one.record.job is None:
        return ""
    return backend.logs(one.record.job)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MOST))
            return file.read(_MOST).decode(errors="replace")
    except FileNotFoundError:
        return ""
