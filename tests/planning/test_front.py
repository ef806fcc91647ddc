"""The front: one rule for the table, the document and the figure."""

from dataclasses import replace

from forerun.factors import Point
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate
from forerun.planning.estimates import Estimate
from forerun.planning.front import on_front, taken_besides
from forerun.planning.planner import KEPT, Plan
from forerun.planning.reasons import Considered
from forerun.planning.request import Request
from forerun.plots.front import front

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


def considered(seconds: float, cost: float | None, nodes: int = 1) -> Considered:
    estimate = Estimate(seconds, seconds, seconds, {"run": seconds}, cost)
    return Considered(Candidate(Point({"workers": nodes}), "cpu", nodes), estimate)


def test_a_price_that_is_missing_is_not_nothing() -> None:
    ranked = [considered(10, 5.0, 4), considered(20, None, 3), considered(30, 1.0, 3)]
    assert taken_besides(ranked) == ("nodes", [4, 3, 3])
    assert on_front(ranked) == [True, True, False]
    assert on_front([ranked[0], considered(20, 2.0), ranked[2]]) == [True, True, True]
    assert taken_besides([ranked[0], ranked[2]]) == ("cost", [5.0, 1.0])


def test_places_of_the_front_are_in_the_document_and_the_figure_has_the_same() -> None:
    slow = [considered(10 + i, 5.0) for i in range(KEPT + 5)]
    every = [*slow, considered(9999, 1.0)]
    marked = tuple(
        replace(one, on_front=on) for one, on in zip(every, on_front(every), strict=True)
    )
    plan = Plan(Request.model_validate({"application": {"command": "t"}}), CLUSTER, marked, {})
    document = plan.to_dict()
    assert document["front"] == [0, KEPT]
    assert len(document["candidates"]) == KEPT + 1
    assert [document["candidates"][place]["seconds"] for place in document["front"]] == [10, 9999]
    assert front(plan).rows["front"].tolist() == [one.on_front for one in marked]
