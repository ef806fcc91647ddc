"""`forerun split cut`: a package of segments and exchanges for each device."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
from forerun.cli.split_common import On, infrastructure, need, numbers
from forerun.cli.split_dividing import ALONE, Division, best, planned, read_planned, told
from forerun.cli.split_networks import network_of
from forerun.errors import InputError
from forerun.quantities import amount, large, percent

if TYPE_CHECKING:
    from forerun.infrastructure import Infrastructure
    from forerun.planning.inference_plans import PlannedSplit
    from forerun.splitting.graph import Graph
    from forerun.splitting.split import Split

LayoutName = Literal["auto", "rows", "fused", "outputs", "inputs", "groups", "pipeline", "whole"]

AUTO = "auto"
_DEVICES = 4  # where nobody says how many


def cut(
    network: Annotated[
        str | None,
        typer.Argument(
            metavar="NETWORK",
            help="An ONNX file; or resnet-50 and others by name, with random weights.",
            show_default="the plan's",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Where the packages go; an earlier split there is replaced.",
            show_default="NETWORK-DEVICES",
        ),
    ] = None,
    on: On = None,
    devices: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="How many devices.", show_default="4; with --on all its boards"
        ),
    ] = None,
    shares: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="How fast each device is beside the others: 1,1,0.5.",
            show_default="equal; with --on the boards' speeds",
        ),
    ] = None,
    layout: Annotated[
        LayoutName,
        typer.Option(
            metavar="NAME",
            help="How the work is divided: rows of the image (fused: exchanged less often), "
            "outputs or inputs (channels), groups (of a decoupled network), pipeline (layers), "
            "whole; auto takes what should answer soonest, be it one device alone.",
        ),
    ] = "auto",
    replicas: Annotated[
        bool,
        typer.Option(
            "--replicas",
            metavar="",
            help="The whole network on each device, and samples in turns: no answer is sooner.",
        ),
    ] = False,
    int8: Annotated[
        bool,
        typer.Option("--int8", metavar="", help="Compute in int8; it takes --samples."),
    ] = False,
    samples: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npy",
            help="Typical inputs, to find the ranges of numbers by, for --int8.",
            show_default=False,
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="PLAN.json",
            help="Cut as forerun plan has chosen for a network on boards.",
            show_default=False,
        ),
    ] = None,
    candidate: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="With --plan: another candidate, by its number there.",
            show_default="the chosen one",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Cut a network over devices, and write a package for each.

    Whatever the layout, the answer is that of the whole network. An operator that has no rule is
    named, and computed whole, by every device that needs it.
    """
    need("onnx", "onnxruntime")
    from forerun.splitting.graph import Graph
    from forerun.splitting.split import REPLICAS, split

    said = {"on": on, "devices": devices, "shares": shares, "replicas": replicas, "int8": int8}
    chosen = read_planned(plan, candidate, {**said, "layout": None if layout == AUTO else layout})
    given = network or (chosen.file if chosen is not None else None)
    if given is None:
        raise InputError("NETWORK", "none", "an ONNX file, a network's name, or --plan")
    _check_samples(samples, int8, chosen)
    if replicas and layout not in (AUTO, "whole"):
        raise InputError("--layout", layout, "none with --replicas: each device has it whole")
    wanted = devices_of(on, devices, shares)
    with network_of(given) as found, working(f"cutting {found.name}"):
        graph = Graph.load(found.file)
        if chosen is not None:
            how = planned(chosen, graph, found.file)
        elif layout == AUTO and not replicas:
            how = best(graph, wanted, "int8" if int8 else "float32")
        else:
            how = Division(wanted, REPLICAS if replicas else layout)
        made = split(
            graph,
            how.devices,
            how.layout,
            output,
            name=found.name,
            int8=_ranges(samples, graph) if samples is not None else None,
            early=how.early,
        )
    beside = {"predicted": how.predicted, "alternatives": list(how.alternatives)}
    document = {**summary(made, graph), **beside}
    if how.about:
        note(how.about)
    for one in document["unruled"]:
        whole = "computed whole, by every device that needs it"
        warn(f"{one['operator']} {one['name']} has no rule: {whole}")
    if document["layout"] == ALONE:
        busy = max(document["devices"], key=lambda one: one["macs"])["device"]
        why = "no split is predicted to be faster than one device alone"
        warn(f"{why}: device {busy} does it all; --layout cuts it all the same")
    if json:
        print_json(document)
    else:
        _print(document)


def _check_samples(samples: Path | None, int8: bool, chosen: PlannedSplit | None) -> None:
    """InputError unless there are samples just where int8 needs them."""
    without = "without --int8"
    if chosen is not None:
        int8, without = chosen.precision == "int8", "with a plan that computes in float32"
    if int8 and samples is None:
        raise InputError("--samples", "none", "typical inputs, for int8")
    if samples is not None and not int8:
        raise InputError("--samples", samples, f"none {without}")


