"""`forerun predict`: what a configuration that nobody has run would take, with an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.common import (
    Json,
    StudyPath,
    Target,
    fittable,
    print_json,
    results,
    shown,
    study_model,
    table,
    warn,
)
from forerun.errors import InputError
from forerun.quantities import amount, between, percent, unit_of

if TYPE_CHECKING:
    import pandas as pd

    from forerun.factors import Factor, Value
    from forerun.modelling.estimator import PerformanceModel
    from forerun.study import Study

_MOST = 10_000  # combinations of one call
_NO_MEMORY = "runs like this one ran out of memory: it may not run at all"
_CAUTIONS = 8  # different warnings below a table


def predict(
    study: StudyPath,
    factors: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--factor",
            metavar="NAME=VALUES",
            show_default=False,
            help="A value (batch=512), a list (workers=1,2) or a range (batch=16..256).",
        ),
    ] = None,
    target: Target = "seconds",
    coverage: Annotated[
        float, typer.Option(help="The share of runs that the interval shall hold.")
    ] = 0.9,
    json: Json = False,
) -> None:
    """Predict configurations, each with an interval and a warning where it extrapolates.

    Lists and ranges give a table of all combinations. A factor that never varied may be left out.
    """
    from forerun.study import Study

    if not 0 < coverage < 1:
        raise InputError("--coverage", coverage, "a share between 0 and 1, such as 0.9")
    with Study.open(study) as opened:
        column = fittable(opened, target)
        points = chosen_points(opened, column, factors or [])
        answer = predictions(study_model(opened, column).model, points, coverage)
    if json:
        print_json(
            {
                "study": str(study),
                "target": column,
                "unit": unit_of(column),
                "coverage": coverage,
                "points": answer,
            }
        )
    elif len(answer) == 1:
        _print_one(answer[0], column, coverage)
    else:
        _print_table(answer, points, column, coverage)


def chosen_points(study: Study, target: str, given: Sequence[str]) -> pd.DataFrame:
    """All combinations of the values given, with the columns and types of the study's table."""
    import pandas as pd

    seen = study.table(target)
    if seen.empty:
        raise InputError(f"{study.path}: no run that ended well has {target}")
    values = _values(study, seen, given)
    count = math.prod(len(listed) for listed in values.values())
    if count > _MOST:
        raise InputError("-f", f"{count} combinations", f"at most {_MOST}")
    made = pd.DataFrame(list(product(*values.values())), columns=list(values))
    return made.astype(dict.fromkeys(study.space.numeric, float))


def predictions(
    model: PerformanceModel, points: pd.DataFrame, coverage: float
) -> list[dict[str, Any]]:
    """One document a point: the prediction, its interval, the formula alone, what to beware of."""
    low, high = model.predict_interval(points, coverage)
    columns = zip(
        points.to_dict("records"),
        model.predict(points),
        low,
        high,
        model.predict_formula(points),
        model.feasible(points),
        strict=True,
    )
    return [
        {
            "point": _plain(point),
            "predicted": float(predicted),
            "low": float(bottom),
            "high": float(top),
            "formula": float(formula),
            "feasible": bool(feasible),
            "cautions": ([] if feasible else [_NO_MEMORY]) + model.cautions(points.iloc[[row]]),
        }
        for row, (point, predicted, bottom, top, formula, feasible) in enumerate(columns)
    ]


def _values(study: Study, seen: pd.DataFrame, given: Sequence[str]) -> dict[str, list[Value]]:
    """The values to predict at for each factor; a factor that never varied has its one value."""
    asked: dict[str, list[Value]] = {}
    for text in given:
        name, equals, listed = text.partition("=")
        if not equals:
            raise InputError("-f", text, "NAME=VALUES, such as batch=512")
        if name not in study.space:
            known = f"one of {', '.join(study.space.names)}, the study's factors"
            raise InputError("-f", name, f"{known} (import leaves out what never changes)")
        if name in asked:
            raise InputError("-f", f"{name} twice", "each factor once")
        asked[name] = _listed(study.space[name], text, listed)
    constant = {n: [seen[n].iloc[0]] for n in study.space.names if seen[n].nunique() == 1}
    missing = [name for name in study.space.names if name not in asked and name not in constant]
    if missing:
        from forerun.cli.tables import span

        named = "; ".join(f"{n} ({span(study.space[n], seen[n].tolist())})" for n in missing)
        raise InputError(f"{study.path}: -f NAME=VALUE is missing for {named}")
    return {name: asked.get(name) or constant[name] for name in study.space.names}


def _listed(factor: Factor, text: str, listed: str) -> list[Value]:
    """The values of one `-f`; a level may itself hold a comma, or look like a number."""
    from forerun.factors import Factor

    if factor.kind == "numeric":
        return [factor.value(value) for value in Factor.parse(text).values]
    return [listed] if listed in factor.values else [level.strip() for level in listed.split(",")]


def _plain(point: Mapping[Any, Any]) -> dict[str, Value]:
    """A point as JSON takes it: whole numbers without a decimal point."""
    return {
        str(name): int(v) if isinstance(v, float) and v.is_integer() else v
        for name, v in point.items()
    }


def _print_one(answer: dict[str, Any], target: str, coverage: float) -> None:
    to = results()
    unit = unit_of(target)
    to.print(amount(answer["predicted"], target, unit), style="bold", end="")
    held = between(answer["low"], answer["high"], target, unit)
    to.print(f"   {percent(coverage)} of such runs: {held}")
    to.print(f"formula alone: {amount(answer['formula'], target, unit)}", style="dim")
    for line in answer["cautions"]:
        warn(line)


def _print_table(
    answers: list[dict[str, Any]], points: pd.DataFrame, target: str, coverage: float
) -> None:
    unit = unit_of(target)
    varied = [name for name in points.columns if points[name].nunique() > 1]
    held = f"{percent(coverage)} interval"
    made = table(
        *varied,
        target,
        held,
        "formula",
        "",
        numeric=(*points.select_dtypes("number"), target, held, "formula"),
    )
    for answer in answers:
        marks = [] if answer["feasible"] else ["may run out of memory"]
        marks += ["extrapolates"] if set(answer["cautions"]) - {_NO_MEMORY} else []
        made.add_row(
            *(shown(answer["point"][name]) for name in varied),
            amount(answer["predicted"], target, unit),
            between(answer["low"], answer["high"], target, unit),
            amount(answer["formula"], target, unit),
            ", ".join(marks),
        )
    results().print(made)
    lines = list(dict.fromkeys(line for answer in answers for line in answer["cautions"]))
    for line in lines[:_CAUTIONS]:
        warn(line)
    if len(lines) > _CAUTIONS:
        warn(f"and {len(lines) - _CAUTIONS} more of this kind")
