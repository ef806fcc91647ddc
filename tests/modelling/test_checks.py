"""What is refused, what is only noted, and what a prediction is cautioned of."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from forerun import PerformanceModel
from forerun.errors import DataWarning, ExtrapolationWarning, InputError, LevelError
from forerun.modelling.checks import cautions_on, checked_target, notes_on
from forerun.modelling.columns import Columns

Array = NDArray[np.float64]


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (np.nan, "nan"),
        (np.inf, "inf"),
        (-np.inf, "-inf"),
        (0.0, "0"),
        (-0.0, "-0"),
        (-2.5, "-2.5"),
        ("fast", "'fast'"),
        ("", "''"),
        (None, "None"),
    ],
)
@pytest.mark.parametrize("as_array", [False, True])
def test_a_time_that_is_none_is_refused(
    factors: pd.DataFrame, seconds: Array, bad: Any, found: str, as_array: bool
) -> None:
    y = pd.Series(seconds, dtype=object)
    y[3] = bad
    X = factors.to_numpy(object) if as_array else factors
    with pytest.raises(InputError) as error:
        PerformanceModel().fit(X, y.to_numpy() if as_array else y)
    message = f"column 'seconds', row 3: found {found}, expected a positive, finite number"
    assert str(error.value) == message


def test_numbers_as_text_are_numbers() -> None:
    np.testing.assert_array_equal(checked_target(["1.5", "2e3"], "seconds"), [1.5, 2000])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"intrinsic": ["kernal"]}, "intrinsic: found kernal, expected a column: batch, workers"),
        ({"extrinsic": ["gpus"]}, "extrinsic: found gpus, expected a column: batch, workers"),
        ({"roles": {"hosts": "nodes"}}, "roles: found hosts, expected a column: batch, workers"),
        (
            {"intrinsic": ["batch"], "extrinsic": ["workers", "batch"]},
            "intrinsic and extrinsic: found batch, expected each factor in one only",
        ),
        (
            {"intrinsic": "batch"},
            "intrinsic: found batch, expected a list of names, such as ['batch']",
        ),
        (
            {"expression": "power law"},
            "expression: found power law, expected one of auto, generic",
        ),
        ({"loss": "mse"}, "loss: found mse, expected one of log, relative, absolute"),
        ({"penalty": "l0"}, "penalty: found l0, expected one of l1, l2"),
        ({"strength": -1}, "strength: found -1, expected a number not below 0, or 'auto'"),
        ({"strength": "none"}, "strength: found none, expected a number not below 0, or 'auto'"),
        ({"exponent_bound": 0}, "exponent_bound: found 0, expected a positive number"),
    ],
)
def test_a_wrong_setting_is_refused_at_fit(settings: dict[str, Any], message: str) -> None:
    table = pd.DataFrame({"batch": [1, 2, 4], "workers": [1, 2, 1]})
    with pytest.raises(InputError) as error:
        PerformanceModel(**settings).fit(table, [1, 2, 3])
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("table", "y", "message"),
    [
        ({"a": [1]}, [1.0], "X: found 1 sample, expected at least 2 runs"),
        ({"a": [1, 2]}, [1.0], "y: found 1 values, expected 2, as many as rows of X"),
        (
            {"a": [1, np.inf]},
            [1, 2],
            "factor 'a', row 1: found inf (infinity), expected a finite number",
        ),
        ({"a": [1, "x"]}, [1, 2], "factor 'a', row 1: found 'x', expected a finite number"),
    ],
)
def test_a_table_that_cannot_be_learnt_from_is_refused(
    table: dict[str, Any], y: list[float], message: str
) -> None:
    with pytest.raises(InputError) as error:
        PerformanceModel().fit(pd.DataFrame(table), y)
    assert str(error.value) == message


def test_two_columns_of_one_name_are_refused() -> None:
    table = pd.DataFrame([[1, 2], [2, 3]], columns=["batch", "batch"])
    with pytest.raises(InputError, match="X: found two columns 'batch', expected one column a"):
        PerformanceModel().fit(table, [1, 2])


def test_failed_runs_need_the_same_factors(factors: pd.DataFrame, seconds: Array) -> None:
    failed = pd.DataFrame({"batch": [512], "workers": [1]})
    with pytest.raises(InputError) as error:
        PerformanceModel(expression="generic").fit(factors, seconds, failed=failed)
    assert str(error.value) == "failed: found no such column, expected a column 'activation'"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": np.nan}, "factor 'batch', row 0: found NaN, expected a finite number"),
        ({"workers": "two"}, "factor 'workers', row 0: found 'two', expected a finite number"),
        (
            {"workers": -1},
            "factor 'workers', row 0: found -1, expected a positive number,"
            " as in all measured runs",
        ),
        (
            {"activation": "gelu"},
            "factor 'activation': found 'gelu', expected one of the 2 measured levels: relu, tanh",
        ),
        (
            {"activation": None},
            "factor 'activation': found '(empty)', expected one of the 2 measured levels:"
            " relu, tanh",
        ),
    ],
)
@pytest.mark.parametrize(
    "ask", ["predict", "predict_interval", "predict_formula", "cautions", "feasible"]
)
def test_a_point_that_cannot_be_predicted_is_refused(
    fitted: PerformanceModel, factors: pd.DataFrame, ask: str, change: dict[str, Any], message: str
) -> None:
    kind = LevelError if "activation" in change else InputError
    with pytest.raises(kind) as error:
        getattr(fitted, ask)(factors.assign(**change))
    assert str(error.value) == message


@pytest.mark.parametrize("ask", ["predict", "predict_interval", "feasible"])
def test_a_missing_column_is_named(
    fitted: PerformanceModel, factors: pd.DataFrame, ask: str
) -> None:
    with pytest.raises(InputError) as error:
        getattr(fitted, ask)(factors.drop(columns="workers"))
    assert str(error.value) == "X: found no such column, expected a column 'workers'"


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 90, np.nan, "0.9", None])
def test_a_coverage_is_a_share(
    fitted: PerformanceModel, factors: pd.DataFrame, coverage: Any
) -> None:
    message = f"coverage: found {coverage}, expected a number between 0 and 1"
    with pytest.raises(InputError, match=re.escape(message)):
        fitted.predict_interval(factors, coverage=coverage)


def test_a_formula_has_three_styles(fitted: PerformanceModel) -> None:
    style: Any = "html"
    with pytest.raises(InputError) as error:
        fitted.formula(style)
    assert str(error.value) == "style: found html, expected text, latex or python"


@pytest.mark.parametrize(
    "ask", ["predict", "predict_interval", "predict_formula", "cautions", "feasible"]
)
def test_an_unfitted_model_says_so(factors: pd.DataFrame, ask: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(PerformanceModel(), ask)(factors)


@pytest.mark.parametrize("ask", ["formula", "explain", "to_dict"])
def test_an_unfitted_model_has_nothing_to_say(ask: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(PerformanceModel(), ask)()


def notes(table: dict[str, Any]) -> list[str]:
    frame = pd.DataFrame(table)
    return notes_on(frame, Columns.measured(frame))


def test_what_is_odd_about_runs_is_noted() -> None:
    batch, few = np.tile([16, 32, 64, 128], 5), np.repeat([1, 2, 4, 8, 16], 4)
    assert notes({"batch": batch, "gpus": few}) == []
    assert notes({"batch": batch, "gpus": 1, "device": "a"}) == [
        "gpus never changes, so it is left out",
        "device never changes, so it is left out",
    ]
    together = "always change together: only their joint effect is known"
    assert notes({"batch": batch, "gpus": few, "work": 3 * batch**2}) == [
        f"batch and work {together}"
    ]
    assert notes({"batch": batch, "rest": -batch / 7, "gpus": few}) == []  # in the logarithm
    assert notes({"dropout": batch - 16, "kept": 5 - batch, "gpus": few}) == [
        f"dropout and kept {together}"
    ]
    names = np.array(["a", "b", "c", "d"])[np.log2(batch / 16).astype(int)]
    assert notes({"device": names, "host": np.char.upper(names), "gpus": few}) == [
        f"device and host {together}"
    ]
    assert notes({"batch": batch[:11], "gpus": few[:11]}) == [
        "only 11 runs for 2 factors: expect wide intervals, 12 would be a start"
    ]


def test_many_levels_are_noted() -> None:
    hosts = [f"host{i % 150}" for i in range(300)]
    assert notes({"host": hosts, "batch": np.arange(1, 301)}) == [
        "host has 150 levels, 2.0 runs each: levels with few runs are pulled towards the mean"
    ]


def cautions(points: dict[str, Any], **roles: str) -> list[str]:
    measured = pd.DataFrame(
        {"batch": [16, 32, 64], "dropout": [0, 0.1, 0.5], "gpus": 1, "nodes": 1, "seed": [1, 2, 3]}
    )
    inside = {"batch": 32, "dropout": 0.1, "gpus": 1, "nodes": 1, "seed": 2}
    table = pd.DataFrame({**inside, **points}, index=[0, 1])
    return cautions_on(table, Columns.measured(measured), roles, measured)


def test_points_outside_are_cautioned_of_one_line_a_factor() -> None:
    assert cautions({}) == []
    assert cautions({"batch": [16, 64], "dropout": [0, 0.5]}) == []
    assert cautions({"batch": [128, 256]}) == [
        "batch = 256 is outside what was measured: the largest was 64, 4 times less"
    ]
    assert cautions({"batch": [4, 256]}) == [
        "batch = 256 is outside what was measured: the largest was 64, 4 times less",
        "batch = 4 is outside what was measured: the smallest was 16, 4 times more",
    ]
    assert cautions({"dropout": [-1, 2]}) == [
        "dropout = 2 is outside what was measured: the largest was 0.5",
        "dropout = -1 is outside what was measured: the smallest was 0",
    ]
    assert cautions({"batch": 5e-324}) == [
        "batch = 4.94066e-324 is outside what was measured: the smallest was 16"
    ]
    assert cautions({"seed": 6}) == [
        "seed = 6 is outside what was measured: the largest was 3, 2 times less"
    ]


def test_the_first_run_on_more_than_one_is_a_boundary_never_crossed() -> None:
    assert cautions({"nodes": [1, 2], "gpus": [1, 8]}, nodes="nodes", gpus="workers") == [
        "no measured run used more than one worker: what gpus = 8 costs in communication is"
        " unknown",
        "no measured run used more than one node: what nodes = 2 costs in communication is unknown",
    ]
    assert cautions({"nodes": 2}) == [  # without its role it is a number like any other
        "nodes = 2 is outside what was measured: the largest was 1, 2 times less"
    ]
    assert cautions({"gpus": 0.5}, gpus="workers") == [
        "gpus = 0.5 is outside what was measured: the smallest was 1, 2 times more"
    ]


def test_more_workers_on_a_node_than_ever_are_cautioned_of() -> None:
    measured = pd.DataFrame({"gpus": [1, 4, 8, 16], "nodes": [1, 1, 2, 4]})
    roles = {"gpus": "workers", "nodes": "nodes"}

    def found(gpus: int, nodes: int) -> list[str]:
        table = pd.DataFrame({"gpus": [gpus, 1], "nodes": [nodes, 1]})
        return cautions_on(table, Columns.measured(measured), roles, measured)

    assert found(16, 4) == found(4, 1) == []
    assert found(16, 2) == ["8 gpus for each of nodes were never measured: at most 4"]


@pytest.mark.filterwarnings("ignore::forerun.errors.DataWarning")
def test_another_level_of_a_category_that_never_varied_is_cautioned_of(
    factors: pd.DataFrame, seconds: Array
) -> None:
    model = PerformanceModel().fit(factors.assign(device="v100"), seconds)
    same, other = (factors.assign(device=device) for device in ("v100", "h100"))
    assert model.cautions(same) == []
    assert model.cautions(other) == [
        "device was v100 in all measured runs: what h100 changes is unknown"
    ]
    with pytest.warns(ExtrapolationWarning, match="what h100 changes is unknown"):
        np.testing.assert_array_equal(model.predict(other), model.predict(same))
    (low, high), (low_, high_) = (model.predict_interval(points) for points in (same, other))
    assert (high_ / low_ > high / low).all()


@pytest.mark.filterwarnings("ignore::forerun.errors.DataWarning")
def test_predict_warns_of_its_cautions(factors: pd.DataFrame, seconds: Array) -> None:
    table = factors.assign(nodes=1, machines=1)
    model = PerformanceModel(expression="generic", roles={"machines": "device"})
    model.fit(table, seconds)
    asked = table.assign(nodes=2, machines=2, batch=1024)
    with pytest.warns(ExtrapolationWarning) as caught:
        model.predict(asked)
    assert [str(warning.message) for warning in caught] == model.cautions(asked)
    assert model.cautions(asked) == [
        "batch = 1024 is outside what was measured: the largest was 128, 8 times less",
        "no measured run used more than one node: what nodes = 2 costs in communication is unknown",
        "machines = 2 is outside what was measured: the largest was 1, 2 times less",
    ]


def test_fit_warns_of_its_notes() -> None:
    with pytest.warns(DataWarning) as caught:
        model = PerformanceModel().fit(pd.DataFrame({"batch": [1, 2], "seed": [3, 3]}), [1, 2])
    assert [str(warning.message) for warning in caught] == model.notes_
    assert model.notes_ == [
        "seed never changes, so it is left out",
        "only 2 runs for 1 factor: expect wide intervals, 8 would be a start",
    ]
