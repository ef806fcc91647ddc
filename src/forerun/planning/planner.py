"""Which candidate is best, and why every other one lost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from forerun import levers, quantities
from forerun.compilers import variants
from forerun.errors import InputError
from forerun.factors import VARIANT, Factor, Space
from forerun.infrastructure import Infrastructure
from forerun.modelling.kept import model_of
from forerun.modelling.teaching import as_table, ratio_deviation
from forerun.planning.amounts import Amounts
from forerun.planning.candidates import Candidate, Roles, baseline, candidates
from forerun.planning.estimates import (
    SURE,
    Estimate,
    Estimator,
    Models,
    alone,
    cautions,
    predict,
)
from forerun.planning.memory import NOTE, beside_measured, room
from forerun.planning.pays import Pays, beside, pays
from forerun.planning.reasons import Considered, known, with_reasons
from forerun.planning.request import GOALS, Goal, Request
from forerun.planning.versions import version_notes
from forerun.study import Study

KEPT = 1_000  # candidates of a plan that are written down
CLOSE = 0.01  # loss up to which the simpler candidate is taken
FEWEST = 5  # runs that a model needs


@dataclass(frozen=True)
class Plan:
    """What was considered, the best first; what cannot work or must not be comes last."""

    request: Request
    infrastructure: Infrastructure
    considered: tuple[Considered, ...]
    refused: Mapping[str, int]  # why the others cannot be had, and how many of them
    notes: tuple[str, ...] = ()
    runs: int = 0  # of the study, that the model has learnt from
    pays: tuple[Pays, ...] = ()  # after how many steps compiling does, all else as chosen

    @property
    def chosen(self) -> Considered:
        """The best."""
        return self.considered[0]

    @property
    def count(self) -> int:
        """How many were considered."""
        return len(self.considered) + sum(self.refused.values())

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON holds it: the front, the best thousand, and counts of the rest."""
        front = [i for i, one in enumerate(self.considered) if one.on_front]
        return {
            "request": self.request.model_dump(mode="json", exclude_defaults=True),
            "infrastructure": self.infrastructure.name,
            "currency": self.infrastructure.currency,
            "runs": self.runs,
            "considered": self.count,
            "chosen": 0,
            "front": front,
            "candidates": [_document(one) for one in self.considered[:KEPT]],
            "refused": dict(self.refused),
            "pays": [one.to_dict() for one in self.pays],
            "notes": list(self.notes),
        }


def plan(request: Request, infrastructure: Infrastructure, study: Study) -> Plan:
    """The best configuration for a request, by what the study's model says of each."""
    space, seen = study.space, study.table("seconds")
    if len(seen) < FEWEST:
        expected = f"at least {FEWEST} that ended well: forerun measure, or --trial SECONDS"
        raise InputError(str(study.path), f"{len(seen)} runs", expected)
    every = Amounts(request, space).applied(candidates(request, infrastructure, space, seen))
    memory = model_of(study, "memory_bytes").model if "memory_bytes" in study.targets() else None
    models = Models(space, model_of(study).model, memory)
    possible, refused = _possible(request, every)
    points = [one.point for one in possible]
    found = predict(models, [*points, *(alone(space, point) for point in points)])
    estimator = Estimator(request, infrastructure, models, found)
    roles, judged = Roles(space), []
    for one in possible:
        estimate = estimator.estimate(one)
        feasible = bool(found.feasible[found.places[one.point]])
        partition = infrastructure.partition(one.partition)
        has = room(request, partition, roles, one.point, one.nodes, found.memory is not None)
        why_not = _breaks(request, infrastructure, one, estimate, has, feasible)
        if found.memory is not None and not why_not:
            why_not = beside_measured(request, partition, roles, one.point, one.nodes)
        if why_not:
            refused[_kind(why_not)] += 1
        judged.append(Considered(one, estimate, reason=why_not))
    fine = [one for one in judged if not one.reason]
    if not fine:
        raise InputError(f"request {request.name}", *_unmet(infrastructure, judged))
    ranked = _ranked(request, models, fine)
    best = known(ranked[0])
    warned = (*best.cautions, *cautions(models, ranked[0].candidate))
    first = replace(ranked[0], estimate=replace(best, cautions=warned))
    told = with_reasons(request, infrastructure, [first, *ranked[1:]])
    if len(told) > 1 and told[1].score > first.score and _may_be_equal(models, first, told[1]):
        unsure = f"{told[0].reason}; the model cannot tell it from the next"
        told[0] = replace(told[0], reason=unsure)
    others = beside(models, first.candidate.point)
    compiled = pays(models, [*others, *(one.candidate.point for one in told[:KEPT])])
    return Plan(
        request,
        infrastructure,
        tuple(replace(one, pays=compiled.get(one.candidate.point)) for one in told),
        dict(refused),
        (*_notes(request), *([NOTE] if models.memory is None and request.network else [])),
        len(seen),
        tuple(compiled[point] for point in others if point in compiled),
    )


