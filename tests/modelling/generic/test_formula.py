import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.modelling.columns import Columns
from forerun.modelling.generic import GenericExpression, Part, Scaling

# Geometric means are 1, so that the constants of an expression are those of its formula.
TABLE = pd.DataFrame(
    {
        "filters": [0.5, 2.0, 1.0],
        "dropout": [0.0, 0.25, 0.5],
        "activation": ["relu", "tanh", "relu"],
        "batch size": [0.1, 10.0, 1.0],
        "offset": [-1.0, 0.0, 1.0],
        "compiler": ["none", "xla", "none"],
    }
)
COLUMNS = Columns.measured(TABLE)


def expression(
    parts: list[Part], scalings: list[Scaling], constant: float = 0.8, log_unit: float = 0.0
) -> GenericExpression:
    return GenericExpression(COLUMNS, tuple(parts), tuple(scalings), constant, log_unit)


WHOLE = expression(
    [
        Part("power", "filters", (0.0123456,), 0.91),
        Part("ramps", "dropout", (0.2, 0.1)),
        Part("levels", "activation", (0.0, 0.1)),
    ],
    [
        Scaling("power", "batch size", (-0.3,)),
        Scaling("exponential", "offset", (0.5 * COLUMNS["offset"].spread,)),
        Scaling("levels", "compiler", (0.0, math.log(0.75))),
    ],
)


def test_text() -> None:
    assert WHOLE.formula() == (
        "seconds = (0.01235·filters^0.91 + 0.4·max(0, dropout) + 0.2·max(0, 0.5 - dropout)"
        " + [activation: relu 0, tanh 0.1])·batch size^-0.3·exp(0.5·offset)"
        "·[compiler: none 1, xla 0.75] + 0.8"
    )


def test_latex() -> None:
    small = expression(
        [Part("power", "filters", (1.5e-7,), 0.5)],
        [Scaling("power", "batch size", (1.0,)), Scaling("levels", "compiler", (0.0, 1.0))],
        constant=0.0,
    )
    assert small.formula("latex", target="peak_memory") == (
        r"\mathrm{peak\_memory} = 1.5 \times 10^{-7} \cdot \mathrm{filters}^{0.5}"
        r" \cdot \mathrm{batch\ size} \cdot \left\{\begin{array}{ll} 1 & \mathrm{compiler\ =\ none}"
        r" \\ 2.718 & \mathrm{compiler\ =\ xla} \end{array}\right."
    )


def test_what_carries_nothing_is_left_out() -> None:
    parts = [Part("power", "filters", (0.0,), 0.0), Part("power", "offset", (2.0,), 0.0)]
    scaling = Scaling("power", "batch size", (0.0,))
    assert expression(parts, [scaling]).formula() == "seconds = 2.8"
    assert expression([Part("constant", "", (2.0,))], []).formula() == "seconds = 2.8"
    assert expression([Part("constant", "", (0.0,))], []).formula() == "seconds = 0.8"
    assert expression([], [], constant=0.0).formula() == "seconds = 0"


def test_units_are_the_users() -> None:
    table = pd.DataFrame({"gpus": [2.0, 8.0], "batch": [10.0, 1000.0]})
    one = GenericExpression(
        Columns.measured(table),
        (Part("power", "gpus", (0.5,), 2.0),),
        (Scaling("power", "batch", (0.5,)),),
        0.25,
        math.log(8.0),
    )
    # 8·0.5·(gpus/4)^2·(batch/100)^0.5 + 8·0.25
    assert one.formula() == "seconds = 0.025·gpus^2·batch^0.5 + 2"
    assert one.constants() == pytest.approx(
        {
            "coefficient of gpus": 0.025,
            "exponent of gpus": 2.0,
            "exponent of batch": 0.5,
            "constant": 2.0,
        }
    )


def test_a_scale_beyond_floating_point_is_not_folded() -> None:
    table = pd.DataFrame({"work": [1e250, 1e290]})
    one = GenericExpression(
        Columns.measured(table), (Part("power", "work", (1.0,), 3.0),), (), 0.0, 0.0
    )
    assert one.formula() == "seconds = 1·(work/1e+270)^3"
    value = eval(one.formula("python"), {"work": 1e271})
    np.testing.assert_allclose(value, 1000.0, rtol=1e-9)


def test_many_levels_are_cut_short_for_people_but_not_for_python() -> None:
    table = pd.DataFrame({"host": [f"node{i:04}" for i in range(3000)]})
    columns = Columns.measured(table)
    one = GenericExpression(
        columns, (Part("levels", "host", tuple(1.0 + np.arange(3000.0))),), (), 0.0, 0.0
    )
    assert one.formula().endswith("node0007 8, … 2992 more]")
    assert eval(one.formula("python"), {"host": "node2999"}) == pytest.approx(3000)


def test_hostile_names_stay_on_one_line_and_inside_quotes() -> None:
    table = pd.DataFrame(
        {"a\n__import__('os')": [1.0, 2.0], "class": [1.0, 3.0], "x": ["a'b", "\n"]}
    )
    columns = Columns.measured(table)
    first, second, kind = columns.names
    one = GenericExpression(
        columns,
        (Part("power", first, (1.0,), 1.5), Part("levels", kind, (1.0, 2.0))),
        (Scaling("power", second, (1.5,)),),
        0.0,
        0.0,
    )
    for style in ("text", "latex", "python"):
        assert "\n" not in one.formula(style)
    point: dict[str, Any] = {first: 2.0, second: 3.0, kind: "a'b"}
    value = eval(one.formula("python"), {"point": point, "x": "a'b"})
    expected = one.evaluate(pd.DataFrame([point]))[0]
    np.testing.assert_allclose(value, expected, rtol=1e-12)


exponents = st.floats(-3, 3)
sizes = st.floats(1e-8, 1e4)


@settings(deadline=None, max_examples=60)
@given(
    st.tuples(sizes, exponents, sizes, sizes, sizes, sizes),
    st.tuples(exponents, exponents, exponents),
    st.floats(0, 1e4),
    st.floats(-600, 600),
    st.sampled_from(range(3)),
)
def test_python_evaluates_to_the_same_number(
    inner: tuple[float, ...],
    outer: tuple[float, ...],
    constant: float,
    log_unit: float,
    row: int,
) -> None:
    a, p, up, down, relu, tanh = inner
    one = expression(
        [
            Part("power", "filters", (a,), p),
            Part("ramps", "dropout", (up, down)),
            Part("levels", "activation", (relu, tanh)),
        ],
        [
            Scaling("power", "batch size", (outer[0],)),
            Scaling("exponential", "offset", (outer[1],)),
            Scaling("levels", "compiler", (0.0, outer[2])),
        ],
        constant,
        log_unit,
    )
    point = {str(name): value for name, value in TABLE.iloc[row].items()}
    value = eval(one.formula("python"), {"exp": math.exp, "point": point, **point})
    np.testing.assert_allclose(one.evaluate(TABLE)[row], value, rtol=1e-9)
