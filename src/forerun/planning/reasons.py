"""Why a candidate was chosen, or lost: the factor that decided, and the seconds or the money."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forerun import quantities
from forerun.factors import Point, Value
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate
from forerun.planning.estimates import Estimate
from forerun.planning.pays import Pays
from forerun.planning.request import Goal, Request


@dataclass(frozen=True, slots=True)
class Considered:
    """A candidate, what it would take, and why it is chosen or not."""

    candidate: Candidate
    estimate: Estimate | None = None  # None where nothing was measured, or it cannot work
    score: float = math.inf
    reason: str = ""
    on_front: bool = False  # nothing beats it, see `front.py`
    pays: Pays | None = None  # beside the plain variant, where it is another


def known(one: Considered) -> Estimate:
    """The estimate of a candidate that can work."""
    assert one.estimate is not None
    return one.estimate


def with_reasons(
    request: Request, infrastructure: Infrastructure, ranked: list[Considered]
) -> list[Considered]:
    """Each with its reason: the factor that decided, and the seconds or the money."""
    by_setting = {_key(_chosen(one)): one for one in ranked}
    first = ranked[0]
    told = [replace(first, reason=_won(request, infrastructure, ranked))]
    for one in ranked[1:]:
        told.append(replace(one, reason=_lost(request, infrastructure, first, one, by_setting)))
    return told


def _lost(
    request: Request,
    infrastructure: Infrastructure,
    first: Considered,
    one: Considered,
    by_setting: Mapping[str, Considered],
) -> str:
    """Which factor lost most: what the candidate would gain with the chosen one's value."""
    own, best, goal = _chosen(one), _chosen(first), request.main_goal
    different = [name for name in own if own[name] != best.get(name)]
    gains = {}
    for name in different:
        swapped = by_setting.get(_key({**own, name: best[name]})) if name in best else None
        if swapped is not None:
            gains[name] = _amount(one, goal) - _amount(swapped, goal)
    loss = _amount(one, goal) - _amount(first, goal)
    names = ", ".join(f"{name} {_instead(own[name], best.get(name))}" for name in different)
    if loss <= 0:
        return f"{names}: {_no_slower(request, infrastructure, first, one)}"
    all_of_it = _spelt(infrastructure, goal, loss)
    if gains and max(gains.values()) > 0:
        name = max(gains, key=lambda name: gains[name])
        part = _spelt(infrastructure, goal, gains[name])
        # The table shows the whole of it: a part alone would not add up.
        whole = len(different) == 1 or part == all_of_it or gains[name] > loss
        more = part if whole else f"{part} of {all_of_it}"
        return f"{name} {_instead(own[name], best[name])}: {more} more"
    return f"{names}: {all_of_it} more"


def _no_slower(
    request: Request, infrastructure: Infrastructure, first: Considered, one: Considered
) -> str:
    """Why a candidate lost that takes no more of what weighs most than the chosen one."""
    less = _amount(first, request.main_goal) - _amount(one, request.main_goal)
    spelt = f"{_spelt(infrastructure, request.main_goal, less)} less" if less else "as good"
    for goal, weight in request.objective.items():
        more = _amount(one, goal) - _amount(first, goal)
        if weight and more > 0:
            return f"{spelt}, but {_spelt(infrastructure, goal, more)} more"
    return f"{spelt}{', which the model cannot tell from none,' if less else ''} and less simple"


def _won(request: Request, infrastructure: Infrastructure, ranked: Sequence[Considered]) -> str:
    goal = request.main_goal
    word = {"time": "fastest", "cost": "cheapest", "energy": "least energy"}[goal]
    if len(ranked) == 1:
        return "the only one that can be had"
    loss = _amount(ranked[1], goal) - _amount(ranked[0], goal)
    if sum(weight > 0 for weight in request.objective.values()) > 1:
        return "best by the objective's weights"
    if loss <= 0:
        return "simplest of those that are nearly as good"
    return f"{word}, by {_spelt(infrastructure, goal, loss)}"


def _amount(one: Considered, goal: Goal) -> float:
    return float(known(one).amount(goal) or 0.0)


def _spelt(infrastructure: Infrastructure, goal: Goal, amount: float) -> str:
    if goal == "cost":
        return quantities.money(amount, infrastructure.currency)
    return quantities.amount(amount, "joules" if goal == "energy" else "seconds")


def _value(value: Value) -> str:
    return value if isinstance(value, str) else quantities.number(float(value), 6)


def _instead(value: Value, best: Value | None) -> str:
    return _value(value) if best is None else f"{_value(value)} instead of {_value(best)}"


def _chosen(one: Considered) -> dict[str, Value]:
    """What the planner chose; how many nodes that takes follows from it."""
    setting = one.candidate.setting
    if "nodes" not in one.candidate.point:
        del setting["nodes"]
    return setting


def _key(setting: Mapping[str, Value]) -> str:
    return Point({name.replace(" ", "_"): value for name, value in setting.items()}).key
