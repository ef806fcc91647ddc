"""Times and their intervals beyond the measured steps: what plans of 100 epochs rest on."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from forerun.factors import Factor, Point, Space
from forerun.infrastructure import Infrastructure
from forerun.modelling.estimator import PerformanceModel
from forerun.modelling.kept import model_of
from forerun.modelling.steps import straight
from forerun.modelling.teaching import as_table
from forerun.planning.estimates import FLAT, Models, predict
from forerun.planning.planner import plan
from forerun.planning.request import Request
from forerun.study import Run, Study

SPACE = Space([Factor.parse("epochs=1,3"), Factor.parse("batch=16,32,64,128")])
NODE = {"nodes": 1, "processors": {"microarchitecture": "zen3", "cores": 4}, "memory": "16 GiB"}
VM = Infrastructure.model_validate({"name": "vm", "partitions": {"local": NODE}})


def seconds(batch: float, epochs: float) -> float:
    return 3 + epochs * 20 / float(batch**0.5)


def noisy(path: Path, noise: float, seed: int = 0) -> Study:
    study = Study.create(path / "s.db", SPACE)
    wobble = np.random.default_rng(seed)
    for point in [*SPACE.grid()] * 3:
        taken = seconds(float(point["batch"]), float(point["epochs"]))
        taken *= float(np.exp(noise * wobble.standard_normal()))
        study.add(Run(point, {"seconds": taken}))
    return study


def models_of(study: Study) -> Models:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Models(SPACE, model_of(study).model)


def test_the_interval_beyond_is_no_narrower_than_within_and_holds_the_truth(
    tmp_path: Path,
) -> None:
    batches = [float(value) for value in SPACE["batch"].values]
    many = [10, 30, 100, 1000]
    points = [Point({"epochs": n, "batch": b}) for n in (3, *many) for b in batches]
    found = predict(models_of(noisy(tmp_path, 0.1)), points)
    width = np.log(found.high / found.low).reshape(-1, len(batches))
    assert (np.diff(width, axis=0) >= -1e-9).all()  # further out it is never better known
    assert (width[1:] > width[0]).all()
    truth = np.array([[seconds(b, n) for b in batches] for n in many]).ravel()
    inside = (found.low[4:] <= truth) & (truth <= found.high[4:])
    assert inside.all()


def test_at_the_measured_steps_it_is_the_models_own_interval(tmp_path: Path) -> None:
    models = models_of(noisy(tmp_path, 0.05))
    measured = as_table([Point({"epochs": 3, "batch": 32})], SPACE)
    both = predict(models, [Point({"epochs": n, "batch": 32}) for n in (3, 100)])
    low, high = models.seconds.predict_interval(measured, 0.9)
    assert (both.low[0], both.high[0]) == pytest.approx((low[0], high[0]))


def flat(path: Path) -> Study:
    """Starting is nearly all of a run; with batch 128 the longer runs happened to be quicker."""
    study = Study.create(path / "flat.db", SPACE)
    wobble = np.random.default_rng(3)
    for point in [*SPACE.grid()] * 3:
        taken = 20 + 0.5 * float(point["epochs"])
        if point["batch"] == 128:
            taken = 21 - 0.5 * float(point["epochs"])
        study.add(Run(point, {"seconds": taken * float(np.exp(0.03 * wobble.standard_normal()))}))
    return study


def test_a_step_takes_something_even_where_longer_runs_were_quicker(tmp_path: Path) -> None:
    models = models_of(flat(tmp_path))
    points = [Point({"epochs": n, "batch": 128}) for n in (1, 3, 1000)]
    found = predict(models, points)
    assert found.seconds[1] < found.seconds[0]  # so the runs say
    each = (found.seconds[2] - found.seconds[1]) / 997
    assert each > 0.02
    assert found.is_flat.tolist() == [False, False, True]
    assert found.high[2] / found.low[2] > 3


def test_a_plan_says_that_steps_cannot_be_told_from_nothing(tmp_path: Path) -> None:
    request = Request.model_validate(
        {"application": {"command": "train"}, "fixed": {"epochs": 1000, "batch": 128}}
    )
    told = plan(request, VM, flat(tmp_path)).chosen.estimate
    assert told is not None
    assert FLAT in told.cautions


def test_steps_that_are_known_are_left_as_predicted(tmp_path: Path) -> None:
    model: PerformanceModel = models_of(noisy(tmp_path, 0.001)).seconds
    table = as_table([Point({"epochs": 100, "batch": 16})], SPACE)
    line = straight(model, SPACE, table)
    assert line.seconds[0] == pytest.approx(seconds(16, 100), rel=0.02)
