"""`forerun plan`: the best configuration for a request, and why every other one lost."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forerun.cli.common import (
    Json,
    counted,
    note,
    print_json,
    results,
    shown,
    table,
    warn,
    working,
)
from forerun.errors import InputError
from forerun.quantities import amount, between, money, percent, seconds

if TYPE_CHECKING:
    from forerun.planning.planner import Plan
    from forerun.planning.reasons import Considered
    from forerun.planning.request import Request
    from forerun.study import Study

ROWS = 12  # candidates of the table


def plan(
    request: Annotated[
        Path,
        typer.Argument(
            metavar="REQUEST", help="A request: YAML, or MODAK's JSON.", show_default=False
        ),
    ],
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="FILE",
            help="What there is to run on: a file of YAML, or a profile's name.",
            show_default="this machine",
        ),
    ] = "",
    trial: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Measure short trials of the candidates first, for so long: 60, 5min.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        int | None,
        typer.Option(metavar="N", help="Say all of one candidate, by its number.", min=1),
    ] = None,
    rows: Annotated[int, typer.Option(help="Candidates to show.", min=1)] = ROWS,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write the plan there.", show_default=False
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw time against cost there: .html, .png, .svg or .pdf.",
            show_default=False,
        ),
    ] = None,
    layers: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY",
            help="Of a network on boards: timed layers to predict by.",
            show_default="the request's, or one's own",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Choose the best configuration for a request, and say why every other one lost."""
    from forerun.cli.plan_inference import Wanted, plan_inference
    from forerun.infrastructure import Infrastructure
    from forerun.infrastructure.detection import machine
    from forerun.planning.inference_request import InferenceRequest, load_request
    from forerun.planning.modak import is_modak, read_modak
    from forerun.planning.planner import plan as find
    from forerun.planning.planner import unmeasured
    from forerun.study import Study

    asked = read_modak(request) if is_modak(request) else load_request(request)
    infrastructure = Infrastructure.load(Path(on)) if on else machine()
    if isinstance(asked, InferenceRequest):
        kept = (request, Path(on) if on and Path(on).exists() else None)
        wanted = Wanted(trial, explain, rows, output, plot, layers, json, kept)
        return plan_inference(asked, infrastructure, wanted)
    if layers is not None:
        raise InputError("--layers", layers, "a request with task: inference, and no application")
    if asked.study is None:
        tried = request.with_suffix(".db")  # of an earlier --trial, or of this one
        known = tried if trial is not None or tried.exists() else None
    else:
        known = asked.study
    # At once: nothing is to be refused after trials and a fit.
    _check_outputs(output, plot, known, (request, Path(on) if on and Path(on).exists() else None))
    if trial is not None:
        known = _tried(asked, request, trial)
    asked = asked.model_copy(update={"study": known})
    if asked.study is None:
        found = unmeasured(asked, infrastructure)
    else:
        with Study.open(asked.study) as study, working("planning"):
            found = find(asked, infrastructure, study)
            if trial is not None and on:
                found = _with_host(found, study)
    if output is not None:
        _write(found, output)
    if plot is not None:
        _draw(found, plot)
    if json:
        print_json(found.to_dict())
    elif explain is not None:
        _explain(found, explain)
    else:
        _print(found, rows)
    return None


def _tried(asked: Request, path: Path, time: str) -> Path:
    """The study of the request once short trials are in it."""
    from forerun._documents import validated
    from forerun.cli.campaign import progress_shown
    from forerun.measuring.asking import campaign_of
    from forerun.measuring.settings import Settings
    from forerun.planning.trials import trial_of

    seconds_ = validated(Settings, {"budget": time}, "--trial, as a ").budget or 0.0
    wanted = trial_of(asked, path, seconds_)
    with progress_shown() as tell:
        summary = campaign_of(wanted).run(tell)
    if summary.ended == "interrupted":
        raise KeyboardInterrupt
    note(f"{wanted.study}: {counted(summary.made, 'trial')}; {summary.reason}")
    return wanted.study


def _with_host(found: Plan, study: Study) -> Plan:
    """With a note where trials of this machine are taken for runs of another one."""
    from dataclasses import replace

    from forerun.infrastructure.detection import machine
    from forerun.planning.candidates import Roles, measured_partitions

    roles, here = Roles(study.space), machine().name
    asked, there = found.request, found.infrastructure
    if asked.measured_on is not None or roles["partition"] is not None or there.name == here:
        return found
    partition = measured_partitions(asked, there, roles)[0]
    line = (
        f"the trials ran on {here}, and are taken for runs on {partition} of {there.name}: "
        "measured_on says so"
    )
    return replace(found, notes=(*found.notes, line))


def _write(found: Plan, path: Path) -> None:
    from forerun.planning.plans import write_plan

    write_plan(found, path)
    note(f"{path}: the plan; forerun deploy {shlex.quote(str(path))} runs it")


