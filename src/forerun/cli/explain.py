"""`forerun explain`: what drives the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
)
from forerun.quantities import number, percent, unit_of

if TYPE_CHECKING:
    from rich.table import Table

    from forerun.modelling.explain import ConstantSpread, TermEffect, WorkersEffect


def explain(study: StudyPath, target: Target = "seconds", json: Json = False) -> None:
    """Say what drives the time: factors, terms, workers, and how stable each constant is."""
    from forerun.cli.tables import effects, formula_lines
    from forerun.study import Study

    with Study.open(study) as opened:
        column = fittable(opened, target)
        explanation = study_model(opened, column).model.explain()
    if json:
        print_json({"study": str(study), "target": column, **explanation.to_dict()})
        return
    to = results()
    to.print(formula_lines(explanation.formula, to.width))
    share = percent(explanation.formula_share)
    to.print(f"\nThe formula alone carries {share} of what the model explains.")
    to.print(effects(explanation, column, to.width))
    if explanation.workers is not None:
        to.print(_workers(explanation.workers, column) + "\n")
    if len(explanation.terms) > 1:
        to.print(_terms(explanation.terms, to.width))
    if explanation.constants:
        to.print(_constants(explanation.constants))


def _workers(effect: WorkersEffect, target: str) -> str:
    from forerun.cli.tables import words

    told = effect.told(target, unit_of(target))
    return f"{shown(effect.name)}: {told}. With {words(effect.reference)}."


def _terms(terms: tuple[TermEffect, ...], width: int) -> Table:
    from forerun.cli.tables import wrapped

    made = table("term", "share", "dominates", numeric=("share",))
    for term in terms:
        made.add_row(
            wrapped(shown(term.text), width - 36), percent(term.share), shown(term.dominates)
        )
    return made


def _constants(constants: tuple[ConstantSpread, ...]) -> Table:
    made = table("constant", "value", "over resamples", numeric=("value", "over resamples"))
    for constant in constants:
        spread = f"{number(constant.low)} to {number(constant.high)}"
        made.add_row(shown(constant.name), number(constant.value), spread)
    return made
