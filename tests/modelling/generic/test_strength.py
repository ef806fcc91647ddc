import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forerun.modelling.columns import Columns
from forerun.modelling.generic import Design, choose_strength, design_from, fit_resamples
from forerun.modelling.generic.strength import STRENGTHS, _clearly_best, _large

Array = NDArray[np.float64]


def test_data_that_follow_the_expression_need_little(design: Design, seconds: Array) -> None:
    assert choose_strength(design, seconds) < 1e-3


def test_noise_needs_much() -> None:
    draw = np.random.default_rng(0)
    table = pd.DataFrame(np.exp(draw.normal(size=(25, 6))), columns=list("abcdef"))
    design = design_from(Columns.measured(table), table, list("abc"))
    assert choose_strength(design, np.exp(draw.normal(size=25))) > 1e-3


def test_too_few_rows_keep_the_default() -> None:
    table = pd.DataFrame({"x": [1.0, 2, 3]})
    design = design_from(Columns.measured(table), table, [])
    assert choose_strength(design, np.array([1.0, 2, 3])) == 1e-3


def test_a_gain_within_the_scatter_is_none() -> None:
    errors = np.ones((len(STRENGTHS), 4))
    assert _clearly_best(errors) == 1e-3
    errors[1] = [0.5, 2.2, 0.4, 1.9]
    assert _clearly_best(errors) == 1e-3
    errors[2] = [0.8, 0.9, 0.8, 0.9]
    assert _clearly_best(errors) == STRENGTHS[2]


def test_the_largest_runs_leave_two_smaller_values() -> None:
    assert _large(np.array([1.0, 1, 2, 2])) == np.inf
    assert _large(np.array([1.0, 1, 2, 2, 3, 3])) == 3.0
    assert _large(np.arange(20.0)) == 15.0


def test_resamples_scatter_around_the_truth(design: Design, seconds: Array) -> None:
    found = fit_resamples(design, seconds, strength=1e-6, count=40)
    exponents = np.array([one.constants()["exponent of kernel"] for one in found])
    assert len(exponents) == 40
    assert abs(np.mean(exponents) - 1.4) < 0.1
    assert 0.001 < np.std(exponents) < 0.1
