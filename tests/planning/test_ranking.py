"""What goes before what, and what a plan must not choose by itself."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from forerun.errors import InputError
from forerun.factors import Factor, Point, Space
from forerun.infrastructure import Infrastructure
from forerun.planning.planner import Plan, plan
from forerun.planning.request import Request
from forerun.study import Run, Study

NODE: dict[str, Any] = {
    "nodes": 4,
    "processors": {"microarchitecture": "zen3", "cores": 8},
    "memory": "16 GiB",
}
Measured = Callable[..., Study]


def wobble() -> Iterator[float]:
    """Noise of half a percent that is the same each time."""
    return (1 + 0.005 * (number * 7 % 5 - 2) / 2 for number in count())


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    """Studies of two runs at each point of a grid; what they take is given."""
    made = count()

    def measure(taken: Callable[[Point], float], *factors: str | Factor) -> Study:
        space = Space([f if isinstance(f, Factor) else Factor.parse(f) for f in factors])
        study = Study.create(tmp_path / f"{next(made)}.db", space)
        for point, noise in zip([*space.grid(), *space.grid()], wobble(), strict=False):
            study.add(Run(point, {"seconds": noise * taken(point)}))
        return study

    return measure


def planned(study: Study, partitions: dict[str, Any] | None = None, **changes: Any) -> Plan:
    storage = changes.pop("storage", {})
    cluster = {"name": "c", "partitions": partitions or {"cpu": NODE}, "storage": storage}
    request = Request.model_validate({"application": {"command": "train"}, **changes})
    return plan(request, Infrastructure.model_validate(cluster), study)


@pytest.mark.parametrize(
    ("factor", "told"),
    [
        (Factor.parse("steps=10,100"), "steps, the steps of a run: found neither fixed nor free"),
        (
            Factor.parse("kernel=3,5", intrinsic=True),
            "kernel, an intrinsic factor: found neither fixed nor free",
        ),
    ],
)
def test_less_work_is_not_chosen_for_being_quicker(
    measured: Measured, factor: Factor, told: str
) -> None:
    name = factor.name
    study = measured(lambda p: 1 + float(p["batch"]) * float(p[name]), "batch=16,32,64", factor)
    with pytest.raises(InputError, match=told):
        planned(study, fixed={"batch": "64"})
    last = str(factor.values[-1])
    found = planned(study, fixed={"batch": "64", name: last}).chosen.candidate.point
    assert found[name] == factor.values[-1]
    free = {"free": {name: ",".join(map(str, factor.values))}}
    assert (
        planned(study, fixed={"batch": "64"}, **free).chosen.candidate.point[name]
        == (factor.values[0])
    )
