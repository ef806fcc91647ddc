"""`forerun suggest`: which runs would teach the model most for their cost."""

from __future__ import annotations

from typing import Annotated

import typer

from forerun.cli.common import (
    Json,
    StudyPath,
    Target,
    counted,
    fittable,
    print_json,
    results,
    table,
    working,
)
from forerun.errors import InputError
from forerun.quantities import between, percent, seconds


def suggest(
    study: StudyPath,
    runs: Annotated[int, typer.Option(help="How many runs.")] = 5,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Most seconds for all of them together.", show_default=False
        ),
    ] = None,
    target: Target = "seconds",
    json: Json = False,
) -> None:
    """Suggest the runs that would teach the model most for their cost."""
    from forerun.cli.tables import words
    from forerun.study import Study

    if runs < 1:
        raise InputError("--runs", runs, "a whole number of at least 1")
    if budget is not None and not 0 < budget < float("inf"):
        raise InputError("--budget", budget, "a positive number of seconds")
    with Study.open(study) as opened:
        column = fittable(opened, target)
        from forerun.modelling.suggest import suggest as suggestions  # late: it takes its time

        with working("looking for the most telling runs"):
            found = suggestions(opened, runs=runs, budget_seconds=budget, target=column)
    total = sum(one.seconds or 0.0 for one in found)
    if json:
        listed = [
            {
                "point": dict(one.point),
                "seconds": one.seconds,
                "low": one.low,
                "high": one.high,
                "gain": one.gain,
            }
            for one in found
        ]
        print_json(
            {"study": str(study), "target": column, "suggestions": listed, "total_seconds": total}
        )
        return
    made = table("time", "90 % interval", "gain", "run", numeric=("time", "90 % interval", "gain"))
    for one in found:
        time = width = "–"
        if one.seconds is not None and one.low is not None and one.high is not None:
            time, width = seconds(one.seconds), between(one.low, one.high)
        made.add_row(time, width, percent(one.gain), words(one.point))
    to = results()
    to.print(made)
    together = f", about {seconds(total)} together" if total else ""
    to.print(f"{counted(len(found), 'run')}{together}")
