"""Efficiency, devices and reading, of predictions that are given."""

from typing import Any

import numpy as np
import pytest

from forerun.factors import Factor, Point, Space
from forerun.infrastructure import Infrastructure
from forerun.modelling.estimator import PerformanceModel
from forerun.planning.candidates import Candidate, Roles
from forerun.planning.estimates import Estimator, Models, Predicted, alone
from forerun.planning.request import Request

NODE = {
    "nodes": 8,
    "processors": {"microarchitecture": "zen3", "cores": 4},
    "memory": "16 GiB",
    "accelerators": {"count": 4, "kind": "nvidia", "memory": "16 GiB"},
    "price": {"node": 1.0, "device": 2.0},
}
STORES = {"home": {"bandwidth": "10 MB/s"}, "scratch": {"bandwidth": "1 GB/s"}}


def estimator(
    factors: tuple[str, ...],
    seconds: dict[Point, float],
    measured: dict[Point, float] | None = None,
    **changes: Any,
) -> Estimator:
    """One whose model is these seconds, from runs that took as long unless others are given."""
    space = Space([Factor.parse(one) for one in factors])
    cluster = {"name": "c", "partitions": {"p": NODE}, "storage": STORES}
    values, nothing = np.array(list(seconds.values())), np.zeros(len(seconds), bool)
    runs = measured or seconds
    model = PerformanceModel()
    model.runs_ = {
        "factors": {name: [point[name] for point in runs] for name in space},
        "target": list(runs.values()),
    }
    places = {point: place for place, point in enumerate(seconds)}
    return Estimator(
        Request.model_validate({"application": {"command": "train"}, **changes}),
        Infrastructure.model_validate(cluster),
        Models(space, model),
        Predicted(values, values, values, None, ~nothing, nothing, places),
    )


def scaling(factors: tuple[str, ...], one: Point, many: Point, times: float, **changes: Any) -> Any:
    """The efficiency of many, which take so many times as long as one."""
    return estimator(factors, {one: 1.0, many: times}, **changes).efficiency(many)


def test_one_worker_is_on_one_node() -> None:
    space = Space([Factor.parse("workers=1,8"), Factor.parse("nodes=1,2")])
    assert dict(alone(Roles(space), Point({"workers": 8, "nodes": 2}))) == {
        "workers": 1,
        "nodes": 1,
    }


def test_efficiency_is_of_time_a_sample() -> None:
    epochs = ("workers=1,4", "epochs=1,9")
    one, four = Point({"workers": 1, "epochs": 9}), Point({"workers": 4, "epochs": 9})
    assert scaling(epochs, one, four, 0.25) == pytest.approx(1)  # a quarter of the data each
    steps = ("workers=1,4", "steps=1,9")
    one, four = Point({"workers": 1, "steps": 9}), Point({"workers": 4, "steps": 9})
    assert scaling(steps, one, four, 1.0) == pytest.approx(1)  # each has a batch of its own
    assert scaling(steps, one, four, 1.0, batch_is="total") == pytest.approx(0.25)
    step = ("workers=1,4", "batch=8,16")
    one, four = Point({"workers": 1, "batch": 8}), Point({"workers": 4, "batch": 8})
    assert scaling(step, one, four, 1.25, samples=64) == pytest.approx(0.8)


def test_nodes_are_workers_where_none_are_counted() -> None:
    assert scaling(("nodes=1,4",), Point({"nodes": 1}), Point({"nodes": 4}), 0.5) == 0.5
    assert scaling(("threads=1,4",), Point({"threads": 4}), Point({"threads": 1}), 2.0) is None


def test_all_devices_that_the_job_asks_for_are_paid() -> None:
    point = Point({"batch": 8})
    paid = estimator(("batch=8,16",), {point: 3600.0}, job={"accelerators": 4})
    assert paid.estimate(Candidate(point, "p", 2)).cost == pytest.approx(2 * 1.0 + 8 * 2.0)
    workers = Point({"gpus": 3})
    each = estimator(("gpus=1,3",), {Point({"gpus": 1}): 1.0, workers: 3600.0})
    assert each.estimate(Candidate(workers, "p", 1)).cost == pytest.approx(1.0 + 3 * 2.0)


def reading(seconds: dict[Point, float], measured: dict[Point, float]) -> list[float]:
    """What candidates take that read for 100 s before they compute, as the runs did."""
    made = estimator(
        ("batch=8,16", "epochs=1,10"),
        seconds,
        measured,
        data={"size": "100 MB", "at": "home", "overlap": False},
    )
    return [made.estimate(Candidate(point, "p", 1, "home")).seconds for point in seconds]


def test_a_quicker_run_is_never_predicted_slower() -> None:
    asked = {Point({"batch": b, "epochs": 10}): s for b, s in ((8, 92.0), (16, 90.0))}
    waited = {Point({"batch": b, "epochs": 10}): 100.0 + b for b in (8, 16)}
    quick, quicker = reading(asked, waited)
    assert (quick, quicker) == (100.0, 100.0)
    cached = {Point({"batch": b, "epochs": 10}): 20.0 + b for b in (8, 16)}
    assert reading(asked, cached) == [192.0, 190.0]
