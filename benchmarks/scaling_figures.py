"""A figure of the predictions for 8 workers: each run, and the errors of all methods."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from scaling_table import DEFAULT, METHODS, Result

from forerun.plots import paper
from forerun.plots.colours import LIGHT


def save(results: list[Result], folder: Path) -> Path:
    """Write it as PNG; returns where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    alone = results[:-1]
    figure = Figure(figsize=(7, 5.4), layout="constrained")
    above, below = figure.subplots(2, len(alone), squeeze=False, height_ratios=(3, 2))
    for upper, lower, result in zip(above, below, alone, strict=True):
        draw_runs(upper, result)
        draw_errors(lower, result)
    above[0].set_ylabel("predicted, s a step")
    for axes in below[1:]:
        axes.set_yticklabels([])
    return paper.save(figure, folder / "scaling.png")


def draw_runs(axes: Axes, result: Result) -> None:
    """Predicted against measured, with the 90 % interval of each prediction."""
    truth, guess = result.task.truth, result.guesses[DEFAULT]
    off = np.abs(np.array([guess - result.low, result.high - guess]))
    axes.errorbar(truth, guess, off, fmt="o", ms=3, lw=0.7, color=LIGHT.accent)
    ends = [0.8 * min(truth.min(), guess.min()), 1.25 * max(truth.max(), guess.max())]
    axes.plot(ends, ends, color=LIGHT.quiet, lw=0.7)
    for scale, axis in ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis)):
        scale("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.set_title(f"{result.task.name} on 8 workers", fontsize=9)
    axes.set_xlabel("measured, s a step")


def draw_errors(axes: Axes, result: Result) -> None:
    """The mean error of each method."""
    places = np.arange(len(METHODS))[::-1]
    errors = [float(result.misses(name).mean()) for name in METHODS]
    own = [LIGHT.accent if name == DEFAULT else LIGHT.quiet for name in METHODS]
    axes.barh(places, errors, color=own, height=0.6)
    axes.set_yticks(places, METHODS)
    axes.set_xlabel("mean error, %")
