import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from planted import planted

from forerun.modelling.columns import Columns
from forerun.modelling.generic import (
    Design,
    GenericExpression,
    Loss,
    Penalty,
    choose_strength,
    design_from,
    fit_generic,
)

Array = NDArray[np.float64]


def exponents_of(expression: GenericExpression) -> dict[str, float]:
    inner = {part.name: part.exponent for part in expression.parts}
    return inner | {scaling.name: scaling.exponents[0] for scaling in expression.scalings}


def fitted(
    table: pd.DataFrame,
    seconds: Array,
    intrinsic: list[str],
    loss: Loss = "log",
    penalty: Penalty = "l2",
    strength: float = 1e-3,
) -> Array:
    """The expression's own predictions, which must be usable whatever the table."""
    design = design_from(Columns.measured(table), table, intrinsic)
    expression, _ = fit_generic(design, seconds, loss=loss, penalty=penalty, strength=strength)
    times = expression.evaluate(table)
    assert np.isfinite(times).all()
    assert (times >= 0).all()
    return times


def test_planted_exponents_are_found() -> None:
    found = 0
    for one in planted(12):
        design = design_from(Columns.measured(one.table), one.table, one.intrinsic)
        strength = choose_strength(design, one.seconds)
        near = exponents_of(fit_generic(design, one.seconds, strength=strength)[0])
        found += all(abs(near[name] / true - 1) < 0.05 for name, true in one.exponents.items())
    assert found >= 11


@pytest.mark.parametrize("loss", ["log", "relative", "absolute"])
@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_every_loss_and_penalty_recovers_the_exponents(
    design: Design, seconds: Array, loss: Loss, penalty: Penalty
) -> None:
    expression, _ = fit_generic(design, seconds, loss=loss, penalty=penalty, strength=1e-6)
    expected = {"filters": 0.9, "kernel": 1.4, "batch": -0.3, "gpus": 0.2}
    assert exponents_of(expression) == pytest.approx(expected, rel=0.1)


def test_milliseconds_make_no_difference(
    design: Design, table: pd.DataFrame, seconds: Array
) -> None:
    one, cost = fit_generic(design, seconds)
    other, same = fit_generic(design, 1e3 * seconds)
    assert same == pytest.approx(cost, rel=1e-9)
    np.testing.assert_allclose(other.evaluate(table), 1e3 * one.evaluate(table), rtol=1e-5)


def test_more_strength_shrinks(design: Design, seconds: Array) -> None:
    sizes = [
        sum(
            value**2 for value in exponents_of(fit_generic(design, seconds, strength=s)[0]).values()
        )
        for s in (1e-6, 1e-2, 1.0)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.3 * sizes[0]


def test_the_bound_on_exponents_holds(design: Design, seconds: Array) -> None:
    expression, _ = fit_generic(design, seconds, exponent_bound=0.5)
    assert max(abs(value) for value in exponents_of(expression).values()) <= 0.5


def test_a_useless_part_is_exactly_zero(table: pd.DataFrame) -> None:
    noise = np.exp(0.01 * np.random.default_rng(3).standard_normal(len(table)))
    seconds = (table.filters * table.gpus**0.5).to_numpy() * noise
    design = design_from(Columns.measured(table), table, ["filters", "kernel"])
    expression, _ = fit_generic(design, seconds, penalty="l1", strength=1e-2)
    assert "kernel" not in expression.formula()
    assert expression.parts[1].coefficients == (0.0,)


def test_the_same_seed_gives_the_same_bits(design: Design, seconds: Array) -> None:
    first, second = (fit_generic(design, seconds, seed=4)[0].to_dict() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("levels", [3, 400])
@pytest.mark.parametrize("loss", ["log", "relative", "absolute"])
def test_levels_are_found_however_many(levels: int, loss: Loss) -> None:
    draw = np.random.default_rng(0)
    rows = 10 * levels + 100
    table = pd.DataFrame(
        {"work": draw.choice([1.0, 2, 4, 8], rows), "gpus": draw.choice([1.0, 2, 4], rows)}
    )
    kind, host = draw.integers(0, levels, (2, rows))
    table["kind"], table["host"] = [f"k{i:03}" for i in kind], [f"h{i:03}" for i in host]
    adds, slows = np.linspace(0.0, 2.0, levels), np.exp(np.linspace(0.0, 0.7, levels))
    seconds = (table.work**0.8 + adds[kind]).to_numpy() * slows[host] / table.gpus**0.5
    times = fitted(table, seconds.to_numpy(), ["work", "kind"], loss=loss, strength=1e-6)
    assert np.mean(np.abs(times / seconds - 1)) < 0.01


@pytest.mark.parametrize("rows", [2, 3, 7])
def test_few_rows(rows: int) -> None:
    count = np.arange(1.0, rows + 1)
    table = pd.DataFrame({"a": count, "b": count - 1, "c": [str(i) for i in range(rows)]})
    for intrinsic in ([], ["a"], ["b", "c"]):
        times = fitted(table, count, intrinsic)
        np.testing.assert_allclose(times, count, rtol=0.1)


def test_constant_duplicated_and_collinear_columns() -> None:
    x = np.random.default_rng(0).uniform(1, 9, 60)
    table = pd.DataFrame({"x": x, "same": x, "square": x**2, "one": 1.0, "zero": 0.0, "less": -x})
    for strength in (0.0, 1e-3):
        for intrinsic in ([], ["x", "same"], ["x", "less", "zero", "one"]):
            times = fitted(table, x**0.7, intrinsic, strength=strength)
            np.testing.assert_allclose(times, x**0.7, rtol=0.05)


@pytest.mark.parametrize("power", [1.0, 0.5, -1.0])
def test_six_hundred_decades(power: float) -> None:
    x = 10.0 ** np.random.default_rng(0).uniform(-300, 300, 50)
    for intrinsic in ([], ["x"]):
        times = fitted(pd.DataFrame({"x": x}), x**power, intrinsic)
        np.testing.assert_allclose(np.log10(times), power * np.log10(x), atol=0.1)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(2, 30),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-300, 1e-6, 1.0, 1e300]),
    st.sampled_from(["log", "relative", "absolute"]),
    st.sampled_from(["l1", "l2"]),
)
def test_anything_goes(rows: int, seed: int, scale: float, loss: Loss, penalty: Penalty) -> None:
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "wide": 10.0 ** draw.uniform(-200, 200, rows),
            "any": draw.normal(size=rows) * scale,
            "whole": draw.integers(0, 3, rows),
            "level": draw.choice(list("abc"), rows),
            "name": [str(i) for i in draw.integers(0, 40, rows)],
        }
    )
    seconds = scale * np.exp(draw.normal(size=rows))
    intrinsic = [str(name) for name in table if draw.uniform() < 0.5]
    fitted(table, seconds, intrinsic, loss=loss, penalty=penalty)


def test_a_long_table_uses_little_memory_and_time(table: pd.DataFrame, seconds: Array) -> None:
    many = pd.concat([table] * 700, ignore_index=True)  # 105,000 rows
    design = design_from(Columns.measured(many), many, ["filters", "kernel"])
    long, cost = fit_generic(design, np.tile(seconds, 700))
    short, same = fit_generic(
        design_from(Columns.measured(table), table, ["filters", "kernel"]), seconds
    )
    assert cost == pytest.approx(same, rel=1e-6)
    np.testing.assert_allclose(long.evaluate(table), short.evaluate(table), rtol=1e-3)
