"""`forerun plan` for a network on boards: the best way to run it, and why every other one lost."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forerun.cli.common import counted, note, print_json, results, shown, table, warn, working
from forerun.cli.split_common import need
from forerun.errors import InputError
from forerun.quantities import amount, between, number, seconds

if TYPE_CHECKING:
    from forerun.infrastructure import Infrastructure
    from forerun.planning.inference import InferencePlan
    from forerun.planning.inference_reasons import Considered
    from forerun.planning.inference_request import InferenceRequest


@dataclass(frozen=True, slots=True)
class Wanted:
    """The verb's options."""

    trial: str | None
    explain: int | None
    rows: int
    output: Path | None
    plot: Path | None
    layers: Path | None
    json: bool
    kept: tuple[Path | None, ...]  # files that must not be overwritten


def plan_inference(asked: InferenceRequest, infrastructure: Infrastructure, wanted: Wanted) -> None:
    """Rank the ways, and print, draw and write what was asked for."""
    need("onnx", "onnxruntime")
    from forerun.planning.inference import plan_inference as find

    if wanted.layers is not None:
        asked = asked.model_copy(update={"layers": str(wanted.layers)})
    _check_outputs(asked, wanted)
    if wanted.trial is not None:
        _time_layers(asked, wanted.trial)
    with working("planning"):
        found = find(asked, infrastructure)
    if wanted.output is not None:
        from forerun.planning.plans import write_plan

        write_plan(found, wanted.output)
        note(f"{wanted.output}: the plan")
    if wanted.plot is not None:
        _draw(found, wanted.plot)
    if wanted.json:
        print_json(found.to_dict())
    elif wanted.explain is not None:
        _explain(found, wanted.explain)
    else:
        _print(found, wanted.rows)
        if wanted.output is not None and found.chosen is not None:
            results().print(f"next: {shown(_next(found.chosen, wanted.output))}", soft_wrap=True)


def _next(chosen: Considered, plan: Path) -> str:
    """The command that cuts what was chosen."""
    samples = ["--samples", "TYPICAL.npy"] if chosen.candidate.precision == "int8" else []
    return shlex.join(["forerun", "split", "cut", "--plan", str(plan), *samples])


def _check_outputs(asked: InferenceRequest, wanted: Wanted) -> None:
    """InputError unless both may be written; neither over what is read, nor over the other."""
    from forerun._outputs import check_plan, same

    networks = [served.path for _, served in asked.named]
    layers = None if asked.layers is None else Path(asked.layers)
    kept = (*wanted.kept, layers, *networks)
    if wanted.output is not None:
        check_plan(wanted.output, *kept)
    if wanted.plot is None:
        return
    from forerun.plots.document import check

    if wanted.output is not None and same(wanted.output, wanted.plot):
        raise InputError("--plot", wanted.plot, "another file than that of --output")
    check(wanted.plot, networks[0], *kept)


def _time_layers(asked: InferenceRequest, time: str) -> None:
    """Layers on this machine, into the study that the plan is made by."""
    from forerun._documents import duration
    from forerun.splitting.layers import default_study
    from forerun.splitting.timing import time_layers

    try:
        wanted = duration(time)
    except ValueError as error:
        raise InputError("--trial", time, str(error)) from None
    path = default_study() if asked.layers is None else Path(asked.layers)
    with working("timing layers"):
        study = time_layers(path, wanted)
    note(f"{path}: {counted(len(study), 'layer')} of this machine")


def _draw(found: InferencePlan, path: Path) -> None:
    from forerun.plots.document import write_front
    from forerun.plots.front import front_of_ways

    if found.chosen is None:
        raise InputError("--plot", "nothing that can be chosen", "other constraints")
    title = f"{found.request.name} on {found.infrastructure.name}"
    write_front(front_of_ways(found), title, path)
    note(f"{path}: time against devices, for each candidate")


