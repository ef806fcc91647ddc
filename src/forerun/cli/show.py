"""`forerun show`: what a study holds, how noisy it is, and what failed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forerun.cli.common import Json, StudyPath, counted, print_json, results, shown, table
from forerun.quantities import amount, between, percent, unit_of

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from forerun.study import Study

_ENDS = 3  # points shown at the fast and at the slow end
_LARGE_SPREAD = 0.3  # repeats this far apart were probably not the same point
_BESIDE = ("other_load", "system_seconds", "user_seconds", "wall_seconds")  # seldom modelled
_FAILURES = 10  # points with failures that are listed


def show(study: StudyPath, json: Json = False) -> None:
    """Show a study: runs, factors, what was measured, noise between repeats, failures, models."""
    from forerun.study import Study

    with Study.open(study) as opened:
        document = summary(opened)
    if json:
        print_json(document)
    else:
        _print(document)


def summary(study: Study) -> dict[str, Any]:
    """All that `show` shows, as one JSON document."""
    from forerun.cli.factor_table import factor_rows

    tables = {target: study.table(target) for target in study.targets()}
    failures = study.failures()
    names = list(study.space.names)
    values = {
        name: [one for rows in (*tables.values(), failures) for one in rows[name].unique().tolist()]
        for name in names
    }
    first = next(iter(tables), "")
    return {
        "study": str(study.path),
        "runs": len(study),
        "status": {"ok": len(study) - len(failures)} | _counts(failures),
        "commands": dict(study.commands),
        "factors": factor_rows(study.space, values),
        "measures": [_measure(target, rows[target]) for target, rows in tables.items()],
        "noise": _noise(tables[first], names, first) if first else None,
        "fastest": _ends(tables[first], names, first, slow=False) if first else [],
        "slowest": _ends(tables[first], names, first, slow=True) if first else [],
        "failures": _failures(failures, names),
        "models": [_model(study, target) for target in tables],
    }


def _counts(failures: pd.DataFrame) -> dict[str, int]:
    return {str(name): int(n) for name, n in failures["status"].value_counts().items()}


def _measure(target: str, column: pd.Series[Any]) -> dict[str, Any]:
    return {
        "name": target,
        "unit": unit_of(target),
        "runs": len(column),
        "median": float(column.median()),
        "low": float(column.min()),
        "high": float(column.max()),
    }


def _noise(rows: pd.DataFrame, names: list[str], target: str) -> dict[str, Any]:
    """The spread between repeats: of all points together, and of the worst one."""
    from forerun.measuring.noise import pooled_spread
    from forerun.plots.tables import repeats_of

    points = repeats_of(rows, names, target)
    spreads = [spread for one in points if (spread := pooled_spread([one])) is not None]
    return {
        "points": len(points),
        "repeated": len(spreads),
        "spread": pooled_spread(points),
        "high": max(spreads, default=None),
    }


def _ends(rows: pd.DataFrame, names: list[str], target: str, *, slow: bool) -> list[dict[str, Any]]:
    """The points with the smallest or largest median."""
    by: Any = names or [0] * len(rows)  # without a factor there is one point
    medians = rows.groupby(by, sort=False, observed=True)[target].median()
    ends = medians.sort_values(ascending=not slow, kind="stable").head(_ENDS)
    return [
        {"point": _point(names, key), target: float(value)} for key, value in ends.to_dict().items()
    ]


def _failures(failures: pd.DataFrame, names: list[str]) -> list[dict[str, Any]]:
    """How often each point ended badly, and how."""
    if failures.empty:
        return []
    counts = failures.groupby([*names, "status"], sort=False, observed=True).size()
    ranked: dict[Any, int] = counts.sort_values(ascending=False, kind="stable").to_dict()
    return [
        {"point": _point(names, key), "status": str(_values(key)[-1]), "runs": int(count)}
        for key, count in ranked.items()
    ]


def _point(names: Sequence[str], key: Any) -> dict[str, Any]:
    return dict(zip(names, _values(key), strict=False))  # what follows the factors is no value


def _values(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _model(study: Study, target: str) -> dict[str, Any]:
    """Whether a model of the column is kept, and whether it has seen all runs that are there."""
    stored = study.model_document(target)
    if stored is None:
        return {"target": target, "fitted": None, "current": False}
    current = stored.digest == study.digest(target)
    return {"target": target, "fitted": stored.fitted, "current": current}


def _print(document: Mapping[str, Any]) -> None:
    from forerun.cli.factor_table import factor_table

    to = results()
    counts = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in document["status"].items())
    runs = counted(document["runs"], "run")
    to.print(f"{shown(document['study'])}: {runs} ({counts})\n", soft_wrap=True)
    for name, text in document["commands"].items():
        to.print(f"{shown(' '.join(('command', name)).strip())}: {shown(text)}", soft_wrap=True)
    to.print(factor_table(document["factors"]))
    if not document["measures"]:
        to.print("nothing measured yet")
        return
    to.print(_measures(document["measures"]))
    to.print(_noise_line(document["noise"]) + "\n")
    target = document["measures"][0]["name"]
    to.print(_points(document["fastest"], "fastest", target))
    to.print(_points(document["slowest"], "slowest", target))
    if document["failures"]:
        to.print(_failed(document["failures"]))
    for model in document["models"]:
        if model["fitted"] is None and model["target"] in _BESIDE:
            continue
        to.print(_model_line(document["study"], model), soft_wrap=True)


def _measures(rows: Sequence[Mapping[str, Any]]) -> Table:
    made = table("measured", "runs", "median", "range", numeric=("runs", "median", "range"))
    for row in rows:
        low, high = row["low"], row["high"]
        made.add_row(
            shown(row["name"]),
            str(row["runs"]),
            amount(row["median"], row["name"], row["unit"]),
            between(low, high, row["name"], row["unit"]),
        )
    return made


def _noise_line(noise: Mapping[str, Any]) -> str:
    if noise["spread"] is None:
        one = noise["points"] == 1
        points = "the one point was not" if one else f"none of the {noise['points']} points was"
        return f"noise: unknown, {points} run twice"
    points = f"over the {noise['repeated']} of {noise['points']} points that have repeats"
    spread, high = percent(noise["spread"]), percent(noise["high"])
    hint = "; is a factor missing?" if noise["high"] > _LARGE_SPREAD else ""
    return f"noise: repeats of a point spread by {spread} ({points}; at most {high}{hint})"


def _points(rows: Sequence[Mapping[str, Any]], title: str, target: str) -> Table:
    made = table(title, "", numeric=(title,))
    for row in rows:
        made.add_row(amount(row[target], target, unit_of(target)), _words(row["point"]))
    return made


def _failed(rows: Sequence[Mapping[str, Any]]) -> Table:
    made = table("failed", "runs", "", numeric=("runs",))
    for row in rows[:_FAILURES]:
        made.add_row(shown(row["status"].replace("_", " ")), str(row["runs"]), _words(row["point"]))
    if len(rows) > _FAILURES:
        made.add_row("", "", f"and {counted(len(rows) - _FAILURES, 'more point')}")
    return made


def _words(point: Mapping[str, Any]) -> str:
    from forerun.cli.factor_table import level

    return ", ".join(f"{shown(name)} {level(value)}" for name, value in point.items())


def _model_line(path: str, model: Mapping[str, Any]) -> str:
    target, name = model["target"], shown(model["target"])
    command = f"forerun fit {shlex.quote(path)}" + (
        "" if target == "seconds" else f" --target {shlex.quote(target)}"
    )
    if model["fitted"] is None:
        return f"model of {name}: none yet ({shown(command)})"
    if model["current"]:
        return f"model of {name}: fitted {shown(model['fitted'])}, up to date"
    return f"model of {name}: fitted {shown(model['fitted'])}, out of date ({shown(command)})"
