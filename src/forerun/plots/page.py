"""The figures as Plotly draws them, for pages and notebooks, from the tables of `plots.tables`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from forerun.plots.axes import Axis, factor_axis, ratio_axis, target_axis
from forerun.plots.colours import LIGHT, Colours
from forerun.plots.dress import dress, plain, set_axes, set_axis
from forerun.plots.tables import curve_reach, drawn, ticked
from forerun.quantities import amount, between, number, percent

if TYPE_CHECKING:
    from forerun.plots.front import Front

_LEVELS = 30  # a category with more levels shows its commonest ones


def measured_figure(
    rows: pd.DataFrame, points: pd.DataFrame, target: str, unit: str = "", colours: Colours = LIGHT
) -> go.Figure:
    """Measured against predicted, both logarithmic, with the interval of each prediction."""
    rows = drawn(rows)
    axis = target_axis([*rows["measured"], *rows["predicted"]], target, unit, log=True)
    figure = go.Figure()
    figure.add_scatter(
        x=[axis.low, axis.high],
        y=[axis.low, axis.high],
        mode="lines",
        hoverinfo="skip",
        line={"color": colours.quiet, "width": 1, "dash": "dot"},
        showlegend=False,
    )
    for inside, name, colour, bar in (
        (True, "interval holds the run", colours.accent, colours.soft),
        (False, "outside the interval", colours.second, colours.second_soft),
    ):
        part = rows[rows["inside"] == inside]
        figure.add_scatter(
            x=part["predicted"].tolist(),
            y=part["measured"].tolist(),
            mode="markers",
            name=name,
            marker={"color": colour, "size": 7, "opacity": 0.85},
            error_x={
                "type": "data",
                "symmetric": False,
                "thickness": 1.5,
                "width": 0,
                "color": bar,
                "array": (part["high"] - part["predicted"]).clip(lower=0).tolist(),
                "arrayminus": (part["predicted"] - part["low"]).clip(lower=0).tolist(),
            },
            customdata=_run_texts(part, points, target, unit),
            hovertemplate="%{customdata}<extra></extra>",
        )
    dress(figure, colours, height=460)
    set_axes(figure, _titled(axis, "predicted"), _titled(axis, "measured"))
    return figure


def scaling_figure(
    curve: pd.DataFrame,
    runs: pd.DataFrame,
    factor: str,
    target: str,
    unit: str = "",
    factor_unit: str = "",
    mark_lowest: bool = False,
    colours: Colours = LIGHT,
) -> go.Figure:
    """One factor's curve with its interval; dashed and shaded where nothing was measured."""
    x = factor_axis(ticked(curve, runs), factor, factor_unit)
    y = target_axis(curve_reach(curve, runs), target, unit)
    figure = go.Figure()
    _interval_band(figure, curve, colours)
    figure.add_scatter(
        x=runs["value"].tolist(),
        y=runs["moved"].tolist(),
        mode="markers",
        name="runs",
        marker={"color": colours.dot, "size": 5},
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=curve["value"].tolist(),
        y=curve["formula"].tolist(),
        mode="lines",
        name="formula alone",
        hoverinfo="skip",
        line={"color": colours.second, "width": 1.5, "dash": "dot"},
    )
    _prediction_line(figure, curve, factor, target, unit, colours)
    if mark_lowest:
        _mark_lowest(figure, curve, target, unit, colours)
    _shade_beyond(figure, curve, x, colours)
    dress(figure, colours, height=300)
    set_axes(figure, x, y)
    return figure


def contributions_figure(table: pd.DataFrame, colours: Colours = LIGHT) -> go.Figure:
    """A bar a factor, longest on top, in two colours for intrinsic and extrinsic."""
    table = table.head(_LEVELS).iloc[::-1]
    figure = go.Figure()
    for scope, colour in (("intrinsic", colours.second), ("extrinsic", colours.accent)):
        part = table[table["scope"] == scope]
        figure.add_bar(
            x=part["contribution"].tolist(),
            y=[plain(name) for name in part["factor"]],
            orientation="h",
            name=scope,
            marker={"color": colour},
            width=0.62,
            text=[percent(share) for share in part["contribution"]],
            textposition="outside",
            cliponaxis=False,
            hoverinfo="skip",
        )
    dress(figure, colours, height=90 + 34 * len(table))
    names = [plain(name) for name in table["factor"]]
    figure.update_yaxes(categoryorder="array", categoryarray=names, showgrid=False, zeroline=False)
    reach = float(table["contribution"].max()) * 1.15 if len(table) else 1.0
    figure.update_xaxes(
        range=[0, max(reach, 0.01)], tickformat=".0%", title_text="share of the variation"
    )
    return figure


