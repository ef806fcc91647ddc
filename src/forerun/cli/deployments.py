"""What the verbs about jobs share: finding a deployment again, and how it looks."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.common import counted, note, results, shown, warn
from forerun.errors import InputError
from forerun.quantities import amount, between, percent, seconds

if TYPE_CHECKING:
    from forerun.deploying.deployment import Deployment, Progress
    from forerun.deploying.making import Made
    from forerun.deploying.progress import Left
    from forerun.deploying.record import Result
    from forerun.planning.plans import WrittenPlan

UNWELL = 3  # the exit code where the job that was waited for did not end well
SHORT = 8  # digits of a uid that people are shown
_FEWEST = 4  # and that they may give

PlanPath = Annotated[
    Path,
    typer.Argument(metavar="PLAN", help="A plan, as `plan -o` writes it.", show_default=False),
]
Candidate = Annotated[
    int, typer.Option(metavar="N", help="The candidate, by its number in the plan.", min=1)
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FOLDER",
        help="Keep all of the job there; all nodes must see it.",
        show_default="a new one here",
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="NAME",
        help="Run it by local, slurm, pbs or kubernetes; sky: only build, for clouds.",
        show_default="the plan's scheduler",
    ),
]
Image = Annotated[
    str,
    typer.Option(
        "--image",
        metavar="IMAGE",
        help="Run it in this image: a file or a name, as the infrastructure's runtime takes it.",
        show_default="the request's",
    ),
]
Trust = Annotated[
    bool, typer.Option("--trust", metavar="", help="Run what is in a plan that others made.")
]
Job = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="A job: its number, its name, the first digits of its uid, or its folder.",
        show_default=False,
    ),
]


def every() -> Iterator[Deployment]:
    """All deployments of this user that can still be read, the last ones first."""
    from forerun.deploying import register
    from forerun.deploying.deployment import Deployment

    for uid, folder in register.known():
        try:
            found = Deployment.open(folder)
        except (InputError, OSError):
            continue  # its folder is gone, or holds something else by now
        if found.record.uid == uid:
            yield found


def find(word: str) -> Deployment:
    """The deployment that a person means; the last one of that name."""
    from forerun.deploying.deployment import Deployment
    from forerun.deploying.record import FILE

    if "/" in word or Path(word, FILE).is_file():
        return Deployment.open(Path(word))
    found = list(every())
    for one in found:
        if word in (one.record.job, one.record.uid):
            return one
    if len(word) >= _FEWEST:
        begun = [one for one in found if one.record.uid.startswith(word)]
        if len(begun) == 1:
            return begun[0]
    named = [one for one in found if one.record.name == word]
    if named:
        return named[0]
    listed = ", ".join(one.record.uid[:SHORT] for one in found[:5]) or "none yet"
    raise InputError("job", word, f"a job that you deployed ({listed}); forerun status lists them")


def trusted(
    written: WrittenPlan,
    candidate: int,
    on: str | None,
    trust: bool,
    *,
    folder: Path | None = None,
    image: str = "",
) -> None:
    """Show all that a plan that others may have made would run; refuse it unless it is trusted.

    With --trust it is shown as well: the file may say something else than when it was read.
    """
    if written.is_ours:
        return
    from forerun.deploying.making import making

    made = making(written.plan, candidate - 1, folder, on, "0" * 32, image)
    for line in _what_runs(made, folder):
        note(line)
    if not trust:
        raise InputError(
            str(written.path),
            "a plan that somebody else may have made",
            "--trust, once you have read what it runs",
        )


# What is said in other words than the field's, or at the head.
_SAID = {"prologue": "before", "epilogue": "afterwards", "after": "after job"}
_APART = ("words", "uid", "folder", "made_by", "nodes", "directory")


def _what_runs(made: Made, folder: Path | None) -> Iterator[str]:
    """All of a job that is not as it is in any job: what looks harmless may do the harm."""
    spec = made.spec
    yield f"$ {shlex.join(spec.words)}"
    for field in fields(spec):
        value = getattr(spec, field.name)
        usual = () if field.default is MISSING else (field.default,)
        if field.name not in _APART and value not in usual:
            name = _SAID.get(field.name, field.name.replace("_", " "))
            yield from (f"  {name}: {text}" for text in _texts(field.name, value))
    yield f"  directory: {spec.directory or 'the folder of the job'}"
    yield f"  folder: {spec.folder if folder else 'a new one here'}"
    yield f"  study: {made.record.study or 'none'}"
    where = f"{made.record.partition} of {made.record.infrastructure}"
    yield f"  on: {where}, {counted(spec.nodes, 'node')}, by {made.record.backend}"


def _texts(name: str, value: Any) -> Iterator[str]:
    """The value of a job's field, for a person."""
    if name == "container":
        yield f"{value.image}, by {value.runtime}, with {', '.join(value.binds) or 'nothing'} in it"
    elif name == "staging":
        yield f"{value.source} to {value.target}"
    elif name == "environment":
        yield from (f"{key}={text}" for key, text in value.items())
    elif name in ("prologue", "epilogue", "build"):
        yield from map(shlex.join, value)
    elif name in ("memory", "memory_per_core"):
        yield amount(value, "bytes")
    elif name in ("walltime", "warning"):
        yield seconds(value)
    elif isinstance(value, tuple):
        yield ", ".join(value)
    else:
        yield "yes" if value is True else str(value)


