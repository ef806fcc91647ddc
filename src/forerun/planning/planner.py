"""Which candidate is best, and why every other one lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

import pandas as pd

from forerun import __version__, quantities
from forerun.compilers import variants
from forerun.errors import InputError
from forerun.factors import VARIANT, Factor, Space
from forerun.infrastructure import Infrastructure
from forerun.modelling.kept import model_of
from forerun.planning.amounts import Amounts
from forerun.planning.candidates import Candidate, candidates
from forerun.planning.cautions import cautions_of
from forerun.planning.constraints import Rules
from forerun.planning.estimates import Estimator, Models, alone, predict
from forerun.planning.inference_request import InferenceRequest
from forerun.planning.memory import NOTE
from forerun.planning.pays import Pays, beside, pays
from forerun.planning.ranking import may_be_equal, ranked
from forerun.planning.reasons import Considered, known, with_reasons
from forerun.planning.request import Request
from forerun.planning.versions import version_notes
from forerun.study import Study

if TYPE_CHECKING:
    from forerun.planning.inference import InferencePlan

FORMAT = 1  # of the document that a plan is written as
KEPT = 1_000  # candidates of a plan that are written down
EXAMPLES = 100  # of those that are refused, too
FEWEST = 5  # runs that a model needs
MEMORY = "memory_bytes"


@dataclass(frozen=True)
class Plan:
    """What can be had, the best first; of what cannot, how many for which reason, and some."""

    request: Request
    infrastructure: Infrastructure
    considered: tuple[Considered, ...]  # without those that are refused
    refused: Mapping[str, int]  # why the others cannot be had, and how many of them
    notes: tuple[str, ...] = ()
    runs: int = 0  # of the study, that the model has learnt from
    pays: tuple[Pays, ...] = ()  # after how many steps compiling does, all else as chosen
    examples: tuple[Considered, ...] = ()  # of what is refused, for each reason in turn
    space: Space = field(default_factory=Space)  # the factors of its points

    @property
    def chosen(self) -> Considered:
        """The best."""
        return self.considered[0]

    @property
    def count(self) -> int:
        """How many were considered."""
        return len(self.considered) + sum(self.refused.values())

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON holds it: the best thousand, the front, and counts of the rest."""
        kept = _kept(self.considered)
        return {
            "format": FORMAT,
            "forerun": __version__,
            "request": self.request.absolute().model_dump(mode="json", exclude_defaults=True),
            "infrastructure": self.infrastructure.model_dump(mode="json", exclude_defaults=True),
            **self.space.to_dict(),
            "currency": self.infrastructure.currency,
            "runs": self.runs,
            "considered": self.count,
            "chosen": 0,
            "front": [place for place, one in enumerate(kept) if one.on_front],
            "candidates": [_document(one) for one in kept],
            "refused": dict(self.refused),
            "refused_examples": [
                {**_where(one.candidate), "reason": one.reason} for one in self.examples
            ],
            "pays": [one.to_dict() for one in self.pays],
            "notes": list(self.notes),
        }


@overload
def plan(
    request: InferenceRequest, infrastructure: Infrastructure, study: Study | None = None
) -> InferencePlan: ...
@overload
def plan(request: Request, infrastructure: Infrastructure, study: Study | None = None) -> Plan: ...
def plan(
    request: Request | InferenceRequest,
    infrastructure: Infrastructure,
    study: Study | None = None,
) -> Plan | InferencePlan:
    """The best configuration for a request, by what the study's model says of each.

    Without a study it is the request's own; where that names none, candidates are not ranked. For a
    network that is to run on boards it is a study of timed layers.
    """
    if isinstance(request, InferenceRequest):
        from forerun.planning.inference import plan_inference  # late: it needs onnx

        return plan_inference(request, infrastructure, study)
    if study is None:
        if request.study is None:
            return unmeasured(request, infrastructure)
        study = Study.open(request.study)
    return _plan(request, infrastructure, study)


