"""One self-contained HTML page about a study's model, and its figures as files for a paper."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from forerun import __version__, _outputs
from forerun.errors import InputError
from forerun.factors import Factor, Space, Value
from forerun.modelling.explain import Explanation, FactorEffect
from forerun.modelling.kept import KeptModel, fit_kept, kept
from forerun.plots import tables
from forerun.plots.deployments import Deployed, deployed
from forerun.plots.document import asset, script_hash
from forerun.quantities import amount, between, number, percent, unit_of
from forerun.splitting.measured import splits_of

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.figure import Figure

    from forerun.splitting.measured import Measured
    from forerun.study import Study

COVERAGE = 0.9
FEWEST_POINTS = 4  # with fewer nothing can be held out to judge the model by
MOST_LEVELS = 24  # of one factor that the page lists; of more, those at both ends


@dataclass(frozen=True, slots=True)
class Curve:
    """The target against one numeric factor, the others held at the reference."""

    factor: Factor
    table: pd.DataFrame
    runs: pd.DataFrame

    @property
    def marks_lowest(self) -> bool:
        """Only of workers and their like is the lowest point a choice that somebody has."""
        return self.factor.role in ("workers", "nodes", "threads")


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that a report says, as tables and values: gathered once, rendered twice."""

    path: Path
    target: str
    space: Space
    table: pd.DataFrame
    failures: int
    fitted: KeptModel
    explanation: Explanation
    rows: pd.DataFrame
    noise: float | None
    reference: dict[str, Value]
    curves: tuple[Curve, ...]
    deployed: tuple[Deployed, ...] = ()
    splits: tuple[Measured, ...] = ()  # of networks that were cut over several devices, and run

    @property
    def unit(self) -> str:
        """The unit of the target, where it is known."""
        return unit_of(self.target)

    @property
    def held(self) -> float:
        """The share of held-out runs that lie inside their interval."""
        return float(self.rows["inside"].mean())


def write_report(
    study: Study, path: str | Path, target: str = "seconds", beside: Iterable[Study] = ()
) -> Path:
    """Write the page about the study's model of `target`, fitting it first where need be.

    `beside` are studies of splits, which `forerun split bench` measured: the page shows them too.
    """
    return write_page(gather(study, target, beside), Path(path))


def gather(study: Study, target: str = "seconds", beside: Iterable[Study] = ()) -> Findings:
    """The model, its judgement on runs that it has not seen, and the table of every figure."""
    count = len(study.table(target).drop(columns=target).drop_duplicates())
    if count < FEWEST_POINTS:
        found, enough = f"{count} different points", f"at least {FEWEST_POINTS} for a report"
        raise InputError(str(study.path), found, enough)
    before = kept(study, target)
    fitted = fit_kept(study, target, **(before.settings if before else {}))
    model, table, space = fitted.model, study.table(target), study.space
    at = tables.reference(table, space)
    curves = tuple(
        Curve(
            space[name],
            tables.scaling(model, table.drop(columns=target), name, at, COVERAGE),
            tables.moved_runs(model, table, target, name, at),
        )
        for name in space.numeric
        if table[name].nunique() > 1
    )
    rows = tables.measured(model, table, target, COVERAGE)
    return Findings(
        path=Path(study.path),
        target=target,
        space=space,
        table=table,
        failures=len(study.failures()),
        fitted=fitted,
        explanation=model.explain(),
        rows=rows,
        noise=tables.repeat_spread(table, target),
        reference=at,
        curves=curves,
        deployed=deployed(study.runs("ok"), target, rows),
        splits=tuple(one for each in (study, *beside) for one in splits_of(each)),
    )


def write_page(findings: Findings, path: Path) -> Path:
    """Write the page whole or not at all; InputError if it would replace anything but a page."""
    _outputs.check_page(path, findings.path)
    _outputs.write(path, page(findings).encode())
    return path


