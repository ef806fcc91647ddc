"""The figures as Matplotlib draws them, for papers: one column wide, nothing that is not data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from forerun import _outputs
from forerun.plots.axes import Axis, factor_axis, ratio_axis, target_axis
from forerun.plots.colours import LIGHT
from forerun.plots.tables import curve_reach, drawn, ticked
from forerun.quantities import amount, number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from forerun.plots.front import Front

WIDTH = 3.5  # inches, one column of a two-column page
_BAND = (43 / 255, 95 / 255, 199 / 255, 0.15)
_DOT = (29 / 255, 36 / 255, 51 / 255, 0.35)
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.edgecolor": LIGHT.quiet,
    "axes.labelcolor": LIGHT.ink,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": LIGHT.quiet,
    "ytick.color": LIGHT.quiet,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3 fonts
    "savefig.dpi": 300,
    "svg.hashsalt": "forerun",  # the same names in the same figure
    "text.parse_math": False,  # a factor may be called `$x$`
}


def save(figure: Figure, path: Path) -> Path:
    """Write the figure, as the name's ending says. The same data gives the same file."""
    _outputs.check_figure(path)
    kind = path.suffix.lower().removeprefix(".")
    name = {"pdf": "CreationDate", "svg": "Date"}.get(kind, "Software")
    content = BytesIO()
    with _style():
        figure.savefig(content, format=kind, metadata={name: None})
    _outputs.write(path, content.getvalue())
    return path


def measured_figure(rows: pd.DataFrame, target: str, unit: str = "") -> Figure:
    """Measured against predicted, both logarithmic, with the interval of each prediction."""
    rows = drawn(rows)
    axis = target_axis([*rows["measured"], *rows["predicted"]], target, unit, log=True)
    with _canvas(WIDTH, WIDTH * 0.86) as (figure, axes):
        axes.plot([axis.low, axis.high], [axis.low, axis.high], color=LIGHT.quiet, lw=0.6, ls=":")
        for inside, colour in ((True, LIGHT.accent), (False, LIGHT.second)):
            part = rows[rows["inside"] == inside]
            reach = [part["predicted"] - part["low"], part["high"] - part["predicted"]]
            axes.errorbar(
                part["predicted"],
                part["measured"],
                xerr=np.clip(reach, 0, None),
                fmt="none",
                elinewidth=0.6,
                ecolor=colour,
                alpha=0.3,
            )
            label = "interval holds the run" if inside else "outside the interval"
            axes.plot(
                part["predicted"], part["measured"], "o", ms=2.6, color=colour, mew=0, label=label
            )
        axes.legend(loc="upper left", handletextpad=0.2, borderaxespad=0.2)
        _place(axes, axis, axis, x_word="predicted", y_word="measured")
        return figure


def scaling_figure(
    curve: pd.DataFrame,
    runs: pd.DataFrame,
    factor: str,
    target: str,
    unit: str = "",
    factor_unit: str = "",
    mark_lowest: bool = False,
) -> Figure:
    """One factor's curve with its interval; dashed and shaded where nothing was measured."""
    x = factor_axis(ticked(curve, runs), factor, factor_unit)
    y = target_axis(curve_reach(curve, runs), target, unit)
    with _canvas(WIDTH, WIDTH * 0.68) as (figure, axes):
        axes.fill_between(
            curve["value"], curve["low"], curve["high"], color=_BAND, lw=0, label="interval"
        )
        axes.plot(runs["value"], runs["moved"], "o", ms=2, color=_DOT, mew=0, label="runs")
        axes.plot(
            curve["value"], curve["formula"], ":", lw=0.9, color=LIGHT.second, label="formula alone"
        )
        seen = curve[~curve["beyond"]]
        axes.plot(seen["value"], seen["predicted"], color=LIGHT.accent, label="prediction")
        after = curve[curve["value"] >= seen["value"].max()]
        if len(after) > 1:
            axes.plot(after["value"], after["predicted"], color=LIGHT.accent, ls=(0, (3, 2)))
            axes.axvspan(seen["value"].max(), x.high, color=LIGHT.line, alpha=0.5, lw=0, zorder=0)
        if mark_lowest:
            _mark_lowest(axes, curve, target, unit)
        axes.legend(loc="best", handlelength=1.6)
        _place(axes, x, y)
        return figure


