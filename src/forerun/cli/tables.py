"""How verbs print what a model says: the formula, its errors, what matters."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from forerun.cli.common import shown, table
from forerun.quantities import number, percent

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from forerun.factors import Factor, Value
    from forerun.modelling.explain import Explanation, FactorEffect
    from forerun.modelling.held_out import HeldOut
    from forerun.study import Study

_BAR = 20  # characters of the longest bar
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def formula_lines(formula: str, width: int) -> Text:
    """The formula, indented; one too long for the line has a line for each term, or more."""
    from rich.text import Text

    text = shown(formula)
    if len(text) + 2 > width:
        name, _, rest = text.partition(" = ")
        terms = [wrapped(term, width - 8, "\n        ") for term in _cut(rest, " + ")]
        text = f"{name} =\n      " + "\n    + ".join(terms)
    return Text(f"  {text}", style="bold")


def wrapped(product: str, width: int, newline: str = "\n") -> str:
    """A product on lines of at most `width`, broken after its dots, or at spaces if it must be."""
    lines = [""]
    for factor in _cut(product, "·"):
        if lines[-1] and len(lines[-1]) + len(factor) + 1 > width:
            lines.append("")
        lines[-1] += f"{factor}·"
    cut = [part for line in lines for part in wrap(line, width, break_long_words=False)]
    return newline.join(cut).removesuffix("·")


def held_out_errors(rows: Iterable[HeldOut]) -> Table:
    """The mean error of forerun and its peers on runs that were held out of the fit."""
    made = table("error on unseen runs", "random", "largest", numeric=("random", "largest"))
    for row in rows:
        style = "bold" if row.name == "forerun" else None
        made.add_row(shown(row.name), error(row.mape), error(row.mape_largest), style=style)
    return made


def error(share: float | None) -> str:
    """A held-out error, or a dash where there were too few runs to hold any out."""
    return "–" if share is None else percent(share)


def effects(explanation: Explanation, target: str, width: int, most: int | None = None) -> Table:
    """A line a factor: its share of the variation as a bar, and what it does to the target."""
    made = table("what matters", "share", "", f"effect on {target}", numeric=("share",))
    bar = _BAR if width >= 72 else _BAR // 2
    longest = max((f.contribution for f in explanation.factors), default=0.0) or 1.0
    for factor in explanation.factors[:most]:
        drawn = _bar(factor.contribution / longest, bar)
        made.add_row(shown(factor.name), percent(factor.contribution), drawn, effect(factor))
    return made


def effect(factor: FactorEffect) -> str:
    """What a factor does, in words: the effect of twice as much, or each level's multiple."""
    if factor.elasticity is not None:
        return f"twice as much: × {number(2.0**factor.elasticity)}"
    if not factor.levels:
        return ""
    ranked = sorted(factor.levels.items(), key=lambda item: item[1])
    listed = [f"{shown(level)} × {number(times)}" for level, times in ranked]
    return ", ".join(listed if len(listed) <= 4 else [*listed[:2], "…", *listed[-2:]])


def next_predict(study: Study, target: str) -> str:
    """A prediction that the user could ask for next: every factor at its usual value."""
    from forerun.plots.tables import reference

    rows = study.table(target)
    at = reference(rows, study.space)
    words = ["forerun", "predict", str(study.path)]
    for name in study.space.names:
        if rows[name].nunique() > 1:
            words += ["-f", f"{name}={shown(at[name])}"]
    if target != "seconds":
        words += ["--target", target]
    return shlex.join(words)


def span(factor: Factor, seen: Sequence[float | str]) -> str:
    """What was measured of a factor, for a message: `1 to 8`, or its levels."""
    if factor.kind == "numeric":
        numbers = [float(value) for value in seen]
        text = f"{number(min(numbers), 6)} to {number(max(numbers), 6)}"
        return f"{text} {factor.unit}".strip()
    names = sorted({shown(value) for value in seen})
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def words(point: Mapping[str, Value]) -> str:
    """A point as running text: `batch 64, activation relu`."""
    return ", ".join(f"{shown(name)} {shown(value)}" for name, value in point.items())


def _bar(share: float, width: int) -> str:
    whole, part = divmod(round(max(share, 0.0) * width * 8), 8)
    return "█" * whole + (_EIGHTHS[part] if part else "")


def _cut(text: str, sign: str) -> list[str]:
    """The parts of a sum or product: cut at each `sign` that no bracket holds."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and text.startswith(sign, place):
            parts.append(text[start:place])
            start = place + len(sign)
    return [*parts, text[start:]]