def page(findings: Findings) -> str:
    """The page's text. Names and values are data from outside: all of it is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    from forerun.plots import splits
    from forerun.plots.mathml import mathml

    environment = Environment(
        loader=PackageLoader("forerun"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "number": number,
        "percent": lambda share: _unbroken(percent(share)),
        "error": lambda share: "–" if share is None else _unbroken(percent(share)),
        "value": _value,
        "doubling": _doubling,
        "unbroken": _unbroken,
    }
    environment.filters |= filters
    library, script = get_plotlyjs(), asset("report.js")
    return environment.get_template("report.html.j2").render(
        f=findings,
        explanation=findings.explanation,
        coverage=COVERAGE,
        now=datetime.now(UTC),
        version=__version__,
        amount=lambda value: _unbroken(amount(value, findings.target, findings.unit)),
        workers_told=lambda effect: _sentence(effect.told(findings.target, findings.unit)),
        between=lambda low, high: between(low, high, findings.target, findings.unit),
        what=_what(findings.target),
        drawn=tables.DRAWN,
        levels=_listed_levels(findings.explanation),
        measured_values=[
            (factor, _seen(factor, findings.table)) for factor in findings.space.values()
        ],
        mathml=Markup(mathml(findings.fitted.model.formula(style="python"), findings.target)),
        figures=_page_figures(findings),
        commands=_commands(findings),
        split=splits.section(findings.splits),
        style=asset("report.css"),
        library=library,
        script=script,
        script_hashes=" ".join(script_hash(text) for text in (library, script)),
    )


def write_figures(
    findings: Findings, directory: Path, suffix: Literal["png", "pdf"] = "png"
) -> list[Path]:
    """Write each figure into `directory` for a paper, and return the files."""
    from forerun.plots.paper import save

    directory.mkdir(parents=True, exist_ok=True)
    return [
        save(figure, directory / f"{name}.{suffix}")
        for name, figure in _paper_figures(findings).items()
    ]


def _page_figures(findings: Findings) -> dict[str, dict[str, Any]]:
    """What Plotly draws into each place of the page, by the place's id."""
    from forerun.plots import page as draw
    from forerun.plots.colours import PAGE

    f, target, unit = findings, findings.target, findings.unit
    points = f.table.drop(columns=target)
    drawn: dict[str, go.Figure] = {
        "measured": draw.measured_figure(f.rows, points, target, unit, PAGE),
        "contributions": draw.contributions_figure(tables.contributions(f.explanation), PAGE),
        "residuals": draw.residuals_figure(f.rows, points, target, unit, PAGE),
    }
    for place, curve in enumerate(f.curves):
        drawn[f"scaling-{place}"] = draw.scaling_figure(
            curve.table,
            curve.runs,
            curve.factor.name,
            target,
            unit,
            curve.factor.unit,
            curve.marks_lowest,
            PAGE,
        )
        # One legend in the text stands for all of them.
        drawn[f"scaling-{place}"].update_layout(showlegend=False, margin_t=12)
    for place, factor in enumerate(f.space.values()):
        drawn[f"residuals-{place}"] = draw.factor_residuals_figure(
            f.rows, points[factor.name], factor.kind == "numeric", factor.unit, PAGE
        )
    return {name: json.loads(figure.to_json()) for name, figure in drawn.items()}


def _paper_figures(findings: Findings) -> dict[str, Figure]:
    from forerun.plots import paper as draw

    f, target, unit = findings, findings.target, findings.unit
    drawn = {
        "measured": draw.measured_figure(f.rows, target, unit),
        "contributions": draw.contributions_figure(tables.contributions(f.explanation)),
        "residuals": draw.residuals_figure(f.rows, target, unit),
    }
    for place, curve in enumerate(f.curves, start=1):
        # The number keeps apart factors whose names differ only in what a file name cannot hold.
        slug = re.sub(r"[^A-Za-z0-9]+", "-", curve.factor.name).strip("-") or "factor"
        drawn[f"scaling-{place}-{slug[:40]}"] = draw.scaling_figure(
            curve.table,
            curve.runs,
            curve.factor.name,
            target,
            unit,
            curve.factor.unit,
            curve.marks_lowest,
        )
    return drawn


def _commands(findings: Findings) -> str:
    """What to type to get this page again."""
    path = str(findings.path)
    chosen = [] if findings.target == "seconds" else ["--target", findings.target]
    options = [
        word
        for option, key in (
            ("--expression", "expression"),
            ("--loss", "loss"),
            ("--strength", "strength"),
            ("--seed", "random_state"),
        )
        for word in (option, str(findings.fitted.settings[key]))
    ]
    return "\n".join(
        shlex.join(["forerun", *words, *chosen])
        for words in (["fit", path, *options], ["explain", path], ["report", path])
    )


def _listed_levels(explanation: Explanation) -> list[tuple[str, str, float | None]]:
    """(factor, level, multiple) for the page; of very many levels the lowest and the highest."""
    listed: list[tuple[str, str, float | None]] = []
    for name, rows in tables.levels(explanation).groupby("factor", sort=False):
        found = [(str(name), str(level), float(times)) for _, level, times in rows.to_numpy()]
        if len(found) > MOST_LEVELS:
            found.sort(key=lambda row: row[2])
            end = MOST_LEVELS // 2
            between_ends = (str(name), f"… {len(found) - 2 * end} more …", None)
            listed += [*found[:end], between_ends, *found[-end:]]
        else:
            listed += found
    return listed


def _what(target: str) -> str:
    names = {"seconds": "the run time", "memory_bytes": "the peak memory", "joules": "the energy"}
    return names.get(target, target)


def _seen(factor: Factor, table: pd.DataFrame) -> str:
    """What was measured of a factor: its values where they are few, else its ends."""
    values = sorted(table[factor.name].unique().tolist())
    if len(values) <= 12:
        return ", ".join(_value(value) for value in values)
    if factor.kind == "numeric":
        return f"{_value(values[0])} to {_value(values[-1])} ({len(values)} values)"
    return f"{', '.join(values[:12])} and {len(values) - 12} more"


def _doubling(effect: FactorEffect) -> str:
    return "" if effect.elasticity is None else f"× {number(2.0**effect.elasticity)}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _unbroken(text: str) -> str:
    """No line break between a number and its unit."""
    return text.replace(" ", "\u00a0")


def _value(value: Value) -> str:
    return value if isinstance(value, str) else number(float(value), 6)
