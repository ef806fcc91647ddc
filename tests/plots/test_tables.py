import numpy as np
import pandas as pd
import pytest

from forerun.factors import Factor, Space
from forerun.modelling.kept import model_of
from forerun.plots import tables
from forerun.study import Study


def test_the_reference_is_a_measured_value_of_each_factor() -> None:
    table = pd.DataFrame({"batch": [16, 32, 512], "act": ["tanh", "relu", "tanh"]})
    space = Space([Factor("batch"), Factor("act", "categorical")])
    assert tables.reference(table, space) == {"batch": 32, "act": "tanh"}


def test_the_spread_of_repeats() -> None:
    table = pd.DataFrame({"batch": [1, 1, 2, 2, 4], "seconds": [1.0, 3.0, 5.0, 5.0, 9.0]})
    assert tables.repeat_spread(table, "seconds") == pytest.approx(np.log(3) / 2)
    assert tables.repeat_spread(table.iloc[[0, 2, 4]], "seconds") is None


@pytest.mark.parametrize(
    ("column", "expected"),
    [([1, 2, 4], [1, 2, 3, 4, 5, 6, 7, 8]), ([0.0, 0.5], [0.0, 1.0]), ([-2.0, -1.0], [-2.0, -1.0])],
)
def test_a_curve_goes_on_to_twice_the_largest_value(
    column: list[float], expected: list[float]
) -> None:
    values = tables.curve_values(pd.Series(column))
    assert values[0] == expected[0]
    assert values[-1] == expected[-1]
    if all(value == int(value) for value in column) and column[0] > 0:
        assert values.tolist() == expected


def test_a_long_curve_of_whole_numbers_has_whole_numbers() -> None:
    values = tables.curve_values(pd.Series([16.0, 4096.0]))
    assert len(values) <= 61
    assert (values == values.round()).all()
    assert (np.diff(values) > 0).all()


def test_scaling_is_what_the_model_predicts(fitted_study: Study) -> None:
    model, table = model_of(fitted_study).model, fitted_study.table()
    at = tables.reference(table, fitted_study.space)
    curve = tables.scaling(model, table.drop(columns="seconds"), "batch", at)
    at_64 = tables.at_point(table, {**at, "batch": 64}, 1)
    row = curve.iloc[(curve["value"] - 64).abs().argmin()]
    assert row["value"] == pytest.approx(64, rel=0.05)
    assert row["predicted"] == pytest.approx(model.predict(at_64)[0], rel=0.05)
    assert (curve["low"] <= curve["predicted"]).all()
    assert (curve["predicted"] <= curve["high"]).all()
    assert curve["lowest"].sum() == 1
    assert curve.loc[curve["beyond"], "value"].min() > 256
    assert not curve.loc[curve["value"] <= 256, "beyond"].any()


def test_a_run_at_the_reference_is_not_moved(fitted_study: Study) -> None:
    model, table = model_of(fitted_study).model, fitted_study.table()
    at = {str(name): value for name, value in table.iloc[0].items() if name != "seconds"}
    runs = tables.moved_runs(model, table, "seconds", "batch", at)
    assert runs["moved"].iloc[0] == pytest.approx(runs["measured"].iloc[0])
    assert len(runs) == len(table)


def test_every_run_is_predicted_by_a_model_that_has_not_seen_its_point(
    fitted_study: Study,
) -> None:
    model, table = model_of(fitted_study).model, fitted_study.table()
    rows = tables.measured(model, table, "seconds")
    assert rows.index.tolist() == table.index.tolist()
    assert rows["measured"].tolist() == table["seconds"].tolist()
    inside = (rows["low"] <= rows["measured"]) & (rows["measured"] <= rows["high"])
    assert (rows["inside"] == inside).all()
    assert rows["ratio"].tolist() == pytest.approx((rows["measured"] / rows["predicted"]).tolist())
    # In-sample errors would be smaller than these.
    seen = model.predict(table.drop(columns="seconds"))
    own = (rows["measured"] / seen - 1).abs().mean()
    assert (rows["measured"] / rows["predicted"] - 1).abs().mean() > own


def test_what_is_drawn_has_a_limit() -> None:
    rows = pd.DataFrame({"x": range(5000)})
    drawn = tables.drawn(rows)
    assert len(drawn) == tables.DRAWN
    assert drawn.equals(tables.drawn(rows))


def test_an_explanation_as_tables(fitted_study: Study) -> None:
    explanation = model_of(fitted_study).model.explain()
    shares = tables.contributions(explanation)
    assert set(shares["factor"]) == set(fitted_study.space.names)
    assert shares["contribution"].is_monotonic_decreasing
    levels = tables.levels(explanation)
    assert set(levels["factor"]) == {"activation", "optimiser"}
    constants = tables.constants(explanation)
    assert (constants["low"] <= constants["high"]).all()


def test_a_curve_stays_finite() -> None:
    assert tables.curve_values(pd.Series([1e300, 9e307]))[-1] == pytest.approx(1e308)
    values = tables.curve_values(pd.Series([1e300, 1.5e308]))
    assert np.isfinite(values).all()
    assert values[-1] == pytest.approx(1.5e308)
