"""`forerun split check`: every layout against the whole network in one process."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun import __version__
from forerun.cli.common import INTERRUPTED, Json, counted, note, print_json, results, shown, table
from forerun.cli.split_common import Tell, chosen, counts, need, progress
from forerun.cli.split_networks import Network, network_of
from forerun.errors import InputError
from forerun.quantities import number, percent, seconds

if TYPE_CHECKING:
    from forerun.cli.split_kept import Kept, Row
    from forerun.splitting.check import Result
    from forerun.splitting.graph import Graph

NAMED = ("rows", "fused", "outputs", "inputs", "groups", "pipeline", "whole")
LAYOUTS = (*NAMED, "auto")
ALL = "all"


def check(
    networks: Annotated[
        list[str],
        typer.Argument(
            metavar="NETWORK",
            help="ONNX files; or resnet-50, resnet-50:x1.75 (decoupled) and others by name.",
            show_default=False,
        ),
    ],
    layouts: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help=f"{', '.join(LAYOUTS)}; all: those with a name that the network can be cut by.",
        ),
    ] = ALL,
    devices: Annotated[str, typer.Option(metavar="N,M", help="How many devices.")] = "2,3,4",
    inputs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Random inputs of each check.")
    ] = 100,
    processes: Annotated[
        bool,
        typer.Option(
            "--processes",
            metavar="",
            help="Also run the devices as processes, and compare their answers.",
        ),
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Keep what was checked here, and do not check it again.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check that layouts compute what the whole network does, tensor by tensor.

    For random inputs, every layer's result on every device is compared with that of the network's
    file in one process: 1e-4 of the largest number may be between them. A device that computes or
    stores more than 1.1 times what its layout says fails too. Exit code 1 if anything does.
    """
    need("onnx", "onnxruntime")
    from forerun.cli.split_kept import Kept

    wanted = NAMED if layouts == ALL else tuple(chosen("--layouts", layouts, LAYOUTS))
    asked = _Asked(wanted, layouts == ALL, counts("--devices", devices), inputs, processes)
    kept = Kept(keep)
    rows: list[Row] = []
    interrupted = False
    try:
        for given in networks:
            with network_of(given) as network:
                for row in _checked(network, asked, kept):
                    rows.append(row)
    except KeyboardInterrupt:  # what was checked is told all the same
        interrupted = True
    document = {"rows": rows, "failed": sum(bool(row["problem"]) for row in rows)}
    if json:
        print_json(document)
    elif rows or not interrupted:
        _print(document)
    if interrupted:
        if keep is not None:
            kept_so_far = f"the same command goes on: {keep} has what was checked"
            note(kept_so_far if keep.exists() else "nothing is checked yet")
        raise typer.Exit(INTERRUPTED)
    if document["failed"]:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be checked of every network."""

    layouts: Sequence[str]
    any_layout: bool  # whatever the network can be cut by, rather than just these
    devices: Sequence[int]
    inputs: int
    processes: bool

    def key(self, network: str, layout: str, devices: int) -> Row:
        """What tells a check from others."""
        from forerun.splitting.check import CLOSE

        return {
            "forerun": __version__,
            "tolerance": CLOSE,
            "network": network,
            "layout": layout,
            "devices": devices,
            "inputs": self.inputs,
            "processes": self.processes,
        }


def _checked(network: Network, asked: _Asked, kept: Kept) -> Iterator[Row]:
    """A row for each layout and number of devices, as soon as it is checked."""
    from forerun.splitting.graph import Graph

    graph = Graph.load(network.file)
    pairs = [(layout, devices) for layout in asked.layouts for devices in asked.devices]
    with progress(network.name, asked.inputs * len(pairs)) as tell:
        for place, (layout, devices) in enumerate(pairs):
            key = asked.key(graph.digest, layout, devices)
            row = kept.find(key)
            if row is None:
                before = asked.inputs * place
                row = _row(network, graph, layout, devices, asked, _Telling(tell, before))
                kept.add(key, row)
            if row["note"]:  # no such layout of this network, and nobody has asked for just that
                note(f"{network.name}: {layout} on {devices} is left out: {row['note']}")
            else:
                yield {**row, "network": network.name}


@dataclass(frozen=True, slots=True)
class _Telling:
    """Passes on how far a check is."""

    tell: Tell
    before: int

    def __call__(self, layout: str, devices: int, done: int, difference: float) -> None:
        doing = f"{layout} on {devices}, off by {number(difference, 2)}"
        self.tell(self.before + done, doing)


def _row(
    network: Network, graph: Graph, name: str, devices: int, asked: _Asked, telling: _Telling
) -> Row:
    """One check; where the network cannot be cut so, the reason instead of figures."""
    from forerun.splitting.check import check as compare

    made = _Row(network.name, name, devices, asked.inputs)
    try:
        layout, early = _layout(graph, name, devices)
    except InputError as error:
        return made.impossible(str(error), asked.any_layout)
    run = _answers if asked.processes else None
    (found,) = compare(
        network.file,
        [layout],
        [devices],
        samples=asked.inputs,
        early=early,
        run=run,
        progress=telling,
    )
    return made.of(found)


def _layout(graph: Graph, name: str, devices: int) -> tuple[Any, float]:
    from forerun.splitting.choice import choose
    from forerun.splitting.layout import layout
    from forerun.splitting.split import AUTO, boards_of

    if name != AUTO:
        return layout(graph, name, (1.0,) * devices), 0.0
    found = choose(graph, boards_of(devices), alone=False)  # of which there is more to check
    return found.layout, found.early


def _answers(folder: Path, samples: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The answers of devices that are processes."""
    from forerun.splitting.running import Local

    with Local(folder) as devices:
        for answer in devices.run(samples):
            yield answer.outputs


