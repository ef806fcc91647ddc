"""Where a run's time goes in each framework: costs that add, each with its spread.

What is known of the job gives the columns, and least squares of the relative error, with no cost
below zero, gives the figures: the start, what a second worker adds to it, each step of the
optimiser, what agreeing with another worker adds to a step, and arithmetic.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from lenet_constants import Constants, Figure
from lenet_points import CHUNK, multiply_adds
from lenet_splits import FACTORS, TARGET, Array
from scipy.optimize import nnls

from forerun.factors import Point

RESAMPLES = 400
START, SECOND, STEP, ADAM, AGREE, IMAGE, WORK = (
    "start-up, s",
    "second worker's start, s",
    "a step, ms",
    "a step of Adam adds, ms",
    "a step of two workers adds, ms",
    "an image, µs",
    "10⁹ multiply-adds, ms",
)
ERROR = "mean error of these costs, %"


def costs_of(runs: pd.DataFrame) -> dict[str, Figure]:
    """Each cost, and how well all of them together describe the runs they were learnt from."""
    columns, seconds = _columns(runs), runs[TARGET].to_numpy(float)
    relative = columns.to_numpy() / seconds[:, None]
    own = nnls(relative, np.ones(len(runs)))[0]
    draw = np.random.default_rng(0)
    over = []
    for _ in range(RESAMPLES):
        rows = draw.integers(0, len(runs), len(runs))
        over.append(nnls(relative[rows], np.ones(len(rows)))[0])
    spread = np.array(over)
    found = {
        name: Figure.of(own[place], spread[:, place].tolist())
        for place, name in enumerate(columns.columns)
    }
    error = float(np.abs(relative @ own - 1).mean() * 100)
    return found | {ERROR: Figure(error, error, error)}


def _columns(runs: pd.DataFrame) -> pd.DataFrame:
    """How much there is of each cost in each run, in the units of the cost's name."""
    workers = runs["workers"].to_numpy(float)
    images = CHUNK * runs["chunks"].to_numpy(float) / workers
    steps = np.ceil(images / runs["batch"]).to_numpy(float) * runs["epochs"].to_numpy(float)
    images = images * runs["epochs"].to_numpy(float)
    points = (Point({name: row[name] for name in FACTORS}) for _, row in runs.iterrows())
    work = np.array([multiply_adds(point) for point in points])
    second: Array = workers - 1
    return pd.DataFrame(
        {
            START: np.ones(len(runs)),
            SECOND: second,
            STEP: steps / 1e3,
            ADAM: steps * (runs["optimiser"] == "adam").to_numpy(float) / 1e3,
            AGREE: steps * second / 1e3,
            IMAGE: images / 1e6,
            WORK: 3 * images * work / 1e9 / 1e3,  # forwards, and twice as much backwards
        }
    )


def what_they_say(constants: dict[str, Constants], costs: dict[str, dict[str, Figure]]) -> str:
    """A paragraph on the frameworks, made from the numbers."""
    return " ".join(
        [
            _constant(constants),
            _ranked(costs, START, "starting up takes", "s", ".1f"),
            _each(costs, SECOND, "a second worker adds to the start", "s", ".1f"),
            _ranked(costs, STEP, "a step of the optimiser costs", "ms", ".2f"),
            _each(costs, ADAM, "Adam adds to a step", "ms", ".2f"),
            _each(costs, AGREE, "two workers that must agree add to a step", "ms", ".2f"),
            _ranked(costs, WORK, "10⁹ multiply-adds take", "ms", ".0f"),
            _workers(constants),
        ]
    )


def _constant(constants: dict[str, Constants]) -> str:
    zero = [name for name, each in constants.items() if each.constants["constant"].value < 0.05]
    if not zero:
        return _each(
            {name: each.constants for name, each in constants.items()},
            "constant",
            "what does not grow with the job (C) is",
            "s",
            ".1f",
        )
    return (
        f"C, which should be the start-up, is 0 for {_listed(zero)}: where intrinsic costs multiply"
        " with one another, the sum of them takes the start-up over, and small exponents of chunks"
        " and epochs make up for it. So the start-up is read from costs that add."
    )


def _ranked(
    costs: dict[str, dict[str, Figure]], cost: str, words: str, unit: str, form: str
) -> str:
    order = sorted(costs, key=lambda name: costs[name][cost].value)
    return _each({name: costs[name] for name in order}, cost, words, unit, form)


def _each(costs: dict[str, dict[str, Figure]], cost: str, words: str, unit: str, form: str) -> str:
    parts = [f"{name} {format(each[cost], form)} {unit}" for name, each in costs.items()]
    return f"{words[0].upper()}{words[1:]}: {', '.join(parts)}."


def _workers(constants: dict[str, Constants]) -> str:
    sides: dict[str, list[str]] = {"shorter": [], "longer": [], "neither clearly": []}
    for name, each in constants.items():
        ratio = each.ratios["2 workers instead of 1"]
        side = "shorter" if ratio.high < 1 else "longer" if ratio.low > 1 else "neither clearly"
        sides[side].append(f"{name} ({ratio.value:.2f} times)")
    said = [f"{side} with {_listed(names)}" for side, names in sides.items() if names]
    return f"At the typical configuration a second worker makes the whole run {'; '.join(said)}."


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
