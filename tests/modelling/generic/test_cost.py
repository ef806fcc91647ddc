from dataclasses import replace

import numpy as np
import pytest

from forerun.modelling.generic import cost as module
from forerun.modelling.generic.cost import Loss, Problem, costs, derivatives, logarithm


def problem(loss: Loss = "log", rows: int = 40) -> Problem:
    """Two powers, one fixed part, two scalings."""
    draw = np.random.default_rng(1)
    size = 3 + 1 + 2 + 2
    return Problem(
        powers=draw.normal(size=(2, rows)),
        fixed=draw.normal(size=(1, rows)),
        scaling=draw.normal(size=(2, rows)),
        target=draw.normal(size=rows),
        lower=np.full(size, -3.0),
        upper=np.full(size, 3.0),
        start=np.zeros(size),
        penalised=np.array([1.0, 1, 0.5, 1, 1, 1, 1, 0]),
        searched=np.arange(4, size),
        loss=loss,
    )


def members(count: int = 3) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.random.default_rng(2).uniform(0.2, 0.9, (count, 8))


def test_logarithm_is_that_of_the_expression() -> None:
    p = problem()
    a1, a2, a3, c, p1, p2, q1, q2 = members(1)[0]
    work = a1 * np.exp(p1 * p.powers[0]) + a2 * np.exp(p2 * p.powers[1]) + a3 * np.exp(p.fixed[0])
    expected = np.log(work * np.exp(q1 * p.scaling[0] + q2 * p.scaling[1]) + c)
    np.testing.assert_allclose(logarithm(p, members(1))[0], expected, rtol=1e-13)


def test_cost_is_the_mean_squared_error_and_the_penalty() -> None:
    p, theta = problem(), members(1)
    error = logarithm(p, theta)[0] - p.target
    expected = np.mean(error**2) + 0.1 * np.sum(p.penalised * theta[0] ** 2)
    assert costs(p, theta, 0.1)[0] == pytest.approx(expected, rel=1e-13)
    absolute = np.mean(error**2) + 0.1 * np.sum(p.penalised * theta[0])
    assert costs(replace(p, penalty="l1"), theta, 0.1)[0] == pytest.approx(absolute, rel=1e-13)


def test_relative_and_absolute_losses() -> None:
    theta, p = members(1), problem()
    ratio = np.exp(logarithm(p, theta)[0] - p.target)
    relative = costs(problem("relative"), theta, 0.0)[0]
    assert relative == pytest.approx(np.mean((ratio - 1) ** 2), rel=1e-12)
    absolute = costs(problem("absolute"), theta, 0.0)[0]
    expected = np.mean((np.exp(p.target) * (ratio - 1)) ** 2)
    assert absolute == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loss", ["log", "relative", "absolute"])
@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives_are_those_of_the_cost(loss: Loss, weighted: bool) -> None:
    p, theta, strength, h = problem(loss), members(), np.array([0.0, 0.01, 1.0]), 1e-5
    weights = np.random.default_rng(3).dirichlet(np.ones(40), 3) if weighted else None
    found = derivatives(p, theta, strength, weights, exact=True)
    for i, side in enumerate(np.eye(8) * h):
        above = derivatives(p, theta + side, strength, weights, exact=True)
        below = derivatives(p, theta - side, strength, weights, exact=True)
        slope = (above.cost - below.cost) / (4 * h)  # half the gradient
        np.testing.assert_allclose(found.gradient[:, i], slope, rtol=1e-5, atol=1e-8)
        bend = (above.gradient - below.gradient) / (2 * h)
        np.testing.assert_allclose(found.curvature[:, i], bend, rtol=1e-5, atol=1e-7)


def test_rows_in_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    p, theta, strength = problem(), members(), np.full(3, 0.1)
    whole = derivatives(p, theta, strength, exact=True)
    monkeypatch.setattr(module, "SINGLE_THREADED", 1)
    blocks = derivatives(p, theta, strength, exact=True)
    np.testing.assert_allclose(blocks.cost, whole.cost, rtol=1e-13)
    np.testing.assert_allclose(blocks.curvature, whole.curvature, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(logarithm(p, theta), logarithm(problem(), theta), rtol=1e-13)


def test_a_cost_that_is_not_finite_is_infinitely_bad() -> None:
    p, theta = problem("absolute"), members(2)
    theta[0, 6] = 1e6  # exp overflows
    assert costs(p, theta, 0.1).tolist() == [np.inf, costs(p, theta, 0.1)[1]]
    with np.errstate(all="ignore"):
        assert derivatives(p, theta, np.full(2, 0.1)).cost[0] == np.inf


def test_nothing_overflows_where_factors_span_600_decades() -> None:
    p = replace(problem(), powers=problem().powers * 700, scaling=problem().scaling * 700)
    assert np.isfinite(logarithm(p, members())).all()
    assert np.isfinite(costs(p, members(), 0.1)).all()
