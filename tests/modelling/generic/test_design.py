from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from forerun.modelling.columns import Columns
from forerun.modelling.generic import Design, design_from
from forerun.modelling.generic import design as module
from forerun.modelling.generic.cost import logarithm

TABLE = pd.DataFrame(
    {
        "filters": [4.0, 8, 16, 16],
        "dropout": [0.0, 0.1, 0.3, 0.5],
        "activation": ["relu", "tanh", "relu", "gelu"],
        "batch": [8.0, 16, 8, 32],
        "offset": [-1.0, 0.0, 1.0, 2.0],
        "compiler": ["none", "xla", "jit", "none"],
        "always": [3.0, 3.0, 3.0, 3.0],
    }
)


def made(intrinsic: list[str], table: pd.DataFrame = TABLE) -> Design:
    return design_from(Columns.measured(table), table, intrinsic)


def forms(blocks: tuple[module.Block, ...]) -> list[tuple[str, str, int]]:
    return [(block.form, block.name, len(block.rows)) for block in blocks]


def test_each_factor_enters_in_its_form() -> None:
    design = made(["filters", "dropout", "activation"])
    assert forms(design.powers) == [("power", "filters", 1)]
    assert forms(design.fixed) == [("ramps", "dropout", 2), ("levels", "activation", 3)]
    assert forms(design.numeric) == [("power", "batch", 1), ("exponential", "offset", 1)]
    assert forms(design.levels) == [("levels", "compiler", 2)]  # the first level is 1


def test_without_an_intrinsic_factor_the_sum_is_a_constant() -> None:
    assert forms(made([]).fixed) == [("constant", "", 1)]
    assert forms(made(["always"]).fixed) == [("constant", "", 1)]


def test_a_problem_has_a_bound_a_start_and_a_weight_for_each_constant() -> None:
    problem = made(["filters", "dropout", "activation"]).problem(np.zeros(4), "log", "l2", 3.0)
    assert problem.coefficients == 1 + 2 + 3 + 1
    assert problem.size == 7 + 1 + 2 + 2
    assert problem.lower[:7].tolist() == [1e-8] * 7
    assert problem.upper[7:10].tolist() == [3.0] * 3
    assert problem.upper[10:].tolist() == pytest.approx([np.log(1e4)] * 2)
    assert problem.start[:7].tolist() == [1 / 4] * 7  # filters, dropout, activation and C share
    assert problem.searched.tolist() == [7, 8, 9]
    expected = [1, 1, 1, 1 / 3, 1 / 3, 1 / 3, 1, 1, 1, 1, 1 / 2, 1 / 2]
    assert problem.penalised.tolist() == pytest.approx(expected)


def test_the_expression_evaluates_as_the_problem_does() -> None:
    design = made(["filters", "dropout", "activation"])
    problem = design.problem(np.zeros(4), "log", "l2", 3.0)
    constants = np.random.default_rng(0).uniform(0.1, 0.9, problem.size)
    expression = design.expression(constants, log_unit=np.log(5.0))
    expected = 5.0 * np.exp(logarithm(problem, constants[None])[0])
    np.testing.assert_allclose(expression.evaluate(TABLE), expected, rtol=1e-13)


def test_a_wide_category_is_one_row_that_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WIDE", 2)
    design = made(["filters", "activation"])
    assert [(wide.name, wide.intrinsic) for wide in design.wide] == [
        ("activation", True),
        ("compiler", False),
    ]
    effects = (np.array([0.1, 0.2, 0.3]), np.array([0.0, 0.4, -0.6]))
    wides = zip(design.wide, effects, strict=True)
    design = replace(design, wide=tuple(replace(wide, effects=e) for wide, e in wides))
    problem = design.problem(np.zeros(4), "log", "l2", 3.0)
    constants = problem.start.copy()
    assert constants[[1, -1]].tolist() == [1.0, 1.0]
    assert problem.penalised[[1, -1]].tolist() == pytest.approx([0.14 / 3, 0.52 / 3])
    constants[[1, -1]] = 1.5, 0.5
    expected = np.exp(logarithm(problem, constants[None])[0])
    expression = design.stretched(constants)[0].expression(*design.stretched(constants)[1:], 0.0)
    np.testing.assert_allclose(expression.evaluate(TABLE), expected, rtol=1e-13)
    assert expression.parts[1].coefficients == pytest.approx((0.15, 0.3, 0.45))
    assert expression.scalings[-1].exponents == pytest.approx((0.0, 0.2, -0.3))


def test_many_levels_and_many_rows_are_not_made_dense() -> None:
    few = pd.DataFrame({"a": ["x", "y"] * 30, "b": [f"level {i % 25}" for i in range(60)]})
    assert [wide.name for wide in made([], few).wide] == ["b"]
    columns = Columns.measured(few)
    assert module._wide(columns, rows=11_000_000) == {"a", "b"}
