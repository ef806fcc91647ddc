"""What a description of a network holds, however it was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperatorTotal:
    """All layers of one operator together."""

    operator: str
    layers: int
    macs: int
    activation_bytes: int


@dataclass(frozen=True, slots=True)
class Description:
    """One forward pass of a network, in numbers."""

    source: str
    macs: int  # multiply-accumulates: one multiplication and one addition count as one
    parameters: int  # trained numbers
    parameter_bytes: int
    activation_bytes: int  # written by all layers together, views aside
    inputs: Mapping[str, Shape]
    operators: tuple[OperatorTotal, ...]  # most multiply-accumulates first
    notes: tuple[str, ...] = ()  # what was not counted, or only guessed

    @property
    def factors(self) -> dict[str, int]:
        """The figures that make intrinsic factors."""
        return {
            "macs": self.macs,
            "parameters": self.parameters,
            "activation_bytes": self.activation_bytes,
        }


class Tally:
    """Sums up layers as they are met."""

    def __init__(self) -> None:
        self._totals: dict[str, tuple[int, int, int]] = {}

    def add(self, operator: str, macs: int, activation_bytes: int, layers: int = 1) -> None:
        """Count a layer, or more work of one that is counted (`layers=0`)."""
        before = self._totals.get(operator, (0, 0, 0))
        self._totals[operator] = (
            before[0] + layers,
            before[1] + macs,
            before[2] + activation_bytes,
        )

    def add_all(self, other: Tally) -> None:
        """Count everything that another has counted."""
        for operator, (layers, macs, size) in other._totals.items():
            self.add(operator, macs, size, layers)

    @property
    def macs(self) -> int:
        """All multiply-accumulates."""
        return sum(macs for _, macs, _ in self._totals.values())

    @property
    def activation_bytes(self) -> int:
        """All bytes that were written."""
        return sum(size for _, _, size in self._totals.values())

    def operators(self) -> tuple[OperatorTotal, ...]:
        """What was counted, most multiply-accumulates first, then most bytes."""
        totals = [OperatorTotal(name, *counts) for name, counts in self._totals.items()]
        return tuple(sorted(totals, key=lambda t: (-t.macs, -t.activation_bytes, t.operator)))
