"""Plans as files: written with a seal, read back as what a deployment is made from.

A plan is sealed with the user's key (see `_seal`): one that somebody else made or changed is shown
before it is run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from forerun import _outputs
from forerun._documents import Count, NotNegative, Table, read_json, validated
from forerun._seal import is_sealed, sealed
from forerun.errors import InputError
from forerun.factors import Point, Space, Value
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate
from forerun.planning.estimates import Estimate
from forerun.planning.planner import FORMAT, Plan
from forerun.planning.reasons import Considered
from forerun.planning.request import Request

if TYPE_CHECKING:
    from forerun.planning.inference import InferencePlan

SEAL = "seal"  # the field of a written plan that is not sealed itself
_LONGEST = 2**26  # bytes: a plan of a thousand candidates is far shorter
_WRITES_IT = "a plan as forerun plan -o writes it"

# Of seconds, bytes or money: more than there are, and what is counted from it stays finite.
Amount = Annotated[NotNegative, Field(le=1e18)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Candidate(Table):
    """A candidate as a plan's file holds it."""

    point: dict[str, Value]
    partition: str
    nodes: Count
    storage: str
    staged: bool
    reason: str
    seconds: Amount | None = None  # this and the rest: None where nothing was measured
    low: Amount = 0.0
    high: Amount = 0.0
    parts: dict[str, Amount] = Field(default_factory=dict)
    cost: Amount | None = None
    joules: Amount | None = None
    memory_bytes: Amount | None = None
    efficiency: Amount | None = None
    score: Finite = 0.0
    pays: dict[str, Any] | None = None
    cautions: list[str] = Field(default_factory=list)

    def considered(self, on_front: bool) -> Considered:
        """What the planner made of it."""
        where = Candidate(Point(self.point), self.partition, self.nodes, self.storage, self.staged)
        if self.seconds is None:
            return Considered(where, reason=self.reason)
        estimate = Estimate(
            self.seconds,
            self.low,
            self.high,
            dict(self.parts),
            self.cost,
            self.joules,
            self.memory_bytes,
            self.efficiency,
            tuple(self.cautions),
        )
        return Considered(where, estimate, self.score, self.reason, on_front)


class _Document(Table):
    """A plan's file."""

    format: int
    forerun: str
    request: dict[str, Any]
    infrastructure: dict[str, Any]
    factors: list[dict[str, Any]]
    currency: str
    runs: Annotated[int, Field(ge=0)]
    considered: Count
    chosen: Annotated[int, Field(ge=0, le=0)]
    front: list[int]
    candidates: Annotated[list[_Candidate], Field(min_length=1)]
    refused: dict[str, int]
    refused_examples: list[dict[str, Any]]
    pays: list[dict[str, Any]]
    notes: list[str]


@dataclass(frozen=True)
class WrittenPlan:
    """A plan of a file, and whether this user made it."""

    path: Path
    plan: Plan
    is_ours: bool


def write_plan(plan: Plan | InferencePlan, path: Path) -> None:
    """Write the plan there, whole or not at all, with this user's seal where one can be kept."""
    document = plan.to_dict()
    try:
        seal = sealed(_text(document))
    except ValueError:
        found = "a number that is not finite"
        raise InputError("the plan", found, "numbers that JSON can hold") from None
    written = document if seal is None else {**document, SEAL: seal}
    _outputs.write(path, f"{json.dumps(written, indent=2, ensure_ascii=False)}\n".encode())


def plan_document(path: Path) -> dict[str, Any]:
    """What a plan's file holds, whatever it is for; InputError where it is none, or newer."""
    if path.suffix in (".yaml", ".yml"):
        raise InputError(str(path), "a YAML file", f"{_WRITES_IT}; a request becomes one by it")
    document = read_json(path, _LONGEST)
    if not {"request", "candidates"} <= document.keys():
        raise InputError(str(path), "a file that is no plan", _WRITES_IT)
    version = document.get("format")
    if version is None:
        found = "a plan of an earlier forerun, without what it is to run on"
        raise InputError(str(path), found, _WRITES_IT)
    if isinstance(version, int) and version > FORMAT:
        raise InputError(str(path), f"format {version}", f"{FORMAT} at most; a newer forerun")
    return document


def read_plan(path: Path) -> WrittenPlan:
    """The plan of a file; InputError, in one line, where it is none, newer or damaged."""
    document = plan_document(path)
    seal = document.pop(SEAL, None)
    if document.get("task") == "inference":
        expected = "a plan of a training; forerun split cut --plan makes packages of this one"
        raise InputError(str(path), "a plan for boards", expected)
    plan = _plan_of(document, f"{path}: ")
    try:
        text = _text(document)
    except ValueError:
        raise InputError(str(path), "a number that is not finite", _WRITES_IT) from None
    return WrittenPlan(path, plan, isinstance(seal, str) and is_sealed(text, seal))


def digest_of(plan: Plan) -> str:
    """SHA-256 over all that a plan says, the same for the plan that is read back."""
    document = plan.to_dict()
    said = {name: document[name] for name in ("request", "infrastructure", "factors", "candidates")}
    for one in said["candidates"]:
        one.pop("pays", None)  # which is not read back
    return hashlib.sha256(_text(said).encode()).hexdigest()


def _text(document: Mapping[str, Any]) -> str:
    """What is sealed: the same whatever the order of fields and the blanks between them."""
    return "plan " + json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plan_of(document: Mapping[str, Any], where: str) -> Plan:
    found = validated(_Document, document, where)
    request = validated(Request, found.request, f"{where}request.")
    infrastructure = validated(Infrastructure, found.infrastructure, f"{where}infrastructure.")
    try:
        space = Space.from_dict({"factors": found.factors})
        front = set(found.front)
        considered = tuple(
            one.considered(place in front) for place, one in enumerate(found.candidates)
        )
    except (TypeError, ValueError, AttributeError) as error:  # any shape is possible
        raise InputError(where.rstrip(": "), f"damage ({error})", _WRITES_IT) from None
    data, stores = request.data, infrastructure.storage
    if data is not None and data.at and stores and data.at not in stores:
        raise InputError(f"{where}request.data.at", data.at, f"one of {', '.join(stores)}")
    for number, one in enumerate(considered, start=1):
        _check(one.candidate, infrastructure, space, f"{where}candidate {number}")
    return Plan(
        request,
        infrastructure,
        considered,
        dict(found.refused),
        tuple(found.notes),
        found.runs,
        space=space,
    )


def _check(candidate: Candidate, infrastructure: Infrastructure, space: Space, where: str) -> None:
    """InputError unless what it says is there."""
    if candidate.partition not in infrastructure.partitions:
        listed = ", ".join(infrastructure.partitions)
        raise InputError(f"{where}, partition", candidate.partition, f"one of {listed}")
    if candidate.storage and candidate.storage not in infrastructure.storage:
        listed = ", ".join(infrastructure.storage)
        raise InputError(f"{where}, storage", candidate.storage, f"one of {listed}")
    try:
        space.check(candidate.point, levels=False)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