def devices_of(
    on: str | None, devices: int | None, shares: str | None
) -> int | Sequence[float] | Infrastructure:
    """How many devices, how fast each is, or the boards that there are."""
    if shares is not None:
        if on is not None:
            raise InputError("--shares", shares, "none with --on: boards have a speed there")
        found = numbers("--shares", shares, "numbers above 0, one a device: 1,1,0.5")
        if devices not in (None, len(found)):
            raise InputError("--shares", counted(len(found), "number"), f"{devices}: one a device")
        return found
    if on is None:
        return _DEVICES if devices is None else devices
    found_boards = infrastructure(on)
    if devices is not None:
        raise InputError("--devices", devices, "none with --on: a device for each of its boards")
    return found_boards


def _ranges(samples: Path, graph: Graph) -> Iterator[dict[str, Any]]:
    """The samples, each when it is asked for; what is wrong with their file is told at once."""
    from forerun.splitting.inputs import Pixels, Samples

    shapes = {name: graph.tensors[name].dims for name in graph.inputs}
    pixels = Pixels(*(graph.normal or ()))
    found = Samples([samples], shapes, pixels)
    (name,) = shapes
    return ({name: one} for one in found)


def summary(made: Split, graph: Graph) -> dict[str, Any]:
    """What was cut, as one JSON document."""
    shares = made.shares
    total = sum(share.macs for share in shares)
    return {
        "folder": str(made.folder),
        "network": made.name,
        "layout": made.layout,
        "details": dict(made.document.get("layout_details", {})),
        "precision": made.precision,
        "inputs": made.inputs,
        "outputs": made.outputs,
        "macs": whole_macs(graph),
        "devices": [
            {
                **share.model_dump(
                    include={
                        "device",
                        "macs",
                        "weights_bytes",
                        "activations_bytes",
                        "sent_bytes",
                    }
                ),
                "share": share.macs / total if total else 0.0,
                "exchanges": _exchanges(made.description(share.device)),
            }
            for share in shares
        ],
        "unruled": [{"name": name, "operator": kind} for name, kind in graph.unruled],
    }


def whole_macs(graph: Graph) -> int:
    """Multiply-accumulates of the network on one device."""
    from forerun.splitting.layout import layout, settle

    return settle(graph, layout(graph, "whole", (1.0,))).macs(graph, 0)


def _exchanges(package: Mapping[str, Any]) -> int:
    """How many messages a device sends to others, of one sample."""
    return len(package["sends"])


def _print(document: Mapping[str, Any]) -> None:
    to = results()
    devices = document["devices"]
    precise = "" if document["precision"] == "float32" else f", {document['precision']}"
    to.print(
        f"{shown(document['network'])} over {counted(len(devices), 'device')},"
        f" {shown(document['layout'])}{precise}: {shown(document['folder'])}",
        soft_wrap=True,
    )
    columns = ("MACs", "share", "weights", "peak activations", "sent", "messages")
    made = table("device", *columns, numeric=columns)
    for one in devices:
        made.add_row(
            str(one["device"]),
            large(one["macs"]),
            percent(one["share"]),
            amount(one["weights_bytes"], "bytes"),
            amount(one["activations_bytes"], "bytes"),
            amount(one["sent_bytes"], "bytes"),
            str(one["exchanges"]),
        )
    to.print(made)
    to.print(_work(document), soft_wrap=True)
    if document["predicted"] is not None:
        to.print(shown(told(document)), soft_wrap=True)
    to.print(f"next: {shown(_next(document))}", soft_wrap=True)


def _work(document: Mapping[str, Any]) -> str:
    """How the work compares with that of one device."""
    macs, devices = document["macs"], document["devices"]
    if not macs:
        return "the network multiplies nothing"
    total, most = (f(one["macs"] for one in devices) for f in (sum, max))
    told = f"the network: {large(macs)} MACs; the busiest device: {percent(most / macs)} of them"
    if document["layout"] == "replicas":
        return f"{told}, of one sample in {len(devices)}"
    again = total / macs - 1
    return f"{told}; computed twice: {percent(again)}" if round(again, 3) > 0 else told


def _next(document: Mapping[str, Any]) -> str:
    words = ["forerun", "split", "bench", document["folder"]]
    predicted = document["predicted"] or {}
    for name, usual in (("wire", "float32"), ("in_flight", 1)):
        if predicted.get(name, usual) != usual:
            words += [f"--{name.replace('_', '-')}", str(predicted[name])]
    return shlex.join(words)
