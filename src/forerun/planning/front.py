"""The candidates that nothing beats, in time and in what they take besides.

That is money where all candidates have a price, else energy where all have it, else nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from forerun.planning.reasons import Considered

Taken = Literal["cost", "joules", "nodes"]


def taken_besides(considered: Sequence[Considered]) -> tuple[Taken, list[float]]:
    """What time is weighed against, and how much of it each takes; all have estimates."""
    found = [one.estimate for one in considered if one.estimate is not None]
    names: tuple[Taken, ...] = ("cost", "joules")
    for name in names:
        amounts = [amount for one in found if (amount := getattr(one, name)) is not None]
        if len(amounts) == len(considered) and any(amounts):
            return name, amounts
    return "nodes", [float(one.candidate.nodes) for one in considered]


def on_front(considered: Sequence[Considered]) -> list[bool]:
    """Where nothing that is as fast takes as little; all have estimates."""
    taken = taken_besides(considered)[1]
    seconds = [one.estimate.seconds if one.estimate else math.inf for one in considered]
    marked, least = [False] * len(considered), math.inf
    for place in sorted(range(len(considered)), key=lambda i: (seconds[i], taken[i])):
        if taken[place] < least:
            least, marked[place] = taken[place], True
    return marked