def contributions_figure(table: pd.DataFrame) -> Figure:
    """A bar a factor, longest on top."""
    table = table.head(20).iloc[::-1]
    with _canvas(WIDTH, 0.5 + 0.22 * len(table)) as (figure, axes):
        colours = [
            LIGHT.second if scope == "intrinsic" else LIGHT.accent for scope in table["scope"]
        ]
        bars = axes.barh(table["factor"], table["contribution"], height=0.62, color=colours)
        texts = [percent(share) for share in table["contribution"]]
        axes.bar_label(bars, texts, padding=2, fontsize=7, color=LIGHT.ink)
        axes.legend(handles=_scopes(set(table["scope"])), loc="lower right")
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(axis="y", length=0, labelcolor=LIGHT.ink)
        axes.set_xlabel("share of the variation")
        return figure


def residuals_figure(rows: pd.DataFrame, target: str, unit: str = "") -> Figure:
    """Measured over predicted, against predicted."""
    rows = drawn(rows)
    x = target_axis(rows["predicted"].tolist(), target, unit, log=True)
    with _canvas(WIDTH, WIDTH * 0.62) as (figure, axes):
        axes.axhline(1, color=LIGHT.quiet, lw=0.6, ls=":")
        axes.plot(
            rows["predicted"], rows["ratio"], "o", ms=2.4, color=LIGHT.accent, alpha=0.8, mew=0
        )
        _place(axes, x, ratio_axis(rows["ratio"].tolist()), x_word="predicted")
        return figure


def front_figure(found: Front) -> Figure:
    """A plan's candidates: time to the result against what it takes besides, the front a line."""
    with _canvas(WIDTH, WIDTH * 0.78) as (figure, axes):
        others, front = found.others, found.rows[found.rows["front"]].sort_values("taken")
        marked = found.rows[found.rows["front"] | found.rows["chosen"]]
        reach = [marked["seconds"] - marked["low"], marked["high"] - marked["seconds"]]
        axes.errorbar(
            marked["taken"],
            marked["seconds"],
            yerr=np.clip(reach, 0, None),
            fmt="none",
            elinewidth=0.8,
            ecolor=LIGHT.accent,
            alpha=0.3,
        )
        axes.plot(others["taken"], others["seconds"], "o", ms=2.4, color=_DOT, mew=0)
        axes.plot(
            front["taken"],
            front["seconds"],
            "o-",
            ms=3.4,
            lw=0.9,
            color=LIGHT.accent,
            mew=0,
            label="nothing beats it in both",
        )
        chosen = found.rows[found.rows["chosen"]]
        axes.plot(
            chosen["taken"],
            chosen["seconds"],
            "o",
            ms=7,
            mfc="none",
            mec=LIGHT.second,
            mew=1.3,
            label="chosen",
        )
        axes.legend(loc="best", handlelength=1.6)
        _place(axes, found.x, found.y)
        return figure


def _mark_lowest(axes: Axes, curve: pd.DataFrame, target: str, unit: str) -> None:
    best = curve[curve["lowest"]].iloc[0]
    ends = curve["value"].min(), curve["value"].max()
    axes.plot(best["value"], best["predicted"], "o", ms=6, mfc="none", mec=LIGHT.accent, mew=1.2)
    axes.annotate(
        f"lowest: {amount(best['predicted'], target, unit)} at {number(best['value'], 6)}",
        (best["value"], best["predicted"]),
        xytext=(0, -9),
        textcoords="offset points",
        ha={ends[0]: "left", ends[1]: "right"}.get(best["value"], "center"),
        va="top",
        fontsize=7,
        color=LIGHT.accent,
    )


def _scopes(present: set[str]) -> list[Patch]:
    """What the two colours of bars mean."""
    from matplotlib.patches import Patch

    colours = {"intrinsic": LIGHT.second, "extrinsic": LIGHT.accent}
    return [Patch(color=colours[scope], label=scope) for scope in colours if scope in present]


def _place(axes: Axes, x: Axis, y: Axis, x_word: str = "", y_word: str = "") -> None:
    axes.set_xlabel(f"{x_word} {x.title}".strip())
    axes.set_ylabel(f"{y_word} {y.title}".strip())
    for axis, set_scale, set_ticks, set_limits in (
        (x, axes.set_xscale, axes.set_xticks, axes.set_xlim),
        (y, axes.set_yscale, axes.set_yticks, axes.set_ylim),
    ):
        set_scale("log" if axis.log else "linear")
        set_ticks(axis.ticks, axis.labels)
        set_ticks([], minor=True)
        set_limits(axis.low, axis.high)


@contextmanager
def _canvas(width: float, height: float) -> Iterator[tuple[Figure, Axes]]:
    """A new figure and its axes, of which no window system and no global state knows."""
    with _style():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.add_subplot()


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield
