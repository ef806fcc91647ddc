"""A candidate of a plan for boards, read from the plan's file, as it is to be cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forerun._documents import Count, NotNegative, Table, validated
from forerun.errors import InputError
from forerun.planning.inference_ways import ONE, REPLICAS
from forerun.planning.plans import Amount, plan_document
from forerun.splitting.graph import Graph
from forerun.splitting.layers import Precision, Wire
from forerun.splitting.layout import Layout
from forerun.splitting.mixtures import layout_of


class _Layout(Table, extra="allow"):
    """A layout in words, with how `cut` is to make it."""

    name: str
    early: NotNegative = 0.0


class PlannedSplit(Table, extra="ignore"):
    """What a plan says of how a network is to be cut and run."""

    way: str
    digest: str  # of the network
    boards: str
    devices: Count
    precision: Precision
    wire: Wire
    in_flight: Count
    seconds: Amount
    low: Amount
    high: Amount
    layout: _Layout | None = None  # None where each device has all of the network
    file: str = ""  # of the network, when the plan was made

    def layout_for(self, graph: Graph) -> tuple[str | Layout, float]:
        """The layout, or the name of one, and what is computed early, as `split` takes them."""
        if self.way in (ONE, REPLICAS):
            return REPLICAS if self.way == REPLICAS else "whole", 0.0
        if self.layout is None:
            raise InputError(f"layout of {self.way}", "none", "one")
        made = layout_of(graph, self.layout.model_dump(), f"layout of {self.way}")
        if made.devices != self.devices:
            raise InputError(
                f"layout of {self.way}", f"{made.devices} shares", f"{self.devices}: one a device"
            )
        return made, self.layout.early


class _Document(Table, extra="ignore"):
    """What is read of a plan's file."""

    networks: dict[str, str]
    candidates: list[dict[str, Any]]


def read_split(path: Path, number: int | None = None) -> PlannedSplit:
    """The candidate that a plan has chosen, or the one of that number, from 1."""
    document = plan_document(path)
    if document.get("task") != "inference":
        expected = "a plan for boards, of a request with task: inference"
        raise InputError(str(path), "a plan of a training", expected)
    plan = validated(_Document, document, f"{path}: ")
    if not plan.candidates:
        expected = "a plan with a candidate; forerun plan says what each way lacks"
        raise InputError(str(path), "nothing that can be chosen", expected)
    place = 1 if number is None else number
    if not 1 <= place <= len(plan.candidates):
        raise InputError(f"{path}: candidate", place, f"a number from 1 to {len(plan.candidates)}")
    found = validated(PlannedSplit, plan.candidates[place - 1], f"{path}: candidate {place}: ")
    if found.digest not in plan.networks:
        raise InputError(f"{path}: candidate {place}: digest", found.digest, "one of its networks")
    return found.model_copy(update={"file": plan.networks[found.digest]})