def _check_outputs(
    output: Path | None, plot: Path | None, study: Path | None, kept: tuple[Path | None, ...]
) -> None:
    """InputError unless both may be written; neither over what is read, nor over the other."""
    from forerun._outputs import check_plan, same

    if output is not None:
        check_plan(output, study, *kept)
    if plot is None:
        return
    from forerun.plots.document import check

    if study is None:
        raise InputError("--plot", "nothing that was measured", "a study, or --trial SECONDS")
    if output is not None and same(output, plot):
        raise InputError("--plot", plot, "another file than that of --output")
    check(plot, study, *kept)


def _draw(found: Plan, path: Path) -> None:
    from forerun.plots.document import write_front
    from forerun.plots.front import front

    write_front(front(found), f"{found.request.name} on {found.infrastructure.name}", path)
    note(f"{path}: time against what it takes, for each candidate")


def _print(found: Plan, rows: int) -> None:
    shown_rows = found.considered[:rows]
    settings = [one.candidate.setting for one in found.considered]
    varied = [name for name in settings[0] if len({one.get(name) for one in settings}) > 1]
    fixed = {name: value for name, value in settings[0].items() if name not in varied}
    to = results()
    to.print(f"{found.request.name} on {found.infrastructure.name}", style="bold", highlight=False)
    knows = f"model of {counted(found.runs, 'run')}" if found.runs else "not measured"
    to.print(
        f"{counted(found.count, 'candidate')}; {knows}"
        + (f"; {', '.join(f'{n} {shown(v)}' for n, v in fixed.items())}" if fixed else ""),
        highlight=False,
    )
    costs = any(one.estimate and one.estimate.cost is not None for one in found.considered)
    times = ["time", "90 % interval"] if found.runs else []
    heads = ["", *varied, *times, *(["cost"] if costs else []), "why"]
    made = table(*heads, numeric=["", "time", "cost"])
    for number, one in enumerate(shown_rows, start=1):
        made.add_row(*_row(found, number, one, varied, costs))
    to.print(made)
    if len(found.considered) > rows:
        to.print(f"and {len(found.considered) - rows} more; --rows shows them", style="dim")
    for beside in found.pays:
        to.print(shown(beside.told), highlight=False)
    for reason, count in sorted(found.refused.items(), key=lambda pair: -pair[1])[:rows]:
        to.print(f"{counted(count, 'candidate')} left out: {shown(reason)}", highlight=False)
    _warn(found, found.chosen)


def _row(found: Plan, number: int, one: Considered, varied: list[str], costs: bool) -> list[str]:
    estimate, setting = one.estimate, one.candidate.setting
    mark = "chosen" if number == 1 and found.runs else f"{number}{' *' if one.on_front else ''}"
    values = [shown(setting.get(name, "")) for name in varied]
    if estimate is None:
        return [mark, *values, shown(one.reason)]
    currency = found.infrastructure.currency
    cost = "" if estimate.cost is None else money(estimate.cost, currency)
    return [
        mark,
        *values,
        seconds(estimate.seconds),
        between(estimate.low, estimate.high),
        *([cost] if costs else []),
        shown(one.reason),
    ]


def _explain(found: Plan, number: int) -> None:
    from forerun.planning.memory import NOTE

    if number > len(found.considered):
        raise InputError("--explain", number, f"a number from 1 to {len(found.considered)}")
    one = found.considered[number - 1]
    estimate = one.estimate
    if estimate is None:
        raise InputError("--explain", number, "a study: nothing was measured")
    to = results()
    head = ", ".join(f"{name} {shown(value)}" for name, value in one.candidate.setting.items())
    to.print(f"{number}: {head}", style="bold", highlight=False)
    made = table("", "", numeric=[""])
    for part, value in estimate.parts.items():
        if value:
            made.add_row(part, seconds(value))
    made.add_row("time to the result", seconds(estimate.seconds))
    made.add_row("90 % interval", between(estimate.low, estimate.high))
    if estimate.cost is not None:
        made.add_row("cost", money(estimate.cost, found.infrastructure.currency))
    if estimate.joules is not None:
        made.add_row("energy", amount(estimate.joules, "joules"))
    if estimate.memory is not None:
        word = "estimated" if NOTE in found.notes else "at most"
        made.add_row(f"memory of a worker, {word}", amount(estimate.memory, "bytes"))
    if estimate.efficiency is not None:
        made.add_row("parallel efficiency", percent(estimate.efficiency))
    to.print(made)
    to.print(shown(one.reason), highlight=False)
    for beside in found.pays if number == 1 else filter(None, [one.pays]):
        to.print(shown(beside.told), highlight=False)
    _warn(found, one)


def _warn(found: Plan, one: Considered) -> None:
    estimate = one.estimate
    for line in (*(estimate.cautions if estimate else ()), *found.notes):
        warn(line)
