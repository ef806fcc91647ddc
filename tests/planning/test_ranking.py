"""What goes before what, and what a plan must not choose by itself."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from forerun.errors import InputError
from forerun.factors import Factor, Point, Space
from forerun.infrastructure import Infrastructure
from forerun.modelling.estimator import PerformanceModel
from forerun.planning.candidates import Candidate
from forerun.planning.estimates import Estimate, Models
from forerun.planning.planner import Plan, plan
from forerun.planning.ranking import ranked
from forerun.planning.reasons import Considered
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


def by_batch(point: Point) -> float:
    return 1 + 0.1 * float(point["batch"])


@pytest.mark.parametrize("objective", [{"cost": 1.0}, {"cost": 0.9, "time": 0.1}])
def test_what_costs_nothing_wins_by_cost(measured: Measured, objective: dict[str, float]) -> None:
    study = measured(
        lambda p: by_batch(p) * (4 if p["partition"] == "old" else 1),
        "batch=16,32,64",
        "partition=old,new",
    )
    partitions = {
        "new": {**NODE, "price": {"node": 2.0}},
        "old": {**NODE, "price": {"node": 0.0}},
    }
    found = planned(study, partitions, fixed={"batch": "64"}, objective=objective)
    assert found.chosen.candidate.partition == "old"
    assert found.chosen.score < found.considered[1].score
    free = {name: {**NODE, "price": {"node": 0.0}} for name in partitions}
    mixed = planned(study, free, fixed={"batch": "64"}, objective={"cost": 0.5, "time": 0.5})
    assert mixed.chosen.candidate.partition == "new"


STORES = {"home": {"bandwidth": "10 MB/s"}, "scratch": {"bandwidth": "1 GB/s"}}


def test_one_point_on_two_storages_is_told_apart_by_arithmetic(measured: Measured) -> None:
    study = measured(by_batch, "batch=16,32,64")
    data = {"size": "1 GB", "at": "home", "passes": 5, "measured_at": "cache", "overlap": False}
    found = planned(study, fixed={"batch": "64"}, data=data, storage=STORES)
    first, second = (one.estimate for one in found.considered)
    assert first is not None
    assert second is not None
    assert second.seconds - first.seconds == pytest.approx(500 - 100 - 5)
    assert found.chosen.reason == "fastest, by 6 min 35 s"


def test_what_is_added_to_both_makes_the_choice_no_less_sure(measured: Measured) -> None:
    """Of a total that is mostly start-up the model knows all but the run, and that as before."""
    study = measured(
        lambda p: by_batch(p) * (1.04 if p["kind"] == "b" else 1.0), "batch=16,32,64", "kind=a,b"
    )
    for startup in ("1s", "1h"):
        found = planned(study, fixed={"batch": "64"}, startup=startup)
        assert found.chosen.candidate.point["kind"] == "a"
        assert "cannot tell" not in found.chosen.reason


def test_beyond_the_measured_steps_the_line_says_what_is_sure(measured: Measured) -> None:
    """Each step of the one takes a tenth less; of ten thousand of them the model can be sure."""

    def taken(point: Point) -> float:
        return 5 + float(point["steps"]) * (0.9 if point["kind"] == "b" else 1.0)

    study = measured(taken, "steps=10,20,40", "kind=a,b")
    found = planned(study, fixed={"steps": "10000"})
    assert found.chosen.candidate.point["kind"] == "b"
    assert "cannot tell" not in found.chosen.reason


def test_the_plain_level_of_a_compiler_with_a_hole_is_taken(measured: Measured) -> None:
    study = measured(by_batch, "batch=16,32,64", "compiler=inductor,eager")
    found = planned(study, fixed={"batch": "64"})
    assert found.chosen.candidate.point["compiler"] == "eager"


def test_of_those_that_are_close_the_plainest_that_may_be_equal_is_taken() -> None:
    """The plainest of all is known to be worse; the next plainest is not."""
    # Scores are all that is compared of candidates with the same point: 10.00, 10.00 and 10.05.
    request = Request.model_validate({"application": {"command": "train"}})
    point = Point({"workers": 1})
    made = [
        Considered(Candidate(point, "cpu", nodes, "s", staged), Estimate(t, t, t, {"run": t}))
        for t, nodes, staged in ((10.0, 4, True), (10.0, 2, True), (10.05, 1, False))
    ]
    space = Space([Factor.parse("workers=1,2")])
    found = ranked(request, Models(space, PerformanceModel()), made)
    assert [one.candidate.nodes for one in found] == [2, 4, 1]


def test_amounts_without_end_are_refused(measured: Measured) -> None:
    study = measured(lambda point: 10.0 + float(point["batch"]), "batch=16,32,64")
    request = Request.model_validate(
        {"application": {"command": "t"}, "free": {"batch": "16,32"}, "steps": 1e308}
    )
    here = Infrastructure.model_validate({"name": "here", "partitions": {"cpu": NODE}})
    with pytest.raises(InputError, match="amounts without end"):
        plan(request, here, study)