def unmeasured(request: Request, infrastructure: Infrastructure) -> Plan:
    """What could be run where nothing was measured: unranked, what is wished for first."""
    known_variants = variants(request.application.framework)
    names = list(request.application.commands) or [one.name for one in known_variants]
    given = [Factor.parse(f"{name}={v}") for name, v in {**request.free, **request.fixed}.items()]
    is_named = not request.application.commands and any(one.role == "compiler" for one in given)
    if len(names) > 1 and not is_named:
        given.append(Factor(VARIANT, "categorical", values=tuple(names)))
    seen = pd.DataFrame({VARIANT: names})
    every = candidates(request, infrastructure, Space(given), seen, measured=False)
    possible, refused = _possible(request, every)
    wish = request.wishes.compiler
    order = sorted(possible, key=lambda one: not _is(one, wish))
    considered = tuple(
        Considered(one, reason="not measured" + (", as wished" if _is(one, wish) else ""))
        for one in order
    )
    notes = [*_notes(request), "nothing was measured: no ranking; --trial SECONDS measures"]
    return Plan(request, infrastructure, considered, dict(refused), tuple(notes))


def _notes(request: Request) -> tuple[str, ...]:
    return (*request.notes, *version_notes(request.application))


def _is(one: Candidate, wish: str | None) -> bool:
    return wish is not None and wish in (one.point.get(VARIANT), one.point.get("compiler"))


def _possible(request: Request, every: Sequence[Candidate]) -> tuple[list[Candidate], Counter[str]]:
    """The candidates that can work, and why the others cannot; InputError where none can."""
    possible = [one for one in every if not one.why_not]
    refused = Counter(one.why_not for one in every if one.why_not)
    if not possible:
        found = f"no candidate of {len(every)} that can work"
        raise InputError(
            f"request {request.name}", found, f"others: {refused.most_common(1)[0][0]}"
        )
    return possible, refused


def _breaks(
    request: Request,
    infrastructure: Infrastructure,
    one: Candidate,
    estimate: Estimate,
    room: float,
    feasible: bool,
) -> str:
    """Which constraint or limit a candidate breaks; empty where it keeps them all."""
    wanted, partition = request.constraints, infrastructure.partition(one.partition)
    seconds = quantities.seconds
    job = estimate.seconds - estimate.parts["wait"]
    limit = min(filter(None, (partition.limits.walltime, request.job.walltime)), default=math.inf)
    if not feasible:
        return "memory: runs like this one ran out of it"
    if job > limit:
        return f"walltime: {seconds(job)}, more than the {seconds(limit)} of {one.partition}"
    if wanted.deadline is not None and estimate.seconds > wanted.deadline:
        late = f"{seconds(estimate.seconds)}, more than {seconds(wanted.deadline)}"
        return f"deadline: {late}"
    if wanted.budget is not None and estimate.cost is not None and estimate.cost > wanted.budget:
        currency = infrastructure.currency
        return f"budget: {estimate.cost:.2f} {currency}, more than {wanted.budget:.2f} {currency}"
    if estimate.memory is not None and estimate.memory > room:
        need, have = (quantities.amount(x, "bytes") for x in (estimate.memory, room))
        return f"memory: a worker may need {need}, more than {have}"
    least = wanted.efficiency
    if least is not None and estimate.efficiency is not None and estimate.efficiency < least:
        return (
            f"efficiency: {quantities.percent(estimate.efficiency)}, "
            f"less than {quantities.percent(least)}"
        )
    return ""


def _kind(why_not: str) -> str:
    """Reasons that differ in a number alone are counted together."""
    return why_not.partition(":")[0]


