"""Intervals hold what they say, contain the prediction, and widen outside the measured range."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from forerun import PerformanceModel
from forerun.modelling.intervals import GROWTH, LEAST_GROWTH, Intervals

Array = NDArray[np.float64]
COVERAGES = [0.01, 0.1, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999]

scores = st.lists(st.floats(0, 1e6), max_size=60).map(lambda found: np.sort(np.array(found)))


@given(scores)
def test_more_coverage_never_makes_a_narrower_interval(found: Array) -> None:
    intervals = Intervals(found, np.zeros(0))
    multiples = [intervals.multiple(coverage) for coverage in COVERAGES]
    assert multiples == sorted(multiples)
    assert multiples[0] >= 0


def test_the_multiple_is_a_quantile_of_the_held_out_errors() -> None:
    intervals = Intervals(np.arange(1, 100) / 10, np.zeros(0))
    assert intervals.multiple(0.9) == pytest.approx(9.0, rel=0.01)
    assert intervals.multiple(0.5) == pytest.approx(5.0, rel=0.01)
    assert intervals.multiple(0.999) >= 9.9  # past the largest error: no less than it


def test_without_held_out_runs_the_errors_are_taken_as_students() -> None:
    assert Intervals(np.zeros(0), np.zeros(0)).multiple(0.9) == pytest.approx(2.132, abs=1e-3)
    few = Intervals(np.array([0.1, 7.41, 20.0]), np.zeros(0))  # ten times what was stated
    assert few.multiple(0.9) == pytest.approx(21.32, rel=1e-3)
    assert Intervals(np.zeros(5), np.zeros(0)).multiple(0.9) == pytest.approx(2.132, abs=1e-3)


def test_growth_is_learnt_for_each_factor_from_the_runs_outside_of_it() -> None:
    zero, sure = np.zeros(3), np.full(3, 1e-9)
    near = np.array([0.1, -0.2, 0.1]), np.full(3, 0.1), np.zeros((3, 3))
    error, excess = np.array([0.5, 1.0, 0.1]), np.array([1.0, 4.0, 0.0])
    far = error, sure, np.column_stack([excess, zero, zero])
    alike = zero, sure, np.column_stack([zero, excess, zero])
    intervals = Intervals.calibrated([near, far, alike], 3)
    # sum of squares 0.25 + 1.0 over a distance of 5: 0.5 for each standard deviation
    np.testing.assert_allclose(intervals.growth, [0.5, LEAST_GROWTH, GROWTH])
    # inside by the quantile of held-out errors; four deviations outside by that of a normal error
    half = intervals.half_width(np.array([0.1, 0.0]), np.array([[0, 0, 0], [4, 0, 0]]), 0.5)
    np.testing.assert_allclose(half, [0.1 * intervals.multiple(0.5), 0.6745 * 1.0], rtol=1e-4)


@pytest.mark.filterwarnings("ignore::forerun.errors.ForerunWarning")
def test_intervals_contain_the_prediction_and_each_other(
    fitted: PerformanceModel, factors: pd.DataFrame
) -> None:
    points = pd.concat([factors, factors.assign(batch=4096), factors.assign(workers=1e-3)])
    inner_low = inner_high = fitted.predict(points)
    for coverage in COVERAGES:
        low, high = fitted.predict_interval(points, coverage)
        assert (low > 0).all()
        assert np.isfinite(high).all()
        assert (low <= inner_low).all()
        assert (high >= inner_high).all()
        inner_low, inner_high = low, high


def test_intervals_widen_outside_the_measured_range(fitted: PerformanceModel) -> None:
    def widths(**points: Any) -> Array:
        low, high = fitted.predict_interval(pd.DataFrame({"activation": "relu"} | points))
        return np.log(high / low)

    inside = widths(batch=[16, 32, 48, 64, 128], workers=4).max()
    above = widths(batch=[160, 256, 512, 4096], workers=4)
    below = widths(batch=[14, 8, 4, 1], workers=4)
    more = widths(batch=64, workers=[9, 16, 64, 1024])
    for outside in (above, below, more):
        assert (np.diff(outside) > 0).all()
        assert outside[0] > inside
        assert outside[1] > 1.3 * inside


@pytest.mark.parametrize("expression", ["auto", "generic"])
def test_nine_of_ten_unseen_runs_lie_inside(expression: Any) -> None:
    """Five tables of 60 runs of a product, with 10 % of heavy-tailed noise; 200 are unseen."""
    held = []
    for seed in range(5):
        draw = np.random.default_rng(seed)
        table = pd.DataFrame(
            {"batch": draw.choice([8, 16, 32, 64, 128], 260), "gpus": draw.choice([1, 2, 4], 260)}
        )
        seconds = 0.1 * table.batch**0.8 / table.gpus**0.7 * np.exp(0.1 * draw.standard_t(5, 260))
        model = PerformanceModel(expression=expression).fit(table[:60], seconds[:60])
        low, high = model.predict_interval(table[60:])
        held.append(float(np.mean((low <= seconds[60:]) & (seconds[60:] <= high))))
        assert np.median(np.log(high / low)) < 0.6  # ±10 % noise is about ±0.2 at 90 %
    assert 0.85 <= np.mean(held) <= 0.96
