"""Whether workers exchange something that costs time, and so many of them ever less more.

What each of n workers has to pass on grows as 1 - 1/n: from nothing for one to a constant for many,
as in an all-reduce. A power of n, learnt on a few workers, runs away from that on many. So where
workers were counted from one on, their exchange is taken to cost time, unless held-out runs speak
clearly against it.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from forerun.modelling.columns import Array, Codes, Columns
from forerun.modelling.correction import Place
from forerun.modelling.cross_validation import random_parts
from forerun.modelling.expression import Design
from forerun.modelling.phases import Data, simple, single

FEWEST = 3  # distinct numbers of workers, one among them
FEWEST_RUNS = 20
MOST_ROWS = 400  # that are asked
CLEARLY = 1.5  # times the error without the exchange


def with_exchange(
    columns: Columns, numbers: Array, codes: Codes, target: Array, counted: Collection[str]
) -> Columns:
    """The columns, with the exchange of workers unless held-out runs speak against it.

    `counted` names the factors that count workers.
    """
    names = [
        column.name
        for column, values in zip(columns.numeric, numbers.T, strict=True)
        if column.name in counted and column.low == 1 and len(np.unique(values)) >= FEWEST
    ]
    if not names or len(target) < FEWEST_RUNS:
        return columns
    rows = np.random.default_rng(0).permutation(len(target))[:MOST_ROWS]
    numbers, codes, target = numbers[rows], codes[rows], target[rows]
    changed = columns.exchanging(names)
    without, with_ = (_error(Design(each), numbers, codes, target) for each in (columns, changed))
    return changed if with_ < CLEARLY * without else columns


def _error(design: Design, numbers: Array, codes: Codes, target: Array) -> float:
    """The mean error of simple terms on held-out points."""
    data = Data(design, design.phi(numbers, codes), codes, target)
    errors = []
    for held in random_parts(Place(numbers, codes), np.random.default_rng(0)):
        learn, unseen = data.rows(~held), data.rows(held)
        formula = simple(learn, single(learn).formula)
        errors.append(np.abs(unseen.target - unseen.logs(formula)))
    return float(np.concatenate(errors).mean())
