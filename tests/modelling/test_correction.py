"""The smooth correction against what a Gaussian process must be."""

from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime

from forerun.modelling.correction import (
    Edges,
    Place,
    Seen,
    Smoothness,
    _Evidence,
    condition,
    distances,
    hyperparameters,
    kernel,
)

Array = NDArray[np.float64]
each_smoothness = pytest.mark.parametrize("smoothness", get_args(Smoothness))


def place(*numbers: object, codes: object = None) -> Place:
    columns = np.column_stack([np.asarray(one, float) for one in numbers])
    levels = np.zeros((len(columns), 0)) if codes is None else np.asarray(codes)[:, None]
    return Place(columns, levels.astype(np.int64))


def test_distances_are_by_factor_and_two_levels_are_one_apart() -> None:
    points = place([0, 3], [1, 1], codes=[0, 1])
    found = distances(points, points)
    np.testing.assert_array_equal(found[0], [[0, 9], [9, 0]])
    np.testing.assert_array_equal(found[1], np.zeros((2, 2)))
    np.testing.assert_array_equal(found[2], [[0, 1], [1, 0]])


@each_smoothness
def test_correlation_falls_with_distance_and_knows_its_slope(smoothness: Smoothness) -> None:
    squared = np.array([0.0, 0.01, 0.5, 1, 4, 100, 1e6])
    value, slope = kernel(smoothness, squared)
    assert value[0] == pytest.approx(1, abs=1e-5)
    assert (np.diff(value) < 0).all()
    assert (value >= 0).all()
    step = 1e-6
    numeric = (kernel(smoothness, squared[1:5] + step)[0] - value[1:5]) / step
    np.testing.assert_allclose(slope[1:5], -2 * numeric, rtol=1e-4)


@each_smoothness
def test_the_gradient_of_the_evidence_is_its_gradient(smoothness: Smoothness) -> None:
    draw = np.random.default_rng(0)
    seen = place(draw.normal(size=30), draw.normal(size=30), codes=draw.integers(0, 3, 30))
    evidence = _Evidence(seen, draw.normal(size=30), smoothness)
    evidence.noise_shares = draw.uniform(1, 3, 30)

    def cost(log_scales: Array) -> float:
        return evidence(log_scales)[0]

    for _ in range(3):
        at = evidence.centre + 0.5 * draw.normal(size=len(evidence.centre))
        size = float(np.linalg.norm(evidence(at)[1]))
        numeric = approx_fprime(at, cost, 1e-7)
        off = float(np.linalg.norm(numeric - evidence(at)[1]))
        assert off < 1e-4 * max(size, 1)


@each_smoothness
def test_mean_and_variance_are_those_of_the_conditional_normal(smoothness: Smoothness) -> None:
    draw = np.random.default_rng(1)
    seen, asked = place(draw.normal(size=12)), place(np.linspace(-0.5, 0.5, 5))
    size, noise, length = 0.7, 0.3, 1.4
    residual = 0.5 * draw.normal(size=12)
    correction = condition(seen, residual, smoothness, np.log([size, noise, length]))

    def covariance(a: Place, b: Place) -> Array:
        return size**2 * kernel(smoothness, (a.numbers - b.numbers.T) ** 2 / length**2)[0]

    measured = covariance(seen, seen) + noise**2 * np.diag(correction.noise_shares)
    across = covariance(asked, seen)
    np.testing.assert_allclose(
        correction.mean(Seen.of(seen), asked),
        across @ np.linalg.solve(measured, residual),
        rtol=1e-4,
    )
    left = size**2 - np.einsum("ij,ji->i", across, np.linalg.solve(measured, across.T))
    np.testing.assert_allclose(
        correction.variance(Seen.of(seen), asked), left + noise**2, rtol=1e-4
    )


def test_an_outlier_hardly_bends_the_curve() -> None:
    x = np.linspace(-2, 2, 40)
    truth = 0.3 * np.sin(2 * x)
    noisy = truth + 0.01 * np.random.default_rng(2).standard_normal(40)
    noisy[20] += 3.0
    seen = place(x)
    correction = condition(seen, noisy, "matern5", hyperparameters(seen, noisy, "matern5"))
    bent = correction.mean(Seen.of(seen), seen) - truth
    assert np.abs(bent).max() < 0.1 * 3.0
    assert np.median(np.abs(bent)) < 0.1
    assert np.argmax(correction.noise_shares) == 20
    assert correction.noise_shares[20] > 10


def test_what_is_left_of_pure_noise_is_not_learnt() -> None:
    draw = np.random.default_rng(3)
    seen = place(draw.normal(size=80), draw.normal(size=80))
    noise = 0.1 * draw.normal(size=80)
    correction = condition(seen, noise, "matern5", hyperparameters(seen, noise, "matern5"))
    asked = place(draw.normal(size=50), draw.normal(size=50))
    assert np.sqrt(np.mean(correction.mean(Seen.of(seen), asked) ** 2)) < 0.04
    assert correction.noise == pytest.approx(0.1, rel=0.25)


def test_a_factor_that_does_nothing_gets_a_long_length() -> None:
    draw = np.random.default_rng(4)
    seen = place(draw.normal(size=80), draw.normal(size=80))
    left = np.sin(2 * seen.numbers[:, 0]) + 0.01 * draw.normal(size=80)
    size_noise_lengths = np.exp(hyperparameters(seen, left, "matern5"))
    assert size_noise_lengths[3] > 3 * size_noise_lengths[2]


def test_outside_the_correction_goes_on_a_little_and_then_stays() -> None:
    edges = Edges.of(np.linspace(-1, 1, 21)[:, None])
    held = edges.hold(np.array([[-1e4], [-1], [0.3], [1], [1.01], [1e4]]))[:, 0]
    # eleven measured values lie within one standard deviation of each edge: 1.1 further
    np.testing.assert_allclose(held, [-2.1, -1, 0.3, 1, 1.01, 2.1], atol=1e-4)
    np.testing.assert_array_equal(
        edges.excess(np.array([[-3.0], [0.0], [1.5]]))[:, 0], [2.0, 0.0, 0.5]
    )
    seen = place(np.linspace(-1, 1, 21))
    rising = condition(seen, 0.5 * seen.numbers[:, 0], "matern5", np.log([1.0, 0.01, 1.0]))
    far, further = rising.mean(Seen.of(seen), place([50.0, 1e4]))
    assert far == further


def test_no_factor_at_all_is_a_constant() -> None:
    seen = Place(np.zeros((4, 0)), np.zeros((4, 0), np.int64))
    left = np.array([0.1, 0.12, 0.08, 0.1])
    correction = condition(seen, left, "matern5", hyperparameters(seen, left, "matern5"))
    mean = correction.mean(Seen.of(seen), seen.rows(slice(0, 2)))
    np.testing.assert_allclose(mean, 0.1, atol=0.03)
