"""Constraints: held against what counts, and never taken as kept where nothing can tell."""

from typing import Any

import pytest

from forerun.errors import InputError
from forerun.factors import Factor, Space
from forerun.infrastructure import Infrastructure
from forerun.planning.estimates import Estimate
from forerun.planning.planner import Plan, plan
from forerun.planning.request import Request
from forerun.quantities import seconds
from forerun.study import Run, Study

NODE: dict[str, Any] = {
    "nodes": 4,
    "processors": {"microarchitecture": "zen3", "cores": 8},
    "memory": "16 GiB",
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    space = Space([Factor.parse("batch=16,32,64"), Factor.parse("workers=1,2,4")])
    made = Study.create(tmp_path_factory.mktemp("study") / "s.db", space)
    for number, point in enumerate([*space.grid(), *space.grid()]):
        noise = 1 + 0.02 * (number * 7 % 5 - 2)
        taken = 10 + float(point["batch"]) / float(point["workers"])
        made.add(Run(point, {"seconds": noise * taken}))
    return made


def planned(study: Study, partition: dict[str, Any] | None = None, **changes: Any) -> Plan:
    cluster = {"name": "c", "partitions": {"cpu": {**NODE, **(partition or {})}}}
    asked = {"application": {"command": "train"}, "fixed": {"batch": "64"}, **changes}
    return plan(Request.model_validate(asked), Infrastructure.model_validate(cluster), study)


def estimate(found: Plan, place: int = 0) -> Estimate:
    one = found.considered[place].estimate
    assert one is not None
    return one


def test_walltime_is_held_against_the_upper_end(study: Study) -> None:
    second = estimate(planned(study), 1)
    between = (second.seconds + second.high) / 2
    for changes in (
        {"job": {"walltime": between}},
        {"partition": {"limits": {"walltime": between}}},
    ):
        found = planned(study, **changes)
        assert found.refused == {"walltime": 2}
        assert len(found.considered) == 1
    enough = planned(study, job={"walltime": second.high * 1.001})
    assert len(enough.considered) == 2
    first = estimate(found)
    with pytest.raises(InputError) as refused:
        planned(study, job={"walltime": first.seconds * 1.001})
    told = f"the fastest takes {seconds(first.seconds)}, up to {seconds(first.high)}"
    assert told in str(refused.value)


def test_the_wait_is_no_part_of_the_walltime(study: Study) -> None:
    limit = {"wait": "1h", "limits": {"walltime": "10min"}}
    assert not planned(study, limit).refused


def test_a_deadline_that_may_be_missed_is_kept_with_a_caution(study: Study) -> None:
    first = estimate(planned(study))
    deadline = (first.seconds + first.high) / 2
    found = planned(study, constraints={"deadline": deadline})
    assert found.refused == {"deadline": 2}
    told = f"may miss the deadline: it takes up to {seconds(first.high)}, more than "
    assert estimate(found).cautions == (told + seconds(deadline),)
    assert estimate(planned(study, constraints={"deadline": "1h"})).cautions == ()


@pytest.mark.parametrize(
    ("constraints", "told"),
    [
        ({"budget": 5}, "constraint budget: found no prices for some partitions, expected prices"),
        ({"memory": "1 GiB"}, "constraint memory: found nothing that tells what a worker needs"),
    ],
)
def test_what_cannot_be_checked_is_not_taken_as_kept(
    study: Study, constraints: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        planned(study, constraints=constraints)


def test_with_a_price_and_a_network_they_are_checked(study: Study) -> None:
    priced = {"price": {"node": 3.6}}
    assert not planned(study, priced, constraints={"budget": 5}).refused
    network = {"network": {"parameters": 1e6}}
    assert not planned(study, constraints={"memory": "4 GiB"}, **network).refused
    with pytest.raises(InputError, match=r"budget \(3\).*the cheapest costs 0\.0\d+ EUR"):
        planned(study, priced, constraints={"budget": 0.001})
