"""How a campaign looks: its progress on standard error, and how it ended."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forerun.cli.common import counted, note, results, shown, warn
from forerun.cli.tables import words
from forerun.quantities import percent, seconds

if TYPE_CHECKING:
    from forerun.measuring.campaign import Campaign
    from forerun.measuring.progress import Progress, Stated, Summary
    from forerun.measuring.rehearsal import Rehearsal
    from forerun.measuring.runner import Task


@contextmanager
def progress_shown() -> Iterator[Callable[[Progress], None]]:
    """What a campaign tells its progress to: a bar on a terminal, otherwise a line a run."""
    from forerun.cli.console import SafeConsole

    console = SafeConsole(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        yield _say
        return
    from rich import progress

    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.fields[runs]}", markup=False),
        progress.BarColumn(bar_width=20),
        progress.TextColumn("{task.fields[told]}", markup=False),
        progress.TextColumn("{task.fields[doing]}", style="dim", markup=False),
    )
    with progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, runs="", told="", doing="")

        def tell(now: Progress) -> None:
            for line in now.warnings:
                console.print(f"forerun: warning: {line}", style="yellow", soft_wrap=True)
            doing = "choosing the next run" if now.choosing else ""
            doing = "; ".join(words(one.point) for one in now.running) or doing
            runs = f"run {now.done}" + ("" if now.expected is None else f" of {now.expected}")
            told = ", ".join(_told(now))
            bar.update(
                task, completed=now.done, total=now.expected, runs=runs, told=told, doing=doing
            )

        yield tell


def _say(now: Progress) -> None:
    """One line for each warning, and for each good run once it is in the study."""
    for line in now.warnings:
        warn(line)
    run = now.finished
    if run is not None and run.seconds is not None:
        of = "" if now.expected is None else f" of {now.expected}"
        told = "".join(f", {part}" for part in _told(now))
        note(f"stored run {now.done}{of}: {words(run.point)}: {seconds(run.seconds)}{told}")


def _told(now: Progress) -> list[str]:
    """What is known of the time left and of the model."""
    told = [] if now.seconds_left is None else [f"{seconds(now.seconds_left)} left"]
    return [*told, *([] if now.error is None else [f"error {percent(now.error.mape)}"])]


def first_runs(campaign: Campaign, rehearsal: Rehearsal, study: Path) -> dict[str, Any]:
    """What a campaign would do, for a dry run: it is started, with a runner that runs nothing."""
    from forerun.measuring.domain import MOST_LISTED, Domain

    told: list[Progress] = []
    summary = campaign.run(told.append)
    if summary.ended == "interrupted" and not rehearsal.tasks:
        raise KeyboardInterrupt
    domain, now = Domain(campaign.space, campaign.allowed), told[0]
    return {
        "study": str(study),
        "points": len(domain.every()) if domain.size <= MOST_LISTED else domain.size,
        "runs": now.done,
        "expected": now.expected,
        "seconds_left": rehearsal.seconds_left(now) if now.done and rehearsal.tasks else None,
        "budget_seconds": campaign.limits.budget_seconds,
        "first": [
            {
                "point": dict(task.point),
                "command": list(task.command.words),
                "environment": dict(task.command.environment),
                "placed": _placed(campaign, task),
            }
            for task in rehearsal.tasks
            if task.command is not None
        ],
        "reason": None if rehearsal.tasks else summary.reason,
    }


def _placed(campaign: Campaign, task: Task) -> dict[str, Any]:
    """What the place of a run sees to: it stands neither in the command nor in a variable."""
    program = campaign.programs[task.variant]
    holes = {hole for text in program.texts for hole in text.holes}
    return {
        name: task.point[name]
        for name, factor in campaign.space.items()
        if factor.role in (program.placed or ()) and name not in holes
    }


def print_first_runs(document: dict[str, Any]) -> None:
    """The dry run for a person."""
    to = results()
    told = [counted(document["points"], "point") + " to choose from"]
    told += [f"{counted(document['runs'], 'run')} there"] if document["runs"] else []
    if document["expected"] is not None:
        told.append(f"up to {counted(document['expected'], 'run')} in all")
    if document["seconds_left"] is not None:
        told.append(f"about {seconds(document['seconds_left'])} to go")
    elif document["budget_seconds"] is not None:
        told.append(f"at most {seconds(document['budget_seconds'])} of runs")
    to.print(f"{shown(document['study'])}: {', '.join(told)}", soft_wrap=True)
    for one in document["first"]:
        given = [f"{name}={shlex.quote(value)}" for name, value in one["environment"].items()]
        line = " ".join([*given, shlex.join(one["command"])])
        line += f"  # {words(one['placed'])}" if one["placed"] else ""
        to.print(f"$ {shown(line)}", style="bold cyan", soft_wrap=True)
    if document["reason"] is not None:
        hint = "another limit, such as --runs, goes on"
        to.print(f"nothing is missing: {shown(document['reason'])}; {hint}", soft_wrap=True)


def outcome(campaign: Campaign, summary: Summary) -> dict[str, Any]:
    """How a campaign ended, as JSON."""
    path = str(campaign.study.path)
    return {
        "study": path,
        "ended": summary.ended,
        "reason": summary.reason,
        "made": summary.made,
        "failed": summary.failed,
        "runs": summary.done,
        "seconds_spent": summary.seconds_spent,
        "seconds_elapsed": summary.elapsed,
        "error": _error(summary.error),
        "given_up": [
            {
                "point": dict(one.point),
                "status": one.status,
                "attempts": one.attempts,
                "reason": one.reason,
            }
            for one in summary.given_up
        ],
        "warnings": list(summary.warnings),
        "next": shlex.join(["forerun", *_next(summary), path]),
    }


def print_outcome(document: dict[str, Any]) -> None:
    """The outcome for a person; the warnings were said when they were due."""
    to = results()
    failed = f", {document['failed']} failed" if document["failed"] else ""
    made = f"{counted(document['made'], 'run')} made{failed}; {document['runs']} in all"
    spent = seconds(document["seconds_spent"])
    to.print(f"{shown(document['study'])}: {made}, {spent} of measuring", soft_wrap=True)
    to.print(f"stopped: {shown(document['reason'])}", soft_wrap=True)
    error = document["error"]
    if error is not None:
        to.print(
            f"error on unseen points: about {percent(error['mape'])}"
            f" ({percent(error['low'])} to {percent(error['high'])})"
        )
    to.print(f"next: {shown(document['next'])}", soft_wrap=True)


def _next(summary: Summary) -> list[str]:
    if summary.ended == "interrupted":
        return ["measure"]
    return ["fit"] if summary.done > 1 else ["show"]


def _error(stated: Stated | None) -> dict[str, float] | None:
    if stated is None:
        return None
    names = ("mape", "low", "high")
    return {name: float(getattr(stated, name)) for name in names if hasattr(stated, name)}