def residuals_figure(
    rows: pd.DataFrame, points: pd.DataFrame, target: str, unit: str = "", colours: Colours = LIGHT
) -> go.Figure:
    """Measured over predicted, against predicted."""
    rows = drawn(rows)
    figure = go.Figure()
    figure.add_scatter(
        x=rows["predicted"].tolist(),
        y=rows["ratio"].tolist(),
        mode="markers",
        marker={"color": colours.accent, "size": 6, "opacity": 0.75},
        customdata=_run_texts(rows, points, target, unit),
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )
    dress(figure, colours, height=300, top=12)
    x = target_axis(rows["predicted"].tolist(), target, unit, log=True)
    set_axes(figure, _titled(x, "predicted"), ratio_axis(rows["ratio"].tolist()))
    _line_at_one(figure, colours)
    return figure


def factor_residuals_figure(
    rows: pd.DataFrame,
    values: pd.Series[Any],
    numeric: bool,
    factor_unit: str = "",
    colours: Colours = LIGHT,
) -> go.Figure:
    """Measured over predicted, against one factor: a trend here is something the model misses."""
    rows = drawn(rows)
    values, factor = values.loc[rows.index], str(values.name)
    figure = go.Figure()
    marker = {"color": colours.accent, "size": 5, "opacity": 0.6}
    if numeric:
        figure.add_scatter(
            x=values.tolist(),
            y=rows["ratio"].tolist(),
            mode="markers",
            marker=marker,
            hovertemplate="× %{y:.2f} at %{x}<extra></extra>",
            showlegend=False,
        )
    else:
        for level in values.value_counts().index[:_LEVELS]:
            figure.add_box(
                y=rows.loc[values == level, "ratio"].tolist(),
                name=plain(_short(level)),
                marker=marker,
                line={"color": colours.accent, "width": 1.2},
                fillcolor=colours.soft,
                boxpoints="outliers",
                showlegend=False,
                hoverinfo="y",
                yhoverformat=".2f",
            )
    dress(figure, colours, height=230, top=12)
    y = ratio_axis(rows["ratio"].tolist(), title="")
    if numeric:
        set_axes(figure, factor_axis(values.tolist(), factor, factor_unit), y)
    else:
        set_axis(figure.layout.yaxis, y)
        figure.update_xaxes(title_text=plain(factor), showgrid=False)
    _line_at_one(figure, colours)
    return figure


def front_figure(found: Front, colours: Colours = LIGHT) -> go.Figure:
    """A plan's candidates: time to the result against what it takes besides, the front a line."""
    figure, rows = go.Figure(), found.rows
    chosen = {"color": colours.second, "size": 15, "symbol": "circle-open", "line_width": 2.5}
    for part, name, mode, marker in (
        (found.others, "other candidates", "markers", {"color": colours.dot, "size": 6}),
        (
            rows[rows["front"]].sort_values("taken"),
            "nothing beats it in both",
            "lines+markers",
            {"color": colours.accent, "size": 8},
        ),
        (rows[rows["chosen"]], "chosen", "markers", chosen),
    ):
        figure.add_scatter(
            x=part["taken"].tolist(),
            y=part["seconds"].tolist(),
            mode=mode,
            name=name,
            marker=marker,
            line={"color": colours.accent, "width": 1.2},
            error_y={
                "type": "data",
                "symmetric": False,
                "thickness": 1.5,
                "width": 0,
                "color": colours.soft,
                "visible": name != "other candidates",
                "array": (part["high"] - part["seconds"]).clip(lower=0).tolist(),
                "arrayminus": (part["seconds"] - part["low"]).clip(lower=0).tolist(),
            },
            customdata=[_candidate_text(one, found) for one in part.to_dict("records")],
            hovertemplate="%{customdata}<extra></extra>",
        )
    dress(figure, colours, height=460)
    set_axes(figure, found.x, found.y)
    return figure