def _plan(request: Request, infrastructure: Infrastructure, study: Study) -> Plan:
    space, seen = study.space, study.table("seconds")
    if len(seen) < FEWEST:
        expected = f"at least {FEWEST} that ended well: forerun measure, or --trial SECONDS"
        raise InputError(str(study.path), f"{len(seen)} runs", expected)
    every = Amounts(request, space).applied(candidates(request, infrastructure, space, seen))
    memory = model_of(study, MEMORY).model if _is_measured(study, MEMORY) else None
    models = Models(space, model_of(study).model, memory)
    possible, refused = _possible(request, every)
    points = [one.point for one in possible]
    found = predict(models, [*points, *(alone(models.roles, point) for point in points)])
    estimator = Estimator(request, infrastructure, models, found)
    rules = Rules(request, infrastructure, models.roles, found.memory is not None)
    estimates = [estimator.estimate(one) for one in possible]
    rules.check(estimates)
    judged = []
    for one, estimate in zip(possible, estimates, strict=True):
        why_not = rules.broken(one, estimate)
        if not found.feasible[found.places[one.point]]:
            why_not = "memory: runs like this one ran out of it"
        if why_not:
            refused[_kind(why_not)] += 1
        warned = (*estimate.cautions, *rules.cautions(estimate))
        judged.append(Considered(one, replace(estimate, cautions=warned), reason=why_not))
    fine = [one for one in judged if not one.reason]
    if not fine:
        raise InputError(f"request {request.name}", *_unmet(infrastructure, judged))
    order = _warned(models, ranked(request, models, fine))
    told = with_reasons(request, infrastructure, order)
    first = told[0]
    if (
        len(told) > 1
        and told[1].score > first.score
        and may_be_equal(request, models, first, told[1])
    ):
        unsure = f"{first.reason}; the model cannot tell it from the next"
        told[0] = replace(first, reason=unsure)
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
        _examples(every, judged),
        space,
    )


def unmeasured(request: Request, infrastructure: Infrastructure) -> Plan:
    """What could be run where nothing was measured: unranked, what is wished for first."""
    known_variants = variants(request.application.framework)
    names = list(request.application.commands) or [one.name for one in known_variants]
    given = [Factor.parse(f"{name}={v}") for name, v in {**request.free, **request.fixed}.items()]
    is_named = not request.application.commands and any(one.role == "compiler" for one in given)
    named = request.choices(VARIANT)
    for one in () if named is None or not request.application.commands else named:
        if one not in names:
            raise InputError(VARIANT, one, f"one of the commands {', '.join(names)}")
    if len(names) > 1 and not is_named and named is None:
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
    return Plan(
        request,
        infrastructure,
        considered,
        dict(refused),
        tuple(notes),
        examples=_examples(every, ()),
        space=Space(given),
    )


def _is_measured(study: Study, target: str) -> bool:
    """Whether enough runs have it: a job that was deployed may be the only one."""
    return target in study.targets() and len(study.table(target)) >= FEWEST


def _kept(considered: Sequence[Considered]) -> list[Considered]:
    """Those that are written down: the best, and after them whatever else is on the front."""
    return [*considered[:KEPT], *(one for one in considered[KEPT:] if one.on_front)]


def _warned(models: Models, order: list[Considered]) -> list[Considered]:
    """With a word where the model goes beyond what was measured, for those that are kept."""
    lines = cautions_of(models, [one.candidate.point for one in _kept(order)])
    warned = []
    for one in order:
        estimate, more = known(one), lines.get(one.candidate.point, ())
        cautions = (*estimate.cautions, *more)
        warned.append(replace(one, estimate=replace(estimate, cautions=cautions)) if more else one)
    return warned


def _examples(every: Sequence[Candidate], judged: Sequence[Considered]) -> tuple[Considered, ...]:
    """Some of those that are refused: the first of each reason, then the second, and so on."""
    refused = [one for one in judged if one.reason]
    refused += [Considered(one, reason=one.why_not) for one in every if one.why_not]
    counts: Counter[str] = Counter()
    turns = []
    for place, one in enumerate(refused):
        kind = _kind(one.reason)
        turns.append((counts[kind], place))
        counts[kind] += 1
    return tuple(refused[place] for _, place in sorted(turns)[:EXAMPLES])


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


def _kind(why_not: str) -> str:
    """Reasons that differ in a number alone are counted together."""
    return why_not.partition(":")[0]


def _unmet(infrastructure: Infrastructure, judged: Sequence[Considered]) -> tuple[str, str]:
    """That nothing keeps the constraints: what the cheapest and the fastest would take."""
    fastest = min(judged, key=lambda one: known(one).seconds)
    takes, most = map(quantities.seconds, (known(fastest).seconds, known(fastest).high))
    told = [f"the fastest takes {takes}, up to {most}"]
    priced = [one for one in judged if known(one).cost is not None]
    if priced:
        cheapest = min(priced, key=lambda one: known(one).cost or 0.0)
        cost = quantities.money(known(cheapest).cost or 0.0, infrastructure.currency)
        told.append(f"the cheapest costs {cost}")
    kinds = Counter(_kind(one.reason) for one in judged)
    most = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common(3))
    return f"nothing that keeps its constraints: {most}", f"other ones: {'; '.join(told)}"


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
