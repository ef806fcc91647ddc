"""The table of split networks, from measured cells, and what is claimed of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from boards import CORE, DILATION, MEGABITS
from calibrate_boards import kept
from rich.console import Console
from rich.table import Table as Printed
from split_claims import claims
from split_rows import Row, Table, disturbed, read
from split_ways import NETWORKS
from split_weak_rows import Weak
from split_weak_rows import read as read_weak

One = TypeVar("One", Row, Weak)

MB = 1e6
HEADS = (
    *("boards", "way", "wire", "in flight", "visits", "samples", "p50, ms", "p99, ms"),
    *("times", "as structure x"),
    *("of ceiling", "samples/s", "times", "weights", "activations", "resident", "sent"),
    *("waits", "image", "error", "same class"),
)


def show(runs: Path) -> int:
    """Print all of it; 1 where a claim does not hold or was not measured."""
    to = Console(soft_wrap=True, highlight=False, width=240)
    calibrations = kept(runs / "split-calibration.csv")
    found = quoted(read(runs / "split.csv"), calibrations, to)
    weak = quoted(read_weak(runs / "split-weak.csv"), calibrations, to)
    table = Table(found)
    head(runs, calibrations, to)
    for network in NETWORKS:
        if own := [row for row in table.rows if row.network == network]:
            to.print(printed(network, own, table))
    if weak:
        to.print(weak_printed(weak))
    judged = claims(table, weak)
    for claim in judged:
        to.print(str(claim))
    return 0 if all(claim.holds for claim in judged) else 1


def quoted(found: Sequence[One], calibrations: Mapping[str, float], to: Console) -> list[One]:
    """The rows of boards as slow as they should be, undisturbed; the others are told of."""
    calibrated = [one for one in found if calibrations.get(one.calibration, 2.0) <= 1.0]
    good = [one for one in calibrated if disturbed(one) == 0]
    for rest, why in (
        (len(found) - len(calibrated), "their boards were not calibrated"),
        (len(calibrated) - len(good), "others used the machine meanwhile"),
    ):
        if rest:
            to.print(f"{rest} rows are left out: {why}")
    return good


def head(runs: Path, calibrations: Mapping[str, float], to: Console) -> None:
    """What the figures are of."""
    faster = f"; measured {DILATION:g} times faster throughout, and times multiplied back"
    to.print(
        f"Boards of {CORE:g} core on {MEGABITS:g} Mbit/s of payload, batch 1"
        f"{faster if DILATION != 1 else ''}. p99 of fewer than 100 samples is nearly the largest."
    )
    described = runs / "split.json"
    if described.exists():
        told = json.loads(described.read_text())
        versions = ", ".join(f"{name} {value}" for name, value in told["versions"].items())
        to.print(f"{told['machine']['processor']}, {versions}, {told['started']}")
    for started, share in calibrations.items():
        state = "kept" if share <= 1 else "FAILED, not quoted"
        to.print(f"calibration of {started}: {share:.2f} of what it may be off, {state}")


def printed(network: str, own: Sequence[Row], table: Table) -> Printed:
    """The cells of a network."""
    made = Printed(title=network, box=None, title_justify="left")
    for name in HEADS:
        made.add_column(name, justify="left" if name in ("way", "wire") else "right")
    order = sorted(own, key=lambda row: (row.devices, row.way, row.wire, row.in_flight))
    for row in order:
        made.add_row(*cells(row, table))
    return made


def cells(row: Row, table: Table) -> list[str]:
    """A row as it is printed."""
    single = row.in_flight == 1
    factors = table.factors(row) if single else None
    return [
        *(str(row.devices), row.way, row.wire if row.devices > 1 else "", str(row.in_flight)),
        *(
            str(len(table.visits[row.key])),
            str(row.samples),
            f"{row.p50_ms:.1f}",
            f"{row.p99_ms:.1f}",
            f"{row.faster:.2f}" if single else "",
        ),
        str(factors) if factors else "",
        f"{row.reached:.0%}" if single and row.reached is not None else "",
        *(f"{row.throughput:.2f}", f"{row.more:.2f}"),
        *(f"{size / MB:.1f}" for size in (row.weights_bytes, row.activations_bytes)),
        *(f"{row.resident_bytes / MB:.0f}", f"{row.sent_bytes / MB:.3f}"),
        *(f"{row.waiting:.0%}", f"{row.image_ms:+.1f}", f"{row.largest_error:.0e}"),
        f"{row.same_class} of {row.answers}",
    ]


def weak_printed(weak: Sequence[Weak]) -> Printed:
    """The experiments with weak links and little memory."""
    made = Printed(title="weak links, little memory, scheme 3", box=None, title_justify="left")
    heads = ("experiment", "", "way", "boards", "wire", "in flight", "Mbit/s", "loss", "samples/s")
    for name in (*heads, "plain", "ratio", "killed", "resident", "error"):
        made.add_column(name)
    for one in weak:
        made.add_row(
            *(one.experiment, one.name, one.way, str(one.devices), one.wire, str(one.in_flight)),
            *(f"{one.megabits:.0f}", f"{one.loss:.0%}", f"{one.throughput:.2f}"),
            *(f"{one.plain_throughput:.2f}", f"{one.gain:.2f}" if one.plain_throughput else ""),
            *(str(one.killed), f"{one.resident_bytes / MB:.0f}", f"{one.largest_error:.0e}"),
        )
    return made
