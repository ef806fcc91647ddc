"""Each candidate has its own cautions; those that are refused have their reason."""

from typing import Any

import pytest

from forerun.factors import Factor, Space
from forerun.infrastructure import Infrastructure
from forerun.modelling.kept import model_of
from forerun.modelling.teaching import as_table
from forerun.planning.cautions import cautions_of
from forerun.planning.estimates import Models
from forerun.planning.planner import EXAMPLES, Plan, plan
from forerun.planning.request import Request
from forerun.study import Run, Study

NODE: dict[str, Any] = {
    "nodes": 4,
    "processors": {"microarchitecture": "zen3", "cores": 4},
    "memory": "16 GiB",
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    space = Space(Factor.parse(text) for text in ("batch=16,32,64", "workers=1,2,4", "nodes=1,2"))
    made = Study.create(tmp_path_factory.mktemp("study") / "s.db", space)
    for number, point in enumerate(space.grid()):
        noise = 1 + 0.01 * (number * 7 % 5 - 2)
        batch, workers, nodes = (float(point[name]) for name in space)
        if workers / nodes <= 2:
            made.add(Run(point, {"seconds": noise * (10 + 9 * batch / workers)}))
    return made


def planned(study: Study, **changes: Any) -> Plan:
    cluster = {"name": "c", "partitions": {"cpu": NODE}}
    asked = {"application": {"command": "train"}, "fixed": {"batch": "64"}, **changes}
    return plan(Request.model_validate(asked), Infrastructure.model_validate(cluster), study)


def test_cautions_of_all_are_those_of_each_alone(study: Study) -> None:
    models = Models(study.space, model_of(study).model)
    wide = ("batch=8,16,64,128", "workers=1,4,8,16", "nodes=1,2,4")
    points = list(Space(Factor.parse(text) for text in wide).grid())
    found = cautions_of(models, points)
    for point in points:
        alone = models.seconds.cautions(as_table([point], models.space))
        assert sorted(found.get(point, ())) == sorted(alone)
    assert 0 < len(found) < len(points)


def test_others_than_the_chosen_one_have_theirs(study: Study) -> None:
    found = planned(study, free={"workers": "1,2,4,8"})
    by_workers: dict[object, set[bool]] = {}
    for one in found.to_dict()["candidates"]:
        beyond = any("workers = 8 is outside" in line for line in one["cautions"])
        by_workers.setdefault(one["point"]["workers"], set()).add(beyond)
    assert by_workers == {1: {False}, 2: {False}, 4: {False}, 8: {True}}


def test_what_is_refused_is_shown_by_some_examples(study: Study) -> None:
    found = planned(study, free={"workers": "1..400:1"}, constraints={"deadline": "3min"})
    document = found.to_dict()
    examples = document["refused_examples"]
    assert len(examples) == EXAMPLES
    assert sum(document["refused"].values()) > EXAMPLES
    kinds = {one["reason"].partition(":")[0] for one in examples}
    assert len(kinds) == min(len(document["refused"]), EXAMPLES)
    late = next(one for one in examples if one["reason"].startswith("deadline: "))
    assert late["point"]["workers"] in (1, 2, 3)
    assert set(late) == {"point", "partition", "nodes", "storage", "staged", "reason"}