def document(one: Deployment, progress: Progress | None = None) -> dict[str, Any]:
    """A deployment as JSON."""
    record = one.record
    left = progress.left if progress is not None else None
    return {
        "uid": record.uid,
        "name": record.name,
        "job": record.job,
        "backend": record.backend,
        "infrastructure": record.infrastructure,
        "partition": record.partition,
        "nodes": record.nodes,
        "candidate": record.candidate,
        "point": dict(record.point),
        "state": record.state,
        "reason": record.reason,
        "folder": record.folder,
        "script": str(one.script),
        "output": str(one.output),
        "study": record.study,
        "submitted": record.submitted,
        "predicted": None if record.predicted is None else record.predicted.model_dump(mode="json"),
        "elapsed_seconds": None if progress is None else progress.elapsed,
        "left": None if left is None else left_document(left),
        "result": None if record.result is None else record.result.model_dump(mode="json"),
    }


def left_document(left: Left) -> dict[str, Any]:
    """What is left, as JSON."""
    return {
        "seconds": left.seconds,
        "low": left.low,
        "high": left.high,
        "share": left.share,
        "source": left.source,
    }


def left_words(left: Left) -> str:
    """What is left, for a person."""
    return f"about {seconds(left.seconds)} left ({between(left.low, left.high)})"


def progress_words(now: Progress) -> str:
    """How a job stands, in a line."""
    parts = [now.state.phase.replace("_", " ")]
    if now.state.reason:
        parts[0] += f" ({now.state.reason})"
    if now.elapsed is not None:
        parts.append(f"{seconds(now.elapsed)} gone")
    if now.left is not None:
        parts.append(left_words(now.left))
    elif now.late is not None:
        parts.append(f"longer than the {seconds(now.late)} that the 90 % interval ends with")
    return ", ".join(parts)


def print_made(one: Deployment) -> None:
    """That a job was submitted, and how to find it again."""
    to, record, short = results(), one.record, one.record.uid[:SHORT]
    where = f"{record.partition} of {record.infrastructure}"
    to.print(f"job {shown(record.job)}: {shown(record.name)} on {where}, by {record.backend}")
    if record.predicted is not None:
        said = record.predicted
        told = f"{seconds(said.seconds)}, 90 % interval {between(said.low, said.high)}"
        to.print(f"predicted: {told}", highlight=False)
    to.print(f"kept in {shown(record.folder)}", soft_wrap=True)
    to.print(f"next: forerun watch {short}, forerun logs {short}, forerun cancel {short}")


def print_result(one: Deployment, result: Result) -> None:
    """How a job ended, and what came back."""
    to, record = results(), one.record
    how = record.state.replace("_", " ") + (f" ({record.reason})" if record.reason else "")
    nodes = f" on {', '.join(result.nodes)}" if result.nodes else ""
    to.print(f"job {shown(record.job)}: {shown(how)}{shown(nodes)}", soft_wrap=True)
    if result.memory_bytes:
        to.print(f"memory: {amount(result.memory_bytes, 'bytes')} of its largest process")
    for line in result.told:
        to.print(shown(line), soft_wrap=True, highlight=False)
    if result.status != "ok":
        warn(f"{one.output} is what it printed: forerun logs {record.uid[:SHORT]}")


@contextmanager
def waiting(one: Deployment) -> Iterator[Callable[[str, str], None]]:
    """What progress is told to, with its kind: a line that changes, or one a change of kind.

    Who interrupts it ends the waiting alone: the job goes on, and it is said how to find it.
    """
    from rich.text import Text

    from forerun.cli.console import SafeConsole

    console = SafeConsole(stderr=True, markup=False, highlight=False, emoji=False)
    short, last = one.record.uid[:SHORT], [""]

    def say(kind: str, text: str) -> None:
        if kind != last[0]:
            last[0] = kind
            note(text)

    try:
        if not console.is_terminal:
            yield say
            return
        with console.status(Text("waiting")) as line:
            yield lambda _, text: line.update(Text(shown(text)))
    except KeyboardInterrupt:
        note(
            f"job {one.record.job} goes on: forerun status {short} finds it, "
            f"forerun cancel {short} ends it"
        )
        raise


def share_words(left: Left) -> str:
    """How much is done."""
    return f"{percent(left.share)} done"
