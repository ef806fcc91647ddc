"""How a table of factors becomes logarithms, scaled numbers and level codes."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.errors import InputError, LevelError
from forerun.modelling.columns import Column, Columns


def measured(values: Any) -> Column:
    return Columns.measured(pd.DataFrame({"x": values}))["x"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 4], "power"),
        ([0.5, 1e300, 1e-300], "power"),
        ([0, 1, 2], "linear"),
        ([-1.5, 1.5], "linear"),
        (["16", "32"], "levels"),
        ([True, False], "levels"),
        (pd.array([1, 2], dtype="Int64"), "power"),
        (pd.array([True, None], dtype="boolean"), "levels"),
        (pd.array(["a", None], dtype="string"), "levels"),
        (pd.Categorical([1, 2]), "levels"),
        (pd.Series([1, 2.5], dtype=object), "power"),
        (pd.Series([True, None], dtype=object), "levels"),
        (pd.Series(["a", np.nan], dtype=object), "levels"),
    ],
)
def test_the_values_of_a_column_say_how_it_enters(values: Any, kind: str) -> None:
    assert measured(values).kind == kind


def test_a_power_enters_by_its_logarithm_about_the_geometric_mean() -> None:
    column = measured([1, 4, 16])
    assert (column.low, column.high) == (1, 16)
    np.testing.assert_allclose(
        column.transform(np.array([1.0, 4.0, 64.0])), [-np.log(4), 0, np.log(16)], atol=1e-15
    )


def test_a_linear_factor_enters_in_standard_deviations() -> None:
    column = measured([-1, 1, -1, 1])
    np.testing.assert_array_equal(column.transform(np.array([0.0, 3.0])), [0, 3])


def test_a_value_however_far_off_stays_a_number() -> None:
    column = measured([0.0, 0.1])
    np.testing.assert_array_equal(column.transform(np.array([1.7e308, -1.7e308])), [1e4, -1e4])
    wide = measured([-1.7e308, 1.7e308, 1.7e308])
    transformed = wide.transform(np.array([-1.7e308, 1.7e308]))
    np.testing.assert_allclose(transformed, [-np.sqrt(2), np.sqrt(0.5)])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@given(st.lists(st.floats(-1.7e308, 1.7e308), min_size=2))
def test_any_numbers_transform_to_finite_ones(values: list[float]) -> None:
    table = pd.DataFrame({"x": values})
    columns = Columns.measured(table)
    numbers = columns.numbers(table)
    assert np.isfinite(numbers).all()
    if not columns["x"].constant:
        assert abs(numbers.mean()) <= 1e-6 * np.abs(numbers).max() + 1e-9


def test_levels_are_sorted_text_and_an_empty_cell_is_one() -> None:
    column = measured(pd.Categorical(["tanh", None, "relu", ""], categories=["", "relu", "tanh"]))
    assert column.levels == ("(empty)", "relu", "tanh")
    unused = measured(pd.Categorical(["tanh"], categories=["relu", "tanh"]))
    assert unused.levels == ("tanh",)
    assert unused.constant


def test_a_constant_column_is_known_but_not_used() -> None:
    table = pd.DataFrame({"batch": [1, 2], "gpus": [4, 4], "device": ["p100", "p100"]})
    columns = Columns.measured(table)
    assert columns.names == ("batch", "gpus", "device")
    assert [c.name for c in columns.numeric] == ["batch"]
    assert columns.codes(table).shape == (2, 0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, np.nan], "factor 'x', row 1: found NaN, expected a finite number"),
        ([np.inf, 1.0], "factor 'x', row 0: found inf (infinity), expected a finite number"),
        ([16, "n/a", 32], "factor 'x', row 1: found 'n/a', expected a finite number"),
        ([16, None, "32"], "factor 'x', row 1: found None, expected a finite number"),
    ],
)
def test_numbers_with_something_else_between_them_are_refused(values: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        measured(values)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("batch", [16, "x"], "factor 'batch', row 1: found 'x', expected a finite number"),
        (
            "batch",
            [16, 0],
            "factor 'batch', row 1: found 0, expected a positive number, as in all measured runs",
        ),
        ("dropout", [0, np.nan], "factor 'dropout', row 1: found NaN, expected a finite number"),
        ("gpus", ["one"], "factor 'gpus', row 0: found 'one', expected a finite number"),
        (
            "device",
            ["p100", "v100\n"],
            r"factor 'device': found 'v100\n', expected one of the 7 measured levels:"
            " a100, h100, k80, p100, t4, tpu, …",
        ),
    ],
)
def test_a_value_that_the_model_cannot_take_is_refused(
    name: str, values: Any, message: str
) -> None:
    devices = ["a100", "h100", "k80", "p100", "t4", "tpu", "x86"]
    table = pd.DataFrame(
        {"batch": range(1, 8), "dropout": np.arange(7) / 10, "gpus": 1, "device": devices}
    )
    columns = Columns.measured(table)
    asked = table.iloc[: len(values)].assign(**{name: values})
    with pytest.raises(LevelError if name == "device" else InputError) as error:
        columns.check(asked)
    assert str(error.value) == message


def test_columns_survive_json() -> None:
    table = pd.DataFrame({"batch": [1, 2], "dropout": [0, 0.1], "device": ["a", "b"]})
    columns = Columns.measured(table)
    assert Columns.from_list(columns.to_list()).all == columns.all
