"""The published expression's constants for each framework, and what they say about it.

The expression is t = (Σ a_i·I_i^p_i) · Π E_j^q_j + C. Each constant comes with its spread over
refits to bootstrap resamples of the runs, 5 % to 95 %, and so does what the expression says of a
change to one typical configuration. Where start-up and training add up, C tends to 0 and other
constants take the start-up over; so the costs that add are estimated beside it, in `lenet_costs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from lenet_errors import model
from lenet_points import SPACE
from lenet_splits import FACTORS, TARGET

from forerun.modelling.generic import GenericExpression, design_from, fit_resamples
from forerun.modelling.generic_model import GenericModel

RESAMPLES = 100
TYPICAL: dict[str, float | str] = {
    "kernel": 3, "pool": 2, "filters": 16, "activation": "relu", "optimiser": "sgd",
    "learning_rate": 0.01, "padding": "same", "stride": 1, "dropout": 0.5, "dataset": "mnist",
    "chunks": 6, "batch": 64, "epochs": 2, "workers": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its spread over resamples of the runs, 5 % to 95 %."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, over: list[float]) -> Figure:
        """The spread never leaves the value itself out."""
        low, high = np.quantile(over, [0.05, 0.95])
        return cls(float(value), float(min(low, value)), float(max(high, value)))

    def __format__(self, spec: str) -> str:
        parts = (format(number, spec) for number in (self.value, self.low, self.high))
        return "{} ({} to {})".format(*parts)


@dataclass(frozen=True)
class Constants:
    """What the published expression says about one framework."""

    formula: str
    constants: dict[str, Figure]
    ratios: dict[str, Figure]  # of the whole run's time when one thing is changed


def constants_of(runs: pd.DataFrame) -> Constants:
    """The expression fitted to all runs of a framework, and refitted to resamples of them."""
    learn, seconds = runs[FACTORS], runs[TARGET].to_numpy(float)
    fitted = model(expression="generic").fit(learn, seconds)
    generic = fitted.model_
    assert isinstance(generic, GenericModel)
    design = design_from(generic.columns, learn, SPACE.intrinsic)
    resamples = fit_resamples(
        design, seconds, loss=fitted.loss, penalty=fitted.penalty, strength=generic.strength,
        exponent_bound=fitted.exponent_bound, count=RESAMPLES,
    )  # fmt: skip
    own, listed = generic.expression, [one.constants() for one in resamples]
    return Constants(
        fitted.formula(),
        {
            name: Figure.of(value, [one.get(name, 0.0) for one in listed])
            for name, value in own.constants().items()
        },
        {
            name: Figure.of(ask(own), [ask(one) for one in resamples])
            for name, ask in RATIOS.items()
        },
    )


def seconds_at(expression: GenericExpression, **changed: float | str) -> float:
    """The time at the typical configuration, with some factors changed."""
    point = pd.DataFrame([TYPICAL | changed])
    columns = expression.columns
    return float(np.exp(expression.log_time(columns.numbers(point), columns.codes(point))[0]))


def times(expression: GenericExpression, **changed: float | str) -> float:
    """How many times as long a run takes with some factors changed."""
    return seconds_at(expression, **changed) / seconds_at(expression)


RATIOS: dict[str, Callable[[GenericExpression], float]] = {
    "adam instead of sgd": partial(times, optimiser="adam"),
    "tanh instead of relu": partial(times, activation="tanh"),
    "cifar10 instead of mnist": partial(times, dataset="cifar10"),
    "64 filters instead of 16": partial(times, filters=64),
    "kernel 5 instead of 3": partial(times, kernel=5),
    "stride 2 instead of 1": partial(times, stride=2),
    "12 chunks instead of 6": partial(times, chunks=12),
    "4 epochs instead of 2": partial(times, epochs=4),
    "batch 8 instead of 64": partial(times, batch=8),
    "2 workers instead of 1": partial(times, workers=2),
}
