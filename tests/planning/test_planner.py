"""Plans over studies whose truth is known."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from forerun.errors import InputError
from forerun.factors import Factor, Point, Space
from forerun.infrastructure import Infrastructure
from forerun.planning.estimates import Estimate
from forerun.planning.planner import Plan, plan
from forerun.planning.request import Request
from forerun.study import Run, Study

SPACE = Space(
    [
        Factor.parse("batch=16,32,64"),
        Factor.parse("workers=1,2,4,8"),
        Factor.parse("steps=10,100,1000,10000", intrinsic=True),
        Factor.parse("variant=eager,compiled"),
    ]
)
CLUSTER: dict[str, Any] = {
    "name": "cluster",
    "partitions": {
        "cpu": {
            "nodes": 4,
            "processors": {"microarchitecture": "zen3", "cores": 4},
            "memory": "16 GiB",
            "price": {"node": 1.0},
            "power": {"node": 100},
        }
    },
}


def truth(batch: float, workers: float, steps: float, variant: str) -> float:
    """Compiling takes 20 s, and makes steps a third quicker."""
    start, speed = (21.0, 0.67) if variant == "compiled" else (1.0, 1.0)
    return start + steps * speed * (0.002 * batch / workers + 0.004)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    made = Study.create(tmp_path_factory.mktemp("study") / "s.db", SPACE)
    values = product(*(factor.values for factor in SPACE.values()))
    for point in (SPACE.point(dict(zip(SPACE, one, strict=True))) for one in values):
        seconds = truth(**dict(point))  # type: ignore[arg-type]
        measures = {"seconds": seconds, "memory_bytes": 2e6 * float(point["batch"]) + 1e8}
        made.add(Run(point, measures))
    return made


def request(**changes: Any) -> Request:
    given: dict[str, Any] = {
        "application": {"command": "train"},
        "fixed": {"batch": "64", "steps": "10000"},
        **changes,
    }
    return Request.model_validate(given)


def planned(study: Study, cluster: dict[str, Any] | None = None, **changes: Any) -> Plan:
    return plan(request(**changes), Infrastructure.model_validate(cluster or CLUSTER), study)


def chosen(found: Plan) -> dict[str, Any]:
    return found.chosen.candidate.setting


def test_the_fastest_is_found_with_its_time(study: Study) -> None:
    found = planned(study)
    assert chosen(found) | {"variant": "compiled", "workers": 8, "nodes": 2} == chosen(found)
    estimate = found.chosen.estimate
    assert estimate is not None
    assert estimate.seconds == pytest.approx(truth(64, 8, 10000, "compiled"), rel=0.05)
    assert estimate.low < estimate.seconds < estimate.high
    assert found.count == 8


def test_compiling_is_left_where_it_does_not_pay(study: Study) -> None:
    assert chosen(planned(study, fixed={"batch": "64", "steps": "100"}))["variant"] == "eager"
    assert chosen(planned(study, fixed={"batch": "64", "steps": "10"}))["variant"] == "eager"


def test_the_cheapest_is_another_one(study: Study) -> None:
    found = planned(study, objective={"cost": 1.0})
    assert chosen(found)["nodes"] == 1
    costs = [one.estimate.cost for one in found.considered if one.estimate]
    assert min(c for c in costs if c is not None) == costs[0]


def test_reasons_name_the_factor_and_the_seconds(study: Study) -> None:
    found = planned(study)
    reasons = {
        one.candidate.point["workers"]: one.reason
        for one in found.considered[1:]
        if one.candidate.point["variant"] == "compiled"
    }
    assert reasons[4].startswith("workers 4 instead of 8: ")
    assert reasons[4].endswith("s more")
    assert found.chosen.reason.startswith("fastest, by ")


def test_what_cannot_be_had_is_counted_with_its_reason(study: Study) -> None:
    small = {**CLUSTER, "partitions": {"cpu": {**CLUSTER["partitions"]["cpu"], "nodes": 1}}}
    found = planned(study, small)
    assert found.refused == {"2 nodes, more than the 1 of cpu": 2}
    assert chosen(found)["workers"] == 4


def test_a_job_that_may_take_longer_than_the_partition_allows(study: Study) -> None:
    limited = {**CLUSTER["partitions"]["cpu"], "limits": {"walltime": "2h"}}
    with pytest.raises(InputError, match="a job of 3 h, longer than the 2 h of cpu"):
        planned(study, {**CLUSTER, "partitions": {"cpu": limited}}, job={"walltime": "3h"})


def test_a_deadline_that_a_dearer_one_meets(study: Study) -> None:
    slowest = truth(64, 1, 10000, "eager")
    found = planned(study, objective={"cost": 1.0}, constraints={"deadline": slowest / 4})
    estimate = found.chosen.estimate
    assert estimate is not None
    assert estimate.seconds <= slowest / 4
    assert found.refused["deadline"] > 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"constraints": {"budget": 0.0001}},
            "found nothing that keeps its constraints: budget (8), expected other ones: the "
            "fastest takes ",
        ),
        ({"constraints": {"efficiency": "99%", "deadline": "10s"}}, "deadline"),
        ({"target": {"partition": "gpu"}}, "cluster, partition: found gpu, expected one of cpu"),
        ({"fixed": {"steps": "10"}}, "batch, the batch size: found neither fixed nor free"),
        ({"fixed": {"batch": "8", "speed": "9"}}, "fixed: speed: found no such factor"),
        ({"target": {"nodes": 64}}, "64 nodes, more than the 4 of cpu"),
        (
            {"free": {"batch": "1..60000:1"}, "fixed": {"steps": "10"}},
            "candidates, expected at most 200000",
        ),
        ({"measured_on": "gpu"}, "partition: found gpu"),
        ({"wishes": {"accelerator": "nvidia"}}, "no accelerators in cpu"),
        ({"job": {"queue": "gpu"}}, "queue of request: found gpu, expected one of cpu"),
        ({"job": {"cores": 6}}, "6 cores a node, more than the 4 of cpu"),
        ({"job": {"processes": 3, "cores_per_process": 2}}, "6 cores a node, more than the 4 of"),
        ({"job": {"memory": "20 GiB"}}, "20 GiB of memory a node, more than the 16 GiB of cpu"),
        ({"data": {"size": "1 GB", "at": "tape"}}, None),
    ],
)
def test_what_cannot_be_planned_is_told_in_one_line(
    study: Study, changes: dict[str, Any], told: str | None
) -> None:
    if told is None:
        with_storage = {**CLUSTER, "storage": {"home": {"bandwidth": "1 GB/s"}}}
        with pytest.raises(InputError, match=r"data\.at: found tape, expected a storage"):
            planned(study, with_storage, **changes)
        return
    with pytest.raises(InputError) as refused:
        planned(study, **changes)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


STORES = {"home": {"bandwidth": "10 MB/s"}, "scratch": {"bandwidth": "1 GB/s", "local": True}}


def stored(study: Study, **data: Any) -> Plan:
    """A plan for data on the slow one of two storages, with eight workers on two nodes."""
    given = {"size": "1 GB", "at": "home", "passes": 10, **data}
    free = {"fixed": {"batch": "64", "steps": "10000", "workers": "8", "variant": "eager"}}
    return planned(study, {**CLUSTER, "storage": STORES}, data=given, **free)


def on(found: Plan, storage: str) -> Estimate:
    one = next(c for c in found.considered if c.candidate.storage == storage)
    assert one.estimate is not None
    return one.estimate


def test_data_on_a_slow_disk_is_staged(study: Study) -> None:
    found = stored(study, measured_at="scratch", overlap=True)
    assert chosen(found)["data on"] == "scratch, staged"
    home, scratch = on(found, "home"), on(found, "scratch")
    assert home.seconds == pytest.approx(10e9 / 2 / 10e6)  # each node reads its half
    assert home.parts["run"] + home.parts["reading data"] == pytest.approx(home.seconds)
    assert scratch.parts["staging"] == pytest.approx(1e9 / 10e6)
    assert "data on home instead of scratch, staged" in found.considered[1].reason
    assert stored(
        study, measured_at="scratch", overlap=True, passes=1
    ).chosen.candidate.storage == ("home")


def test_reading_that_nothing_hides_is_added(study: Study) -> None:
    found = stored(study, measured_at="scratch", overlap=False)
    run, fast = on(found, "scratch").parts["run"], 10e9 / 2 / 1e9
    assert on(found, "home").seconds == pytest.approx(run - fast + 10e9 / 2 / 10e6)


def test_reading_is_taken_out_of_runs_that_were_measured_on_the_slow_disk(study: Study) -> None:
    found = stored(study, overlap=False, size="0.3 GB")
    home, scratch = on(found, "home"), on(found, "scratch")
    assert home.seconds == pytest.approx(truth(64, 8, 10000, "eager"), rel=0.05)
    slow, fast = 3e9 / 2 / 10e6, 3e9 / 2 / 1e9
    assert scratch.parts["run"] == pytest.approx(home.seconds - slow + fast)


def test_where_nobody_says_whether_reading_is_hidden_the_interval_holds_both(study: Study) -> None:
    ways = [on(stored(study, measured_at="scratch", overlap=way), "home") for way in (True, False)]
    neither = on(stored(study, measured_at="scratch"), "home")
    assert neither.seconds == pytest.approx(sum(way.seconds for way in ways) / 2)
    assert neither.low <= ways[0].low
    assert neither.high >= ways[1].high


def test_runs_that_were_too_quick_for_their_disk(study: Study) -> None:
    found = stored(study, overlap=False)
    run = truth(64, 8, 10000, "eager")
    assert on(found, "home").seconds == pytest.approx(run + 10e9 / 2 / 10e6, rel=0.05)
    assert "too quick to have read their data from home" in on(found, "scratch").cautions[0]
    with pytest.raises(InputError, match=r"data\.measured_at: found tape, expected a storage"):
        stored(study, measured_at="tape")
    assert on(stored(study, measured_at="cache", overlap=False), "home").cautions == ()


def test_a_larger_batch_costs_samples(study: Study) -> None:
    free = {"fixed": {"steps": "1000"}, "free": {"batch": "16,64", "workers": "1"}}
    plain = planned(study, **free, samples=64_000.0, steps=1)
    assert chosen(plain)["batch"] == 64
    dear = {"reference": 16, "noise": 1}
    assert chosen(planned(study, **free, samples=64_000.0, batch_effect=dear))["batch"] == 16


def test_too_few_runs(tmp_path: Path) -> None:
    few = Study.create(tmp_path / "few.db", SPACE)
    few.add(
        Run(Point({"batch": 16, "workers": 1, "steps": 10, "variant": "eager"}), {"seconds": 1})
    )
    with pytest.raises(InputError, match="found 1 runs, expected at least 5"):
        planned(few)


def test_a_plan_is_written_whole(study: Study) -> None:
    document = planned(study).to_dict()
    assert document["candidates"][0]["seconds"] > 0
    assert document["considered"] == 8
    assert 0 in document["front"]
    first = document["candidates"][0]
    assert first["pays"] == document["pays"][0]
    # 20 s more to start; of 0.02 s a step a third less.
    assert first["pays"]["after"] == pytest.approx(3030, rel=0.15)
    plain = next(one for one in document["candidates"] if one["point"]["variant"] == "eager")
    assert plain["pays"] is None


def test_of_levers_that_do_nothing_the_plain_values_are_taken(tmp_path: Path) -> None:
    space = Space(
        [
            Factor.parse("batch=16,32,64"),
            Factor.parse("affinity=close,none"),
            Factor.parse("allocator=jemalloc,glibc"),
            Factor.parse("precision=bfloat16,float32"),
        ]
    )
    study = Study.create(tmp_path / "s.db", space)
    for number, point in enumerate(space.grid()):
        wobble = 1 + 0.002 * (number * 7 % 5 - 2)
        for again in (0.997, 1.003):
            study.add(Run(point, {"seconds": wobble * again * (1 + 0.1 * float(point["batch"]))}))
    found = planned(study, fixed={"batch": "64"}).chosen.candidate.point
    assert dict(found) == {
        "batch": 64,
        "affinity": "none",
        "allocator": "glibc",
        "precision": "float32",
    }


def test_a_memory_that_one_run_alone_has_is_not_modelled(tmp_path: Path) -> None:
    space = Space([Factor.parse("workers=1,2,4")])
    with Study.create(tmp_path / "s.db", space) as made:
        for wobble in (0.99, 1.0, 1.01):
            for point in space.grid():
                made.add(Run(point, {"seconds": wobble * (1 + 8 / float(point["workers"]))}))
        made.add(Run(Point({"workers": 4}), {"seconds": 3.0, "memory_bytes": 1e9}))
        found = planned(made, fixed={})
    assert found.chosen.candidate.point["workers"] == 4
    assert found.chosen.estimate is not None
    assert found.chosen.estimate.memory is None
