"""Reasons that a person can follow with the table alone."""

from typing import Any

from forerun.factors import Point
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate
from forerun.planning.estimates import Estimate
from forerun.planning.reasons import Considered, with_reasons
from forerun.planning.request import Request

CLUSTER = Infrastructure.model_validate(
    {
        "name": "c",
        "partitions": {
            "cpu": {
                "nodes": 8,
                "processors": {"microarchitecture": "zen3", "cores": 4},
                "memory": "1 GiB",
            }
        },
    }
)


def considered(seconds: float, cost: float, **point: Any) -> Considered:
    estimate = Estimate(seconds, seconds * 0.9, seconds * 1.1, {"run": seconds}, cost)
    return Considered(Candidate(Point(point), "cpu", 1), estimate, score=seconds)


def reasons(ranked: list[Considered], **changes: Any) -> list[str]:
    request = Request.model_validate({"application": {"command": "train"}, **changes})
    return [one.reason for one in with_reasons(request, CLUSTER, ranked)]


def test_the_factor_that_lost_most_and_the_whole_loss() -> None:
    ranked = [
        considered(10, 1, batch=64, variant="fast"),
        considered(14, 1, batch=64, variant="eager"),
        considered(20, 1, batch=32, variant="fast"),
        considered(25, 1, batch=32, variant="eager"),
    ]
    assert reasons(ranked) == [
        "fastest, by 4 s",
        "variant eager instead of fast: 4 s more",
        "batch 32 instead of 64: 10 s more",
        "batch 32 instead of 64: 11 s of 15 s more",
    ]


def test_who_is_no_slower_lost_by_something_else() -> None:
    weighed = [considered(10, 1, workers=2), considered(8, 2.5, workers=4)]
    assert reasons(weighed, objective={"time": 0.6, "cost": 0.4}) == [
        "best by the objective's weights",
        "workers 4 instead of 2: 2 s less, but 1.50 EUR more",
    ]
    close = [considered(10, 1, workers=2), considered(9.95, 1, workers=4)]
    assert reasons(close) == [
        "simplest of those that are nearly as good",
        "workers 4 instead of 2: 50 ms less, which the model cannot tell from none, "
        "and less simple",
    ]
    assert reasons([close[0], considered(10, 1, workers=4)])[1] == (
        "workers 4 instead of 2: as good and less simple"
    )


def test_one_alone() -> None:
    assert reasons([considered(10, 1, workers=2)]) == ["the only one that can be had"]