@dataclass(frozen=True, slots=True)
class _Row:
    """What a check is of, to be filled in."""

    network: str
    layout: str
    devices: int
    inputs: int

    def of(self, found: Result) -> Row:
        """The row of a result."""
        return {
            **self._head(),
            "difference": _finite(found.difference),
            "tensor": found.tensor,
            "tensors": found.tensors,
            "answers": None if found.answers is None else _finite(found.answers),
            "share": _finite(max(load.excess for load in found.loads)),
            "problem": found.problem or None,
            "note": None,
            "seconds": found.seconds,
        }

    def impossible(self, reason: str, expected: bool) -> Row:
        """The row of a layout that the network cannot be cut by; a problem if it was asked for."""
        nothing = dict.fromkeys(("difference", "tensor", "tensors", "answers", "share"))
        told = {"problem": None, "note": reason} if expected else {"problem": reason, "note": None}
        return {**self._head(), **nothing, **told, "seconds": 0.0}

    def _head(self) -> Row:
        return {
            "network": self.network,
            "layout": self.layout,
            "devices": self.devices,
            "inputs": self.inputs,
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _print(document: Mapping[str, Any]) -> None:
    to = results()
    rows = document["rows"]
    real = any(row["answers"] is not None for row in rows)
    numeric = ("devices", "off by", *(("processes",) if real else ()), "share", "tensors", "took")
    made = table("network", "layout", *numeric, "", numeric=numeric)
    for row in rows:
        cells = [_off(row["difference"]), *([_off(row["answers"])] if real else [])]
        share = "–" if row["share"] is None else percent(row["share"])
        cells += [share, "–" if row["tensors"] is None else str(row["tensors"])]
        verdict = "wrong" if row["problem"] else "right"
        made.add_row(
            shown(row["network"]),
            row["layout"],
            str(row["devices"]),
            *cells,
            seconds(row["seconds"]),
            verdict,
            style="bold red" if row["problem"] else None,
        )
    to.print(made)
    for row in rows:
        if row["problem"]:
            where = f"{row['network']}, {row['layout']} on {row['devices']}"
            to.print(f"{shown(where)}: {shown(row['problem'])}", soft_wrap=True)
    failed = document["failed"]
    told = f"{failed} of {counted(len(rows), 'check')} failed" if failed else "all are right"
    to.print(f"{counted(len(rows), 'check')}: {told}" if not failed else told)


def _off(difference: float | None) -> str:
    return "–" if difference is None else number(difference, 2)
