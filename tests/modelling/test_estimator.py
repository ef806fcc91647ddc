"""PerformanceModel as a scikit-learn regressor, and the tables that it takes."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from forerun import PerformanceModel
from forerun.errors import DataWarning, ExtrapolationWarning

Array = NDArray[np.float64]
EXPRESSIONS = ("auto", "generic")


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.filterwarnings("ignore::forerun.errors.ForerunWarning")
def test_scikit_learns_own_checks_pass(expression: Any) -> None:
    results = check_estimator(PerformanceModel(expression=expression), on_skip=None)
    assert len(results) > 40


def test_a_clone_is_unfitted_and_fits_alike(
    fitted: PerformanceModel, factors: pd.DataFrame, seconds: Array
) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "model_")
    again = copy.fit(factors, seconds)
    np.testing.assert_array_equal(again.predict(factors), fitted.predict(factors))


@pytest.mark.filterwarnings("ignore::forerun.errors.ForerunWarning")
def test_it_works_inside_scikit_learns_tools(factors: pd.DataFrame, seconds: Array) -> None:
    doubled = FunctionTransformer(lambda table: table.assign(batch=2 * table.batch))
    pipeline = make_pipeline(doubled, PerformanceModel(expression="generic"))
    pipeline.fit(factors, seconds)
    assert pipeline.score(factors, seconds) > 0.9

    search = GridSearchCV(PerformanceModel(), {"expression": ["auto", "generic"]}, cv=2)
    search.fit(factors, seconds)
    assert search.best_params_ == {"expression": "auto"}


def same_categories(factors: pd.DataFrame) -> list[pd.DataFrame]:
    """The table with its category in every form that pandas has for one."""
    activation = factors.activation
    return [
        factors.assign(activation=activation.astype(kind))
        for kind in ("category", "string", object)
    ] + [
        factors.assign(activation=pd.Categorical(activation, categories=["tanh", "relu", "gelu"])),
        factors.astype(object),
        factors.set_index(np.arange(len(factors)) * 7),
    ]


def test_a_category_is_the_same_in_every_form(
    fitted: PerformanceModel, factors: pd.DataFrame, seconds: Array
) -> None:
    expected = fitted.predict(factors)
    for table in same_categories(factors):
        np.testing.assert_array_equal(fitted.predict(table), expected)
    table = same_categories(factors)[4]
    again = clone(fitted).fit(table, pd.Series(seconds, index=table.index[::-1]))
    np.testing.assert_array_equal(again.predict(factors), expected)


@pytest.mark.parametrize("dtype", [bool, "boolean"])
def test_true_and_false_are_levels(factors: pd.DataFrame, seconds: Array, dtype: Any) -> None:
    table = factors.assign(activation=(factors.activation == "tanh").astype(dtype))
    model = PerformanceModel().fit(table.rename(columns={"activation": "slow"}), seconds)
    (effect,) = (f for f in model.explain().factors if f.name == "slow")
    assert effect.levels is not None
    assert effect.levels["True"] / effect.levels["False"] == pytest.approx(2, rel=0.03)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_rows_without_names_are_taken_by_place(
    factors: pd.DataFrame, seconds: Array, expression: Any
) -> None:
    rows = factors.to_numpy(object)
    model = PerformanceModel(intrinsic=["x2"], expression=expression).fit(rows, seconds)
    assert "x0" in model.formula()
    assert "x1" in model.formula()
    expected = model.predict(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(model.predict(rows.tolist()), expected)
        unnamed = factors.set_axis([0, 1, 2], axis=1)
        np.testing.assert_array_equal(model.predict(unnamed), expected)
    between = model.predict([[48, 3, "relu"]])  # a number that was not measured is a number
    assert between == pytest.approx(0.02 * 48 / 3 + 0.1 * np.log2(6) + 0.05, rel=0.2)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        np.testing.assert_array_equal(model.predict(factors), expected)

    fitted_by_number = clone(model).fit(unnamed, seconds)
    np.testing.assert_array_equal(fitted_by_number.predict(rows), expected)


def test_columns_are_found_by_name(fitted: PerformanceModel, factors: pd.DataFrame) -> None:
    mixed = factors.assign(host="a", note=np.nan)[
        ["note", "workers", "host", "activation", "batch"]
    ]
    np.testing.assert_array_equal(fitted.predict(mixed), fitted.predict(factors))
    assert list(fitted.feature_names_in_) == ["batch", "workers", "activation"]


def test_names_may_come_in_any_list(factors: pd.DataFrame, seconds: Array) -> None:
    names: Any = factors.columns[[2]]
    model = PerformanceModel(intrinsic=names, expression="generic")
    model.fit(factors, seconds)
    scopes = {effect.name: effect.scope for effect in model.explain().factors}
    assert scopes == {"activation": "intrinsic", "batch": "extrinsic", "workers": "extrinsic"}
    assert model.to_dict()["settings"]["intrinsic"] == ["activation"]


def test_no_rows_get_no_predictions(fitted: PerformanceModel, factors: pd.DataFrame) -> None:
    none = factors.iloc[:0]
    low, high = fitted.predict_interval(none)
    assert len(fitted.predict(none)) == len(low) == len(high) == len(fitted.feasible(none)) == 0
    assert fitted.cautions(none) == []


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_same_seed_gives_the_same_bits_on_any_number_of_workers(
    factors: pd.DataFrame, seconds: Array, expression: Any
) -> None:
    def fitted(**settings: Any) -> dict[str, Any]:
        model = PerformanceModel(expression=expression, **settings).fit(factors, seconds)
        return {**model.to_dict(), "settings": None}

    first = fitted(random_state=3)
    assert fitted(random_state=3, n_jobs=2) == first
    assert fitted(random_state=4) != first


def test_the_target_and_its_unit_are_free(factors: pd.DataFrame) -> None:
    memory = 1e9 + 2e7 * factors.batch
    model = PerformanceModel(target="memory_bytes", unit="B").fit(factors, memory)
    assert model.formula().startswith("memory_bytes = ")
    np.testing.assert_allclose(model.predict(factors), memory, rtol=0.01)


def test_a_good_table_gives_no_warning(factors: pd.DataFrame, seconds: Array) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PerformanceModel().fit(factors, seconds)
        model.predict(factors)
    assert model.notes_ == []


def test_what_is_noticed_is_warned_of_and_kept(factors: pd.DataFrame, seconds: Array) -> None:
    note = "gpus never changes, so it is left out"
    with pytest.warns(DataWarning, match=note):
        model = PerformanceModel(expression="generic").fit(factors.assign(gpus=1), seconds)
    assert model.notes_ == [note]
    with pytest.warns(ExtrapolationWarning, match="no measured run used more than one worker"):
        model.predict(factors.assign(gpus=2))