def _unmet(infrastructure: Infrastructure, judged: Sequence[Considered]) -> tuple[str, str]:
    """That nothing keeps the constraints: what the cheapest and the fastest would take."""
    fastest = min(judged, key=lambda one: known(one).seconds)
    told = [f"the fastest takes {quantities.seconds(known(fastest).seconds)}"]
    priced = [one for one in judged if known(one).cost is not None]
    if priced:
        cheapest = min(priced, key=lambda one: known(one).cost or 0.0)
        told.append(f"the cheapest costs {known(cheapest).cost:.2f} {infrastructure.currency}")
    kinds = Counter(_kind(one.reason) for one in judged)
    most = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common(3))
    return f"nothing that keeps its constraints: {most}", f"other ones: {'; '.join(told)}"


def _ranked(request: Request, models: Models, fine: Sequence[Considered]) -> list[Considered]:
    """By score, the best first; a simpler candidate that is nearly as good goes before it."""
    for goal in (goal for goal in GOALS if request.objective.get(goal)):
        if any(known(one).amount(goal) is None for one in fine):
            word = {"cost": "prices", "energy": "power"}.get(goal, "times")
            found = f"no {word} for some partitions"
            raise InputError(f"objective {goal}", found, f"{word} in their description")
    amounts: list[dict[Goal, float]] = [
        {goal: float(known(one).amount(goal) or 0) for goal in request.objective} for one in fine
    ]
    best: dict[Goal, float] = {goal: min(one[goal] for one in amounts) for goal in amounts[0]}
    scored = [
        replace(one, score=request.score(amount, best))
        for one, amount in zip(fine, amounts, strict=True)
    ]
    scored.sort(key=lambda one: (one.score, _plainness(models, one.candidate)))
    close = [one for one in scored if one.score <= scored[0].score * (1 + CLOSE)]
    simplest = min(close, key=lambda one: _plainness(models, one.candidate))
    if simplest is not scored[0] and _may_be_equal(models, simplest, scored[0]):
        scored.remove(simplest)
        scored.insert(0, simplest)
    return _with_front(scored)


def _may_be_equal(models: Models, one: Considered, other: Considered) -> bool:
    """Whether the interval of the ratio of the two holds 1."""
    if one.candidate.point == other.candidate.point:
        return True
    tables = (as_table([each.candidate.point], models.space) for each in (one, other))
    deviation = float(ratio_deviation(models.seconds, models.space, *tables)[0])
    return abs(math.log(one.score / other.score)) <= SURE * deviation


def _plainness(models: Models, one: Candidate) -> tuple[float, ...]:
    """What a person would try first sorts first: few nodes and workers, nothing compiled or set."""
    roles = Roles(models.space)
    variant = 0.0
    if VARIANT in one.point:
        names = [str(level) for level in models.space[VARIANT].values]
        variant = float(str(one.point[VARIANT]) != baseline(names))
    pulled = float(sum(not levers.is_plain(name, value) for name, value in one.point.items()))
    counts = (float(roles.count(one.point, role)) for role in ("workers", "threads"))
    return (float(one.nodes), float(one.staged), variant, pulled, *counts)


def _with_front(scored: Sequence[Considered]) -> list[Considered]:
    """Marked where nothing takes both less time and less money."""
    order = sorted(
        range(len(scored)),
        key=lambda i: (known(scored[i]).seconds, known(scored[i]).cost or 0.0),
    )
    marked, least = list(scored), math.inf
    for i in order:
        cost = known(scored[i]).cost or 0.0
        if cost < least:
            least = cost
            marked[i] = replace(scored[i], on_front=True)
    return marked


def _document(one: Considered) -> dict[str, Any]:
    where = _where(one.candidate)
    if one.estimate is None:
        return {**where, "reason": one.reason}
    estimate = one.estimate
    return {
        **where,
        "seconds": estimate.seconds,
        "low": estimate.low,
        "high": estimate.high,
        "parts": estimate.parts,
        "cost": estimate.cost,
        "joules": estimate.joules,
        "memory_bytes": estimate.memory,
        "efficiency": estimate.efficiency,
        "score": one.score,
        "reason": one.reason,
        "pays": one.pays and one.pays.to_dict(),
        "cautions": list(estimate.cautions),
    }


def _where(one: Candidate) -> dict[str, Any]:
    return {
        "point": dict(one.point),
        "partition": one.partition,
        "nodes": one.nodes,
        "storage": one.storage,
        "staged": one.staged,
    }
