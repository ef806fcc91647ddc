"""`forerun split bench`: what splits take, in a table and as the runs of a study."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.common import Json, counted, print_json, results, shown, table
from forerun.cli.split_common import Boards, On, Tell, chosen, counts, need, progress
from forerun.cli.split_feeding import (
    Against,
    Crop,
    Inputs,
    Mean,
    Secret,
    Std,
    Where,
    right_answers,
    samples_of,
    setting_of,
)
from forerun.errors import InputError

if TYPE_CHECKING:
    from forerun.splitting.bench import Reference, Setting
    from forerun.splitting.measured import Measured
    from forerun.splitting.split import Split

_WIRES = ("float32", "float16", "int8")


def bench(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER",
            help="Splits to compare, the first one with all others.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="STUDY",
            help="A study of splits, to add a run for each sample to.",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many samples are timed, of each setting.")
    ] = 50,
    wire: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="What goes over the wire: float32, float16, int8.",
            show_default="float32; with --on as the devices do",
        ),
    ] = None,
    in_flight: Annotated[
        str, typer.Option(metavar="K,L", help="Samples under way at a time: 1,2.")
    ] = "1",
    input_: Inputs = None,
    against: Against = None,
    on: On = None,
    boards: Boards = None,
    secret_file: Secret = None,
    mean: Mean = None,
    std: Std = None,
    crop: Crop = 0.875,
    json: Json = False,
) -> None:
    """Time splits: latency, throughput, memory, bytes sent and waiting, of every setting.

    Each sample is a run of the study, with the factors network, layout, devices, precision, wire
    and in_flight, so that `forerun fit` and `predict` work on it. Answers are compared with those
    of the first split of the same network, or of --against.
    """
    need("onnxruntime")
    from forerun.splitting.bench import Reference
    from forerun.splitting.bench import bench as measure
    from forerun.splitting.measured import WHOLE, open_study, store
    from forerun.splitting.split import Split

    splits = [Split.load(folder) for folder in folders]
    wires, flights = _wires(wire), counts("--in-flight", in_flight)
    if on is not None and (len(splits), len(wires), len(flights)) != (1, 1, 1):
        raise InputError("--on", on, "one split in one setting: that of the devices that wait")
    study = None if output is None else open_study(output)
    fed: dict[str, _Fed] = {}
    for split in splits:
        if (digest := split.document["network"]) not in fed:
            _, given = samples_of(split, input_, mean, std, crop)
            taken = list(islice(given, samples))  # reading is no part of what is timed
            right = right_answers(split, against, taken)
            fed[digest] = _Fed(taken, None if right is None else Reference(WHOLE, right))
    settings = list(_settings(splits, wires, flights, Where(on, boards, secret_file)))
    found: list[Measured] = []
    with progress("timing", samples * len(settings)) as tell:
        for split, setting in settings:
            before, doing = samples * len(found), _words(split, setting)
            tell(before, f"starting {doing}")
            network = fed[split.document["network"]]
            made = measure(
                split,
                setting,
                network.samples,
                samples,
                network.reference,
                partial(_tell, tell, before, doing),
            )
            if network.reference is None:  # the first split says what is right
                answers = made.answers[: len(network.samples)]
                network.reference = Reference(made.measured.title, answers)
            found.append(made.measured)
            if study is not None:
                store(study, made.measured, made.timed)
    if json:
        print_json(_document(found, output))
    else:
        _print(found, output)


def _wires(text: str | None) -> Sequence[str | None]:
    return [None] if text is None else chosen("--wire", text, _WIRES)


def _tell(tell: Tell, before: int, doing: str, done: int) -> None:
    tell(before + done, doing)


@dataclass
class _Fed:
    """What all splits of one network are fed, and the right answers, once they are known."""

    samples: list[Any]
    reference: Reference | None


def _settings(
    splits: Sequence[Split],
    wires: Sequence[str | None],
    flights: Sequence[int],
    where: Where,
) -> Iterator[tuple[Split, Setting]]:
    """Every split in every setting; to devices that do not talk the wire makes no difference."""
    for split in splits:
        talking = any(split.description(device)["sends"] for device in range(split.devices))
        for wire in wires if talking else wires[:1]:
            for flight in flights:
                yield split, setting_of(split, wire, flight, where)


def _words(split: Split, setting: Setting) -> str:
    devices = counted(split.devices, "device")
    wire = "" if setting.wire is None else f", {setting.wire}"
    return f"{split.name}, {split.layout}, {devices}{wire}, {setting.in_flight} in flight"


def _document(found: Sequence[Measured], output: Path | None) -> dict[str, Any]:
    return {
        "study": None if output is None else str(output),
        "settings": [
            {
                **one.model_dump(mode="json"),
                "memory_bytes": one.memory_bytes,
                "sent_bytes": one.sent_bytes,
                "waiting": one.waiting,
            }
            for one in found
        ],
    }


def _print(found: Sequence[Measured], output: Path | None) -> None:
    from forerun.plots.splits import section

    made = section(found)
    assert made is not None  # there is at least one split
    to = results()
    named = ", ".join(dict.fromkeys(one.network for one in found))
    samples = counted(made.samples, "sample")
    to.print(f"{shown(named)}: {samples} of each setting, on {found[0].where}", soft_wrap=True)
    printed = table(*made.columns, numeric=made.columns[made.words :])
    for row in made.rows:
        printed.add_row(*map(shown, row))
    to.print(printed)
    to.print(shown(made.agreement), soft_wrap=True)
    if made.speed:
        to.print(shown(made.speed), soft_wrap=True)
    if output is not None:
        words = shlex.join(["forerun", "fit", str(output)])
        to.print(f"stored in {shown(output)}; next: {shown(words)}", soft_wrap=True)
