"""What all figures of pages share: no frame, a quiet grid, axes for people, plain names."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from forerun.plots.axes import Axis
from forerun.plots.colours import Colours

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"


def dress(figure: go.Figure, colours: Colours, height: int, top: int = 34) -> None:
    """No frame, quiet grid, the legend above: the same dress for every figure."""
    figure.update_layout(
        template="none",
        height=height,
        autosize=True,
        dragmode=False,
        bargap=0.3,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": _FONT, "size": 13, "color": colours.ink},
        margin={"l": 62, "r": 14, "t": top, "b": 46},
        legend={"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom", "font": {"size": 12}},
        hoverlabel={"align": "left", "font": {"family": _FONT, "size": 13}},
    )
    quiet = {"color": colours.quiet, "size": 12}
    figure.update_xaxes(linecolor=colours.line)
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(
            gridcolor=colours.line,
            zeroline=False,
            tickfont=quiet,
            automargin=True,
            title_font=quiet,
            title_standoff=10,
        )


def set_axes(figure: go.Figure, x: Axis, y: Axis) -> None:
    """Both axes of a figure as they were laid out."""
    set_axis(figure.layout.xaxis, x)
    set_axis(figure.layout.yaxis, y)


def set_axis(drawn_axis: Any, axis: Axis) -> None:
    """One axis as it was laid out."""
    ends = (axis.low, axis.high)
    drawn_axis.update(
        title={"text": plain(axis.title)},
        type="log" if axis.log else "linear",
        range=[float(np.log10(end)) for end in ends] if axis.log else list(ends),
        tickmode="array",
        tickvals=list(axis.ticks),
        ticktext=[plain(label) for label in axis.labels],
    )


def plain(text: object) -> str:
    """Text that Plotly shows as it is: it reads a few HTML tags, which names must not reach."""
    return escape(str(text), quote=False)
