"""What is claimed of split networks, in words and figures, and whether it holds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from split_rows import Row, Table
from split_ways import TOLERANCE
from split_weak_rows import Weak

SHOWN, BOARDS = "resnet-50", 4
EXACT, DECOUPLED, CEILING = 2.4, 3.21, 0.85
REPLICAS = 4.0  # times the throughput of one, of as many dense replicas as boards
INT8 = 2.2
LESS_MEMORY, LESS_RESIDENT = 0.653, 0.60
MEMORY_LIMIT = 128_000_000  # bytes
HIDDEN, NEVER_BELOW = 1.6, 0.97
KEPT = 0.80
SLOWER = 1.05  # times what its arithmetic takes
LOSSES = (0.01, 0.03)


@dataclass(frozen=True)
class Claim:
    """A sentence, and whether it is true; None: not measured."""

    text: str
    holds: bool | None

    def __str__(self) -> str:
        told = {True: "holds", False: "does not hold", None: "not measured"}
        return f"{self.text}: {told[self.holds]}"


def claims(table: Table, weak: Iterable[Weak]) -> list[Claim]:
    """All of them, of ResNet-50 on four boards unless they say otherwise."""
    experiments = list(weak)
    return [
        *latency(table),
        *throughput(table),
        *precision(table),
        *memory(table, experiments),
        *scheme_3(table, experiments),
        *weak_links(experiments),
        *answers(table, experiments),
        *baseline(table),
    ]


def latency(table: Table) -> Iterator[Claim]:
    """Times as fast as dense float32 on one board, and the share of what arithmetic allows."""
    for name, way, wire, least in (
        ("exact, float32 on the wire", "exact", "float32", EXACT),
        ("DeCNN x1.75, int8 on the wire", "decnn-1.75", "int8", DECOUPLED),
    ):
        row = table.get(SHOWN, BOARDS, way, wire)
        yield judged(f"{name}, times as fast", row, lambda r: r.faster, least)
        yield judged(f"{name}, share of its ceiling", row, lambda r: r.reached, CEILING)


def throughput(table: Table) -> Iterator[Claim]:
    """Scheme 3 beside as many dense replicas as boards."""
    found = [table.get(SHOWN, BOARDS, "decnn-1.75", wire, True) for wire in TOLERANCE]
    best = max((row for row in found if row), key=lambda row: row.more, default=None)
    wire = f" ({best.wire} on the wire)" if best else ""
    name = f"throughput of DeCNN x1.75 with scheme 3{wire}, times one board's"
    yield judged(name, best, lambda r: r.more, REPLICAS)
    replicas = table.get(SHOWN, BOARDS, "replicas", busy=True)
    holds = None if best is None or replicas is None else best.throughput > replicas.throughput
    told = "-" if replicas is None else f"{replicas.more:.2f}"
    yield Claim(f"and more than four dense replicas, measured {told}", holds)


def precision(table: Table) -> Iterator[Claim]:
    """Arithmetic in int8, on four boards and on one."""
    one = table.get(SHOWN, 1, "dense int8")
    found = [table.get(SHOWN, BOARDS, "exact int8", wire) for wire in TOLERANCE]
    best = max((row for row in found if row), key=lambda row: row.faster, default=None)
    value = None if one is None or best is None else best.faster / one.faster
    wire = f", {best.wire} on the wire" if best else ""
    yield least(f"the same network computed in int8{wire}, times as fast as on one", value, INT8)


def memory(table: Table, weak: list[Weak]) -> Iterator[Claim]:
    """What a device of DeCNN needs, beside dense on one."""
    dense, row = table.get(SHOWN, 1, "dense"), table.get(SHOWN, BOARDS, "decnn-1.75", "int8")
    for name, column, share in (
        ("weights and peak activations", "memory_bytes", LESS_MEMORY),
        ("peak resident memory of a device's process", "resident_bytes", LESS_RESIDENT),
    ):
        value = None
        if dense is not None and row is not None:
            value = 1 - getattr(row, column) / getattr(dense, column)
        yield least(f"DeCNN x1.75, {name}, share below dense", value, share)
    limited = {one.way: one for one in weak if one.experiment == "memory"}
    ours, theirs = limited.get("decnn-1.75"), limited.get("dense")
    text = f"DeCNN x1.75 answers on boards of {MEMORY_LIMIT / 1e6:.0f} MB"
    yield Claim(text, None if ours is None else ours.answers > 0 and not ours.killed)
    yield Claim("where dense on one is killed", None if theirs is None else theirs.killed > 0)


def scheme_3(table: Table, weak: list[Weak]) -> Iterator[Claim]:
    """What several samples in flight gain."""
    found = {one.name: one for one in weak if one.experiment == "scheme 3"}
    equal = found.pop("equal", None)
    value = None if equal is None else equal.gain
    at = f" ({equal.megabits:.0f} Mbit/s)" if equal else ""
    yield least(
        f"scheme 3 where compute and exchange take equal time{at}, times the throughput",
        value,
        HIDDEN,
    )
    gains = {f"{one.way} at {one.megabits:.0f} Mbit/s": one.gain for one in found.values()}
    for row in table.rows:
        before = table.get(row.network, row.devices, row.way, row.wire)
        if row.in_flight > 1 and row.devices > 1 and row.way != "replicas" and before:
            gains[f"{row.network} {row.way} on {row.devices}"] = row.throughput / before.throughput
    worst = min(gains, key=lambda name: gains[name], default=None)
    text = f"elsewhere at least ({worst})" if worst else "elsewhere at least"
    yield least(text, gains[worst] if worst else None, NEVER_BELOW)


def weak_links(weak: list[Weak]) -> Iterator[Claim]:
    """What is left of the throughput where frames are lost, or the rate swings."""
    for name, found in (
        *((f"loss of {share:.0%}", of(weak, "loss", share)) for share in LOSSES),
        ("a rate that swings between 10 and 100 Mbit/s", of(weak, "swing")),
    ):
        value = None if found is None else found.gain
        yield least(f"{name}, share of the mean rate's throughput", value, KEPT)


def of(weak: list[Weak], experiment: str, loss: float = 0.0) -> Weak | None:
    """An experiment of DeCNN, if it was made."""
    kind = (one for one in weak if one.experiment == experiment and one.loss == loss)
    return next((one for one in kind if one.way == "decnn-1.75"), None)


def answers(table: Table, weak: list[Weak]) -> Iterator[Claim]:
    """That every answer was right, to what the bits on the wire and in the arithmetic allow."""
    all_rows = [row for visits in table.visits.values() for row in visits]
    found: list[Row | Weak] = [*all_rows, *(one for one in weak if one.answers)]
    off = [(one.largest_error / tolerance(one), one) for one in found]
    worst = max(off, key=lambda pair: pair[0], default=None)
    compared = sum(one.answers for one in found)
    told = "" if worst is None else f" ({worst[1].way}, {worst[1].largest_error:.1e} off)"
    text = f"all of {compared} answers are within what their bits allow, in order, the worst{told}"
    yield Claim(text, None if worst is None else worst[0] <= 1)
    # With random weights classes lie close together: fewer bits may tell them apart otherwise.
    exact = [row for row in all_rows if tolerance(row) == TOLERANCE["float32"]]
    wrong = [row for row in exact if row.same_class < row.answers]
    told = f", but for {', '.join(f'{row.network} {row.way}' for row in wrong)}" if wrong else ""
    text = f"all of {sum(row.answers for row in exact)} in float32 say the same class{told}"
    yield Claim(text, not wrong if exact else None)


def baseline(table: Table) -> Iterator[Claim]:
    """That dense on one board is not slower than its arithmetic: all speed-ups stand on that."""
    shares: dict[str, list[float]] = {}
    for row in table.rows:
        shares.setdefault(row.network, []).append(row.baseline_p50_ms / row.baseline_alone_ms)
    found = {network: statistics.median(some) for network, some in shares.items()}
    worst = max(found, key=lambda name: found[name], default=None)
    told = "-" if worst is None else f"{found[worst]:.3f} ({worst})"
    text = f"dense on one board takes its arithmetic alone times {told} (at most {SLOWER:g})"
    yield Claim(text, None if worst is None else found[worst] <= SLOWER)


def tolerance(one: Row | Weak) -> float:
    """The largest error that a way may make: twice as much where bytes go through int8 layers."""
    if not one.way.endswith("int8"):
        return TOLERANCE[one.wire]
    return TOLERANCE["int8"] * (2 if one.wire == "int8" else 1)


def judged(text: str, row: Row | None, take: Callable[[Row], float | None], limit: float) -> Claim:
    """A claim on one row."""
    return least(text, None if row is None else take(row), limit)


def least(text: str, value: float | None, limit: float) -> Claim:
    """A claim that a figure is at least so much."""
    told = "-" if value is None else f"{value:.3f}"
    return Claim(f"{text} {told} (claim {limit:g})", None if value is None else value >= limit)
