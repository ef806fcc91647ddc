"""`forerun fit`: from runs to a formula, its error on runs that it has not seen, what matters."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from forerun.cli.common import (
    Json,
    StudyPath,
    Target,
    counted,
    fittable,
    note,
    print_json,
    results,
    shown,
    working,
)
from forerun.errors import InputError
from forerun.quantities import percent

if TYPE_CHECKING:
    from forerun.modelling.kept import KeptModel
    from forerun.study import Study


def fit(
    study: StudyPath,
    target: Target = "seconds",
    expression: Annotated[
        Literal["auto", "generic"],
        typer.Option(help="auto: chosen by cross-validation. generic: the published expression."),
    ] = "auto",
    loss: Annotated[
        Literal["log", "relative", "absolute"], typer.Option(help="The error that is made small.")
    ] = "log",
    strength: Annotated[
        str, typer.Option(metavar="auto|NUMBER", help="Weight of the penalty, at least 0.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="The same runs and seed give the same model.")] = 0,
    no_compare: Annotated[
        bool, typer.Option("--no-compare", metavar="", help="Leave out the held-out errors.")
    ] = False,
    refit: Annotated[
        bool,
        typer.Option("--refit", metavar="", help="Fit even if the study's model is up to date."),
    ] = False,
    json: Json = False,
) -> None:
    """Fit the model to a study's runs and keep it in the study.

    Prints the formula, the error on held-out runs beside a log-log straight line and a random
    forest, and what matters most. Held out are, in turn, random runs and the largest runs.
    """
    from forerun.study import Study

    weight = _strength(strength)
    with Study.open(study) as opened:
        column = fittable(opened, target)
        from forerun.modelling.kept import fit_kept  # late: a wrong study is refused at once

        settings: dict[str, Any] = {
            "expression": expression,
            "loss": loss,
            "strength": weight,
            "random_state": seed,
        }
        with working(f"fitting {column}"):
            fitted = fit_kept(opened, column, compare=False, refit=refit, **settings)
        if not fitted.new:
            note(f"{opened.path}: model is up to date, fitted {fitted.fitted}; --refit fits again")
        if not json:
            _print_formula(opened, fitted)  # at once: the comparison takes several fits more
        if not no_compare:
            with working("comparing on held-out runs"):
                compared = fit_kept(opened, column, **settings)
            fitted = replace(compared, new=fitted.new)
        if json:
            print_json(document(opened, fitted))
        else:
            _print_rest(opened, fitted)


def document(study: Study, fitted: KeptModel) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "study": str(study.path),
        "target": fitted.target,
        "runs": fitted.runs,
        "settings": dict(fitted.settings),
        "fitted_now": fitted.new,
        "formula": {s: fitted.model.formula(style=s) for s in ("text", "latex", "python")},
        "held_out": [asdict(row) for row in fitted.held_out],
        "explanation": fitted.model.explain().to_dict(),
        "notes": list(fitted.model.notes_),
    }


def _print_formula(study: Study, fitted: KeptModel) -> None:
    from forerun.cli.tables import formula_lines

    to = results()
    runs, factors = counted(fitted.runs, "run"), counted(len(study.space), "factor")
    to.print(f"{shown(study.path)}: {runs}, {factors}\n", style="bold")
    to.print(formula_lines(fitted.model.formula(), to.width))


def _print_rest(study: Study, fitted: KeptModel) -> None:
    from forerun.cli.tables import effects, held_out_errors, next_predict
    from forerun.plots.tables import repeat_spread

    to = results()
    if fitted.held_out:
        to.print(held_out_errors(fitted.held_out))
    spread = repeat_spread(study.table(fitted.target), fitted.target)
    if spread is not None:
        to.print(f"Repeats of a point spread by {percent(spread)}: noise, or a factor is missing.")
    to.print(effects(fitted.model.explain(), fitted.target, to.width, most=8))
    for line in fitted.model.notes_:
        to.print(f"note: {shown(line)}")
    to.print(f"\nnext: {shown(next_predict(study, fitted.target))}", soft_wrap=True)


def _strength(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InputError("--strength", text, "auto or a number of at least 0")
    return value
