"""Where the model goes beyond what was measured, for many candidates at little cost.

What the model warns of is a factor's value by itself, or workers with their nodes; so it is asked
once for each of those and not for each candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

from forerun.factors import Point
from forerun.modelling.teaching import as_table
from forerun.planning.estimates import Models


def cautions_of(models: Models, points: Sequence[Point]) -> dict[Point, tuple[str, ...]]:
    """The lines of each point that has any."""
    space, model, roles = models.space, models.seconds, models.roles
    points = list(dict.fromkeys(points))
    if not model.cautions(as_table(points, space)):
        return {}
    # A run that was measured: what is beyond the runs in a row that is else as this one is known.
    inside = {name: values[0] for name, values in model.runs_["factors"].items()}
    together = [name for name in (roles["workers"], roles["nodes"]) if name is not None]
    parts = [together, *([name] for name in space if name not in together)]
    found: dict[Point, tuple[str, ...]] = dict.fromkeys(points, ())
    for names in filter(None, parts):
        moved = {point: Point({**inside, **{n: point[n] for n in names}}) for point in points}
        distinct = list(dict.fromkeys(moved.values()))
        if not model.cautions(as_table(distinct, space)):
            continue
        lines = {one: tuple(model.cautions(as_table([one], space))) for one in distinct}
        for point in points:
            found[point] += lines[moved[point]]
    return {point: lines for point, lines in found.items() if lines}