def _print(found: InferencePlan, rows: int) -> None:
    every = found.every
    settings = [one.candidate.setting for one in every]
    varied = [name for name in settings[0] if len({one.get(name) for one in settings}) > 1]
    fixed = {name: value for name, value in settings[0].items() if name not in varied and value}
    accurate = any(one.estimate and one.estimate.accuracy is not None for one in every)
    to = results()
    to.print(f"{found.request.name} on {found.infrastructure.name}", style="bold", highlight=False)
    told = "; ".join(
        filter(None, [counted(found.count, "candidate"), *(f"{n} {v}" for n, v in fixed.items())])
    )
    to.print(shown(told), highlight=False)
    measures = ["time", "90 % interval", "a second", "memory", "sent"]
    heads = ["", *varied, *measures, *(["accuracy"] if accurate else []), "why"]
    made = table(*heads, numeric=["", "devices", "time", "a second", "memory", "sent", "accuracy"])
    for place, one in enumerate(every[:rows], start=1):
        made.add_row(*_row(found, place, one, varied, accurate))
    to.print(made)
    if found.count > rows:
        to.print(f"and {found.count - rows} more; --rows shows them", style="dim")
    for one in _first_to_train(every):
        assert one.training is not None
        command = one.training["application"]["command"]
        line = f"{one.candidate.network} must be trained first: {command}"
        to.print(shown(line), highlight=False, soft_wrap=True)
    for line in found.notes:
        warn(line)


def _first_to_train(every: tuple[Considered, ...]) -> list[Considered]:
    """One candidate of each network that must be trained."""
    found: dict[str, Considered] = {}
    for one in every:
        if one.training is not None:
            found.setdefault(one.candidate.network, one)
    return list(found.values())


def _row(
    found: InferencePlan, place: int, one: Considered, varied: list[str], accurate: bool
) -> list[str]:
    setting, estimate = one.candidate.setting, one.estimate
    mark = str(place)
    if one is found.chosen:
        mark = "chosen"
    elif one in found.refused:
        mark = "-"
    elif one.on_front:
        mark = f"{place} *"
    values = [shown(setting.get(name, "")) for name in varied]
    if estimate is None:
        return [mark, *values, *[""] * (6 if accurate else 5), shown(one.reason)]
    share = "" if estimate.accuracy is None else f"{100 * estimate.accuracy:.1f} %"
    return [
        mark,
        *values,
        seconds(estimate.seconds),
        between(estimate.low, estimate.high),
        number(estimate.throughput),
        amount(estimate.memory, "bytes"),
        amount(estimate.sent, "bytes") if estimate.sent else "",
        *([share] if accurate else []),
        shown(one.reason),
    ]


def _explain(found: InferencePlan, place: int) -> None:
    """All of one candidate."""
    if place > found.count:
        raise InputError("--explain", place, f"a number from 1 to {found.count}")
    one = found.every[place - 1]
    to = results()
    head = ", ".join(f"{n} {shown(v)}" for n, v in one.candidate.setting.items() if v)
    to.print(f"{place}: {head}", style="bold", highlight=False)
    estimate = one.estimate
    if estimate is not None:
        made = table("", "", numeric=[""])
        made.add_row("time of an answer", seconds(estimate.seconds))
        made.add_row("90 % interval", between(estimate.low, estimate.high))
        made.add_row("computing, busiest device", seconds(estimate.computing))
        made.add_row("waiting", seconds(max(estimate.seconds - estimate.computing, 0.0)))
        made.add_row("samples a second", number(estimate.throughput))
        made.add_row("weights of a device, at most", amount(estimate.weights, "bytes"))
        made.add_row("activations of a device, at most", amount(estimate.activations, "bytes"))
        made.add_row("memory of a device, estimated", amount(estimate.memory, "bytes"))
        made.add_row("sent a sample", amount(estimate.sent, "bytes"))
        if estimate.joules is not None:
            made.add_row("energy a sample", amount(estimate.joules, "joules"))
        if estimate.accuracy is not None:
            made.add_row("accuracy", f"{100 * estimate.accuracy:.1f} %")
        to.print(made)
    to.print(shown(one.reason), highlight=False)
    if one.training is not None:
        import yaml

        to.print("the request of its training:", highlight=False)
        to.print(yaml.safe_dump(dict(one.training), sort_keys=False), highlight=False, end="")
    for line in (*(estimate.cautions if estimate else ()), *found.notes):
        warn(line)
