"""How much is to be done: steps, epochs and samples, with and without a batch effect."""

from pathlib import Path
from typing import Any

import pytest

from forerun.errors import InputError
from forerun.factors import Factor, Point, Space
from forerun.infrastructure import Infrastructure
from forerun.planning.amounts import Amounts
from forerun.planning.candidates import Candidate
from forerun.planning.planner import plan
from forerun.planning.request import Request
from forerun.study import Run, Study

EFFECT = {"reference": 64, "noise": 64}  # twice the batch, half as many samples again


def request(**changes: Any) -> Request:
    return Request.model_validate({"application": {"command": "train"}, **changes})


def space(*factors: str) -> Space:
    return Space([Factor.parse(one) for one in factors])


def applied(of: Request, at: Space, **point: Any) -> tuple[Point, float]:
    """The one candidate's point, and how often it is done."""
    amounts = Amounts(of, at)
    (found,) = amounts.applied([Candidate(Point(point), "p", 1)])
    return found.point, amounts.repeats(found.point)


def test_what_the_study_times_is_done_so_many_times() -> None:
    step = space("batch=64,128", "workers=1,2")
    assert applied(request(steps=7), step, batch=64, workers=2)[1] == 7
    wanted = request(samples=12_800)
    assert applied(wanted, step, batch=64, workers=2)[1] == 100  # of 128 samples each
    assert applied(request(samples=12_800, batch_is="total"), step, batch=64, workers=2)[1] == 200
    larger = request(samples=12_800, batch_is="total", batch_effect=EFFECT)
    assert applied(larger, step, batch=128, workers=2)[1] == pytest.approx(150)


def test_samples_say_how_many_iterations_a_run_has() -> None:
    run = space("batch=64,128", "steps=10,1000")
    point, repeats = applied(request(samples=64_010), run, batch=64, steps=1000)
    assert (point["steps"], repeats) == (1001, 1)  # the start is paid once
    wanted = request(samples=64_000, batch_effect=EFFECT)
    assert applied(wanted, run, batch=64, steps=10)[0]["steps"] == 1000
    assert applied(wanted, run, batch=128, steps=10)[0]["steps"] == 750  # 96 000 samples


def test_epochs_are_as_many_whatever_the_batch_and_more_of_them_by_its_effect() -> None:
    run = space("batch=64,128", "epochs=1,3")
    assert (
        applied(request(free={"batch": "64,128"}), run, batch=128, epochs=100)[0]["epochs"] == 100
    )
    point, repeats = applied(request(batch_effect=EFFECT), run, batch=128, epochs=100)
    assert (point["epochs"], repeats) == (150, 1)


def test_candidates_that_differ_in_steps_alone_become_one() -> None:
    amounts = Amounts(request(samples=640), space("batch=64,128", "iters=10,1000"))
    every = [Candidate(Point({"batch": 64, "iters": n}), "p", 1) for n in (10, 1000)]
    assert [one.point["iters"] for one in amounts.applied(every)] == [10]


@pytest.mark.parametrize(
    ("factors", "changes", "told"),
    [
        (("steps=1,9",), {"samples": 10}, "samples: found no factor of the role batch"),
        (("epochs=1,9",), {"batch_effect": EFFECT}, "batch_effect: found no factor of the role"),
        (
            ("epochs=1,9", "batch=1,2"),
            {"samples": 10},
            "samples: found epochs, which counts passes",
        ),
        (
            ("steps=1,9", "batch=1,2"),
            {"free": {"batch": "1,2"}},
            "batch, the batch size: found free, while steps counts iterations whatever their "
            "batch, expected samples: N, to train with",
        ),
        (("iters=1,9", "batch=1,2"), {"batch_effect": EFFECT}, "found a batch_effect, while iters"),
    ],
)
def test_what_says_too_little_is_refused(
    factors: tuple[str, ...], changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError) as refused:
        Amounts(request(**changes), space(*factors)).applied([])
    assert told in str(refused.value)


def test_a_plan_by_samples_pays_its_start_once(tmp_path: Path) -> None:
    at = space("batch=16,32,64", "steps=10,100,1000")
    study = Study.create(tmp_path / "s.db", at)
    for point in at.grid():
        steps, batch = float(point["steps"]), float(point["batch"])
        study.add(Run(point, {"seconds": 20 + steps * (0.01 + 0.001 * batch)}))
    node = {"nodes": 1, "processors": {"microarchitecture": "zen3", "cores": 4}, "memory": "1 GiB"}
    vm = Infrastructure.model_validate({"name": "vm", "partitions": {"local": node}})
    found = plan(request(samples=64_000, free={"batch": "16,32,64"}), vm, study)
    assert dict(found.chosen.candidate.point) == {"batch": 64, "steps": 1000}
    assert found.chosen.estimate is not None
    assert found.chosen.estimate.seconds == pytest.approx(94, rel=0.05)
    assert found.count == 3


DATA = {"size": "1 GB"}


def test_data_is_read_once_an_epoch_unless_the_request_says() -> None:
    run, epochs = space("batch=64,128", "epochs=1,3"), Point({"batch": 128, "epochs": 90})
    assert Amounts(request(data=DATA), run).passes(epochs) == 90
    said = request(data={**DATA, "passes": 2})
    assert Amounts(said, run).passes(epochs) == 2
    step = space("batch=64,128")
    assert Amounts(request(data=DATA), step).passes(Point({"batch": 128})) == 1
    more = request(data={**DATA, "passes": 2}, batch_effect=EFFECT)
    assert Amounts(more, step).passes(Point({"batch": 128})) == 3
