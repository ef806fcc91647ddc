"""What a report says of networks that were split: sentences and rows, for the page's template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forerun.quantities import amount, large, number, percent
from forerun.splitting.measured import WHOLE

if TYPE_CHECKING:
    from forerun.splitting.measured import DeviceShare, Measured


_SPLIT = "split"  # the column that is always there of what a setting is; others where they differ
_NONE = "–"
MEASURES = ("p50", "p99", "per s", "memory", "sent", "waits", "off by")
SHARE_COLUMNS = ("multiply-accumulates", "weights", "peak activations", "sent", "memory")


@dataclass(frozen=True, slots=True)
class Part:
    """What one device has of a network, with its share of all multiply-accumulates."""

    device: int
    share: float
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """One network cut over devices in one way, whatever it was then run with."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """All that a page says of splits."""

    agreement: str
    speed: str
    samples: int
    hosts: str
    columns: tuple[str, ...]
    words: int  # how many of the columns, the first ones, say what was run
    rows: tuple[tuple[str, ...], ...]
    cuts: tuple[Cut, ...]
    share_columns: tuple[str, ...] = SHARE_COLUMNS


def section(splits: Sequence[Measured]) -> Section | None:
    """What is said of some splits; None where there are none."""
    if not splits:
        return None
    hosts = dict.fromkeys(one.host for one in splits if one.host)
    settings = [_setting(one) for one in splits]
    shown = [
        name
        for name in settings[0]
        if name == _SPLIT or len({setting[name] for setting in settings} - {_NONE}) > 1
    ]
    return Section(
        agreement(splits),
        speed(splits),
        max(one.samples for one in splits),
        ", ".join(hosts) or "an unnamed machine",
        (*shown, *MEASURES),
        len(shown),
        tuple(
            (*(setting[name] for name in shown), *_measures(one))
            for setting, one in zip(settings, splits, strict=True)
        ),
        tuple(cuts(splits)),
    )


def cuts(splits: Iterable[Measured]) -> list[Cut]:
    """The devices' shares of each cut over several devices, once."""
    found: dict[tuple[object, ...], Measured] = {}
    for one in splits:
        if one.devices > 1:
            found.setdefault((one.network, one.layout, one.devices, one.precision), one)
    return [_cut(one) for one in found.values()]


def _cut(one: Measured) -> Cut:
    total = sum(share.macs for share in one.shares) or 1
    precise = "" if one.precision == "float32" else f", {one.precision}"
    return Cut(
        f"{one.network} over {one.devices} devices, {one.layout}{precise}",
        tuple(Part(s.device, s.macs / total, _share_row(s)) for s in one.shares),
    )


def agreement(splits: Sequence[Measured]) -> str:
    """How far the answers of several devices are from those that they were compared with."""
    compared = [one for one in splits if one.devices > 1 and one.difference is not None]
    if not compared:
        return "The answers were not compared with those of the whole network."
    told: list[str] = []
    for reference in dict.fromkeys(one.reference for one in compared):
        own = [one for one in compared if one.reference == reference]
        told.append(_agreed("Other" if told else "Their", own, _whose(reference)))
    return " ".join(told)


def _whose(reference: str | None) -> str:
    """The answers that others were compared with; who reads an older study knows no more."""
    if reference is None:
        return "those that they were compared with"
    return "the whole network's" if reference == WHOLE else f"those of {reference}"


def _agreed(whose: str, compared: Sequence[Measured], right: str) -> str:
    """How far answers that were compared with the same ones are from these."""
    worst = max(one.difference or 0.0 for one in compared)
    told = (
        f"{whose} answers differ from {right} by at most {number(worst, 2)} of the largest number"
    )
    if worst == 0:
        told = f"{whose} answers are {right}, to the last bit"
    classed = [one for one in compared if one.same_class is not None]
    if not classed:
        return f"{told}."
    samples, same = sum(o.samples for o in classed), sum(o.same_class or 0 for o in classed)
    agreed = f"all {samples}" if same == samples else f"{same} of {samples}"
    return f"{told}; the class is the same for {agreed} samples."


def speed(splits: Sequence[Measured]) -> str:
    """How the soonest answer of several devices compares with that of one; empty without both."""
    told = []
    for network in dict.fromkeys(one.network for one in splits):
        own = [one for one in splits if one.network == network]
        alone = [one.p50 for one in own if one.devices == 1]
        together = [one for one in own if one.devices > 1]
        if alone and together:
            best = min(together, key=lambda one: one.p50)
            times = number(min(alone) / best.p50, 2)
            split = f"{best.layout} on {best.devices}"
            told.append(
                f"{network}: the soonest answer of several is {times} times as soon"
                f" as that of one device ({split})."
            )
    return " ".join(told)


def _setting(one: Measured) -> dict[str, str]:
    """What was run, and how."""
    return {
        "network": one.network,
        _SPLIT: f"{one.layout} on {one.devices}",
        "precision": one.precision,
        "wire": one.wire if one.devices > 1 else _NONE,
        "in flight": str(one.in_flight),
    }


def _measures(one: Measured) -> tuple[str, ...]:
    """What it took, in the order of `MEASURES`."""
    return (
        amount(one.p50),
        amount(one.p99),
        number(one.per_second),
        _known(one.memory_bytes),
        amount(one.sent_bytes, "bytes"),
        _NONE if one.waiting is None else percent(one.waiting),
        _NONE if one.difference is None else number(one.difference, 2),
    )


def _share_row(share: DeviceShare) -> tuple[str, ...]:
    """What a device has, in the order of `SHARE_COLUMNS`."""
    return (
        large(share.macs),
        amount(share.weights_bytes, "bytes"),
        amount(share.activations_bytes, "bytes"),
        amount(share.sent_bytes, "bytes"),
        _known(share.memory_bytes),
    )


def _known(count: float | None) -> str:
    return _NONE if count is None else amount(count, "bytes")
