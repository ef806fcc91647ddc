"""Two figures of the three frameworks: errors of all methods, and what a new framework costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from lenet_errors import ALONE, DEFAULT, FEW, METHODS
from lenet_report import Results, floor, summary, transfer_means
from matplotlib.figure import Figure

from forerun.plots import paper
from forerun.plots.colours import LIGHT


def save(found: Results, folder: Path) -> list[Path]:
    """Write the figures as PNG; returns where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {"frameworks-errors": errors_figure(found)}
    if len(found.frameworks) > 1:
        drawn["frameworks-new"] = transfer_figure(found)
    return [paper.save(figure, folder / f"{name}.png") for name, figure in drawn.items()]


def errors_figure(found: Results) -> Figure:
    """A dot for each method, with the floor that the repeats set."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    panels = figure.subplots(1, len(found.frameworks), sharey=True, squeeze=False)[0]
    summed = summary(found.errors)
    places = np.arange(len(METHODS))[::-1]
    for axes, (framework, runs) in zip(panels, found.tables.items(), strict=True):
        errors = [summed[framework][name].error for name in METHODS]
        own = [LIGHT.accent if name == DEFAULT else LIGHT.quiet for name in METHODS]
        axes.barh(places, errors, color=own, height=0.6)
        axes.axvline(floor(runs)[1], color=LIGHT.second, lw=0.9, ls=":")
        axes.set_title(framework, fontsize=9)
        axes.set_yticks(places, METHODS)
    figure.supxlabel("mean error on unseen runs, % (dotted: repeats alone)", fontsize=9)
    return figure


def transfer_figure(found: Results) -> Figure:
    """The error against the number of runs alone, and with the other frameworks known."""
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    panels = figure.subplots(1, len(found.frameworks), sharey=True, squeeze=False)[0]
    means = transfer_means(found)
    for axes, framework in zip(panels, found.frameworks, strict=True):
        counts = [runs for runs in ALONE if (framework, False, runs) in means]
        alone = [means[framework, False, runs] for runs in counts]
        axes.plot(counts, alone, "o-", ms=3, color=LIGHT.quiet, label="alone")
        few = means[framework, True, FEW]
        axes.plot([FEW], [few], "D", ms=5, color=LIGHT.accent, label="with the other frameworks")
        axes.axhline(few, color=LIGHT.accent, lw=0.7, ls=":")
        axes.set_title(framework, fontsize=9)
        axes.set_xlabel("runs of this framework")
        axes.set_xlim(0, ALONE[-1] + 5)
    panels[0].set_ylim(0, 1.05 * max(means.values()))
    panels[0].set_ylabel("mean error on unseen runs, %")
    panels[0].legend(fontsize=7, frameon=False)
    return figure
