"""Runs that ran out of memory bound what is feasible."""

import json
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from forerun import PerformanceModel
from forerun.errors import LevelError
from forerun.modelling.feasibility import Boundary, fit_boundary

pytestmark = pytest.mark.filterwarnings("ignore::forerun.errors.ForerunWarning")


def grid(**values: Any) -> pd.DataFrame:
    return pd.DataFrame(product(*values.values()), columns=list(values))


def fitted(points: pd.DataFrame, fits: NDArray[np.bool_]) -> PerformanceModel:
    """A model of runs that fit into memory, told of those that did not."""
    model = PerformanceModel(expression="generic", strength=1e-3)
    return model.fit(points[fits], np.ones(int(fits.sum())), failed=points[~fits])


def test_a_batch_too_large_is_learnt() -> None:
    points = grid(batch=[16, 32, 64, 128, 256, 512], workers=[1, 2])
    model = fitted(points, (points.batch <= 128).to_numpy())
    asked = pd.DataFrame({"batch": [1, 16, 128, 256, 512, 10_000], "workers": 1})
    np.testing.assert_array_equal(model.feasible(asked), [True, True, True, False, False, False])


def test_a_product_of_factors_is_learnt() -> None:
    points = grid(batch=[16, 32, 64, 128, 256], depth=[18, 34, 50, 101], precision=["16", "32"])
    memory = points.batch * points.depth * points.precision.astype(int)
    model = fitted(points, (memory <= 150_000).to_numpy())
    finer = grid(batch=[24, 48, 96, 192], depth=[26, 42, 75], precision=["16", "32"])
    memory = finer.batch * finer.depth * finer.precision.astype(int)
    clear = (np.abs(np.log(memory / 150_000)) > np.log(1.5)).to_numpy()
    assert clear.sum() > 15
    np.testing.assert_array_equal(model.feasible(finer)[clear], (memory <= 150_000)[clear])


def test_one_failure_among_many_runs_is_enough() -> None:
    points = grid(batch=[16, 32, 64, 128], repeat=range(10))[["batch"]]
    both = pd.concat([points, pd.DataFrame({"batch": [512]})], ignore_index=True)
    model = fitted(both, (both.batch < 512).to_numpy())
    asked = pd.DataFrame({"batch": [16, 128, 512, 1024]})
    np.testing.assert_array_equal(model.feasible(asked), [True, True, False, False])


def test_without_failures_everything_is_feasible(fitted_free: PerformanceModel) -> None:
    asked = pd.DataFrame({"batch": [1, 10**9], "zero": [0, 1e300]})
    assert fitted_free.feasible(asked).tolist() == [True, True]
    assert fitted_free.boundary_ is None


@pytest.fixture
def fitted_free() -> PerformanceModel:
    table = pd.DataFrame({"batch": [16, 32, 64], "zero": [0, 1, 0]})
    none = table.iloc[:0]
    return PerformanceModel(expression="generic", strength=1e-3).fit(table, [1, 2, 4], failed=none)


def test_a_level_that_always_failed_is_infeasible_but_cannot_be_predicted() -> None:
    points = grid(network=["small", "tiny", "large"], batch=[16, 32, 64])
    model = fitted(points, (points.network != "large").to_numpy())
    assert model.feasible(points).tolist() == [True] * 6 + [False] * 3
    with pytest.raises(LevelError):
        model.predict(points)
    with pytest.raises(LevelError) as error:
        model.feasible(points.assign(network="medium"))
    assert str(error.value) == (
        "factor 'network': found 'medium', expected one of the 3 measured levels: large, small,"
        " tiny"
    )


def test_failed_runs_may_come_in_any_order_and_type() -> None:
    ran = pd.DataFrame({"batch": [16, 32, 64, 128], "zero": [0, 1, 0, 1]})
    failed = pd.DataFrame({"note": ["a", "b"], "zero": [0, 1], "batch": [512, 1024]}, dtype=object)
    model = PerformanceModel(expression="generic", strength=1e-3).fit(ran, [1, 2, 3, 4], failed)
    assert model.feasible(ran).all()
    assert not model.feasible(failed).any()
    rows = PerformanceModel(expression="generic", strength=1e-3)
    rows.fit(ran.to_numpy(), [1, 2, 3, 4], failed[["batch", "zero"]].to_numpy(float))
    assert not rows.feasible([[2000, 1]]).any()


def test_the_same_point_may_run_and_fail() -> None:
    points = pd.DataFrame({"batch": [16, 32, 64, 64, 64]})
    model = fitted(points, np.array([True, True, True, True, False]))
    assert model.feasible(pd.DataFrame({"batch": [16]})).tolist() == [True]


def test_a_boundary_survives_json() -> None:
    ran, failed = grid(batch=[16, 32], device=["a", "b"]), grid(batch=[64], device=["a", "b"])
    boundary = fit_boundary(ran, failed)
    again = Boundary.from_dict(json.loads(json.dumps(boundary.to_dict())))
    both = pd.concat([ran, failed])
    np.testing.assert_array_equal(again.feasible(both), boundary.feasible(both))
    assert again.columns.all == boundary.columns.all