def _candidate_text(row: dict[Any, Any], found: Front) -> str:
    """What a pointer on a candidate shows: its setting, what it takes, and why it won or lost."""
    counted = f"{number(row['taken'])} {found.taken}"
    is_count = found.taken in ("nodes", "devices")
    taken = counted if is_count else amount(row["taken"], found.taken, found.unit)
    return (
        f"<b>{plain(row['setting'])}</b><br>{amount(row['seconds'])}"
        f" ({between(row['low'], row['high'])}), {plain(taken)}<br>{plain(row['reason'])}"
    )


def _interval_band(figure: go.Figure, curve: pd.DataFrame, colours: Colours) -> None:
    figure.add_scatter(
        x=[*curve["value"], *curve["value"][::-1]],
        y=[*curve["high"], *curve["low"][::-1]],
        fill="toself",
        fillcolor=colours.soft,
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        name="interval",
    )


def _prediction_line(
    figure: go.Figure, curve: pd.DataFrame, factor: str, target: str, unit: str, colours: Colours
) -> None:
    columns = curve[["value", "predicted", "low", "high"]].to_numpy(float).tolist()
    texts = [
        f"{plain(factor)} {number(value, 6)}: {amount(predicted, target, unit)}"
        f"<br>{between(low, high, target, unit)}"
        for value, predicted, low, high in columns
    ]
    last = curve.loc[~curve["beyond"], "value"].max()
    # The dashed part begins where the solid one ends, so that the line does not break.
    for part, dash in ((curve["value"] <= last, "solid"), (curve["value"] >= last, "dash")):
        chosen = curve[part]
        figure.add_scatter(
            x=chosen["value"].tolist(),
            y=chosen["predicted"].tolist(),
            mode="lines",
            line={"color": colours.accent, "width": 2.2, "dash": dash},
            name="prediction",
            showlegend=dash == "solid",
            customdata=np.asarray(texts, dtype=object)[part.to_numpy()].tolist(),
            hovertemplate="%{customdata}<extra></extra>",
        )


def _mark_lowest(
    figure: go.Figure, curve: pd.DataFrame, target: str, unit: str, colours: Colours
) -> None:
    best = curve[curve["lowest"]].iloc[0]
    figure.add_scatter(
        x=[best["value"]],
        y=[best["predicted"]],
        mode="markers",
        name="lowest",
        marker={"color": colours.accent, "size": 12, "symbol": "circle-open", "line_width": 2.5},
        hovertemplate=f"lowest: {amount(best['predicted'], target, unit)}"
        f" at {number(best['value'], 6)}<extra></extra>",
    )


def _shade_beyond(figure: go.Figure, curve: pd.DataFrame, x: Axis, colours: Colours) -> None:
    if curve["beyond"].any():
        start = float(curve.loc[~curve["beyond"], "value"].max())
        figure.add_vrect(x0=start, x1=x.high, fillcolor=colours.beyond, line_width=0, layer="below")
        figure.add_annotation(
            x=1,
            xref="paper",
            xanchor="right",
            y=1,
            yref="paper",
            yanchor="top",
            text="not measured",
            showarrow=False,
            font={"size": 11, "color": colours.quiet},
        )


def _line_at_one(figure: go.Figure, colours: Colours) -> None:
    figure.add_hline(y=1, line={"color": colours.quiet, "width": 1, "dash": "dot"})


def _titled(axis: Axis, word: str) -> Axis:
    return Axis(f"{word} {axis.title}", axis.log, axis.low, axis.high, axis.ticks, axis.labels)


def _run_texts(rows: pd.DataFrame, points: pd.DataFrame, target: str, unit: str) -> list[str]:
    """What a pointer on each run shows: measured, predicted, and its point."""
    at = points.loc[rows.index].to_dict("records")
    columns = rows[["measured", "predicted", "low", "high"]].to_numpy(float).tolist()
    return [
        f"<b>measured {amount(measured, target, unit)}</b><br>"
        f"predicted {amount(predicted, target, unit)}"
        f" ({between(low, high, target, unit)})<br>{_point_text(point)}"
        for (measured, predicted, low, high), point in zip(columns, at, strict=True)
    ]


def _point_text(point: dict[Any, Any]) -> str:
    pairs = (f"{plain(_short(name))} = {plain(_short(_value(v)))}" for name, v in point.items())
    return "<br>".join(pairs)


def _value(value: object) -> str:
    return number(value, 6) if isinstance(value, int | float) else str(value)


def _short(text: object, length: int = 40) -> str:
    made = str(text)
    return made if len(made) <= length else f"{made[: length - 1]}…"
