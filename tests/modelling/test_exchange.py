"""Workers that exchange something: from nothing for one to hardly more for eight than for four."""

import json

import numpy as np
import pandas as pd
import pytest

from forerun import PerformanceModel
from forerun.modelling.auto import AutoModel
from forerun.modelling.columns import Array, Column, Columns
from forerun.modelling.exchange import with_exchange
from forerun.modelling.expression import Design, log_sum

WORKERS = (1, 2, 4)


def points(workers: tuple[int, ...], name: str = "workers") -> pd.DataFrame:
    grid = [(n, rate, batch) for n in workers for rate in (20, 40, 80) for batch in (8, 16, 32)]
    return pd.DataFrame(grid, columns=[name, "megabits", "batch"])


def all_reduce(table: pd.DataFrame) -> Array:
    """Compute by the batch, and an exchange of 4 Mbit each way."""
    n = table.iloc[:, 0].to_numpy(float)
    sent = 8 * (1 - 1 / n) / table["megabits"].to_numpy(float)
    return np.asarray(0.01 * table["batch"].to_numpy(float) + sent)


def noisy(seconds: Array) -> Array:
    return seconds * np.exp(np.random.default_rng(0).normal(0, 0.02, len(seconds)))


def worst(model: PerformanceModel, table: pd.DataFrame, seconds: Array) -> float:
    return float(np.abs(model.predict(table) / seconds - 1).max())


@pytest.fixture(scope="module")
def model() -> PerformanceModel:
    table = points(WORKERS)
    return PerformanceModel().fit(table, noisy(all_reduce(table)))


@pytest.mark.filterwarnings("ignore::forerun.errors.ExtrapolationWarning")
@pytest.mark.parametrize("workers", [8, 16, 64])
def test_an_all_reduce_is_known_on_more_workers(model: PerformanceModel, workers: int) -> None:
    asked = points((workers,))
    assert worst(model, asked, all_reduce(asked)) < 0.1
    low, high = model.predict_interval(asked)
    assert ((low <= all_reduce(asked)) & (all_reduce(asked) <= high)).all()


def test_the_formula_says_so(model: PerformanceModel) -> None:
    assert "·(1 - 1/workers)" in model.formula()
    assert r"\left(1 - \frac{1}{\mathrm{workers}}\right)" in model.formula("latex")
    table = points((1, 2, 4, 8))
    columns = {str(name): table[name].to_numpy(float) for name in table}
    found = eval(model.formula("python"), {"exp": np.exp}, columns)
    np.testing.assert_allclose(found, model.predict_formula(table), rtol=1e-9)


def test_a_saved_model_knows_of_the_exchange(model: PerformanceModel) -> None:
    again = PerformanceModel.from_dict(json.loads(json.dumps(model.to_dict())))
    np.testing.assert_array_equal(again.predict(points(WORKERS)), model.predict(points(WORKERS)))
    assert again.formula() == model.formula()


@pytest.mark.filterwarnings("ignore::forerun.errors.ExtrapolationWarning")
def test_work_that_is_shared_is_shared_further() -> None:
    def seconds(table: pd.DataFrame) -> Array:
        shared = table["batch"] / table["workers"]
        return np.asarray(0.2 + 0.1 * shared + 2 * (1 - 1 / table["workers"]) / table["megabits"])

    model = PerformanceModel().fit(points(WORKERS), noisy(seconds(points(WORKERS))))
    asked = points((8,))
    assert worst(model, asked, seconds(asked)) < 0.15


def test_only_workers_exchange() -> None:
    table = points(WORKERS, "layers")
    seconds = noisy(all_reduce(table))
    assert "1/layers" not in PerformanceModel().fit(table, seconds).formula()
    assert "1/layers" in PerformanceModel(roles={"layers": "workers"}).fit(table, seconds).formula()


@pytest.mark.parametrize("workers", [(1, 2), (2, 4, 8)])
def test_too_few_counts_or_none_of_a_single_worker_cannot_tell(workers: tuple[int, ...]) -> None:
    table = points(workers)
    fitted = PerformanceModel().fit(table, noisy(all_reduce(table))).model_
    assert isinstance(fitted, AutoModel)
    assert not fitted.design.exchanging


def test_runs_that_speak_clearly_against_it_are_heard() -> None:
    """Twice the workers, 1.4 times the time, and nothing else."""
    table = points((1, 2, 4, 8, 16))
    columns = Columns.measured(table)
    numbers, codes = columns.numbers(table), columns.codes(table)
    target = 0.5 * np.log(table["workers"].to_numpy(float))
    found = with_exchange(columns, numbers, codes, target, {"workers"})
    assert not found["workers"].exchanged


def test_elasticities_are_the_slopes_of_the_formula(model: PerformanceModel) -> None:
    fitted = model.model_
    assert isinstance(fitted, AutoModel)
    table = points((2, 4, 8))
    place = [column.name for column in fitted.columns.numeric].index("workers")

    def phi(table: pd.DataFrame) -> Array:
        return fitted.design.phi(fitted.columns.numbers(table), fitted.columns.codes(table))

    def elasticities(table: pd.DataFrame) -> Array:
        theta = fitted.formula.theta
        shares = log_sum(phi(table), theta)[1]
        return fitted.design.elasticities(phi(table), theta, shares, place)

    above, below = (
        fitted.log_formula(table.assign(workers=table["workers"] * (1 + step)))
        for step in (1e-5, -1e-5)
    )
    np.testing.assert_allclose(elasticities(table), (above - below) / 2e-5, rtol=1e-4)
    np.testing.assert_allclose(elasticities(points((1,))), 0, atol=1e-9)


def test_a_column_written_before_there_were_exchanges_can_be_read() -> None:
    column = Columns.measured(points(WORKERS))["workers"]
    document = column.to_dict()
    del document["exchanged"]
    assert Column.from_dict(document) == column
    assert Design(Columns([column])).width == 2
