"""What was planted is found again: exponents, sums of terms, the best number of workers."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from forerun import PerformanceModel

Array = NDArray[np.float64]
NOISE = 0.02


def grid(**values: Any) -> pd.DataFrame:
    return pd.DataFrame(product(*values.values()), columns=list(values))


def noisy(exact: Any, seed: int = 0) -> Array:
    exact = np.asarray(exact, float)
    found: Array = exact * np.exp(NOISE * np.random.default_rng(seed).standard_normal(len(exact)))
    return found


def errors(found: Any, exact: Any) -> Array:
    """Relative errors."""
    off: Array = np.abs(np.asarray(found) / np.asarray(exact) - 1)
    return off


@pytest.mark.parametrize("seed", range(3))
def test_a_product_gives_its_exponents(seed: int) -> None:
    table = grid(batch=[16, 32, 64, 128, 256], gpus=[1, 2, 4, 8], depth=[18, 34, 50, 101])
    seconds = noisy(0.003 * table.batch**0.9 * table.gpus**-0.7 * table.depth**1.3, seed)
    model = PerformanceModel().fit(table, seconds)
    found = {constant.name: constant.value for constant in model.explain().constants}
    assert found["exponent of batch"] == pytest.approx(0.9, rel=0.02)
    assert found["exponent of gpus"] == pytest.approx(-0.7, rel=0.02)
    assert found["exponent of depth"] == pytest.approx(1.3, rel=0.02)
    assert found["coefficient"] == pytest.approx(0.003, rel=0.1)
    assert len(found) == 4


def test_the_generic_expression_gives_its_exponents() -> None:
    """Intrinsic factors add up, extrinsic ones multiply: the published expression itself."""
    table = grid(kernel=[1, 3, 5, 7], filters=[8, 16, 32, 64], batch=[16, 64, 256], gpus=[1, 2, 4])
    work = 0.3 * table.kernel**1.5 + 0.2 * table.filters**0.8
    seconds = noisy(work * table.batch**0.9 * table.gpus**-0.7)
    model = PerformanceModel(
        expression="generic", intrinsic=["kernel", "filters"], strength=1e-6
    ).fit(table, seconds)
    found = {constant.name: constant.value for constant in model.explain().constants}
    assert found["exponent of kernel"] == pytest.approx(1.5, rel=0.05)
    assert found["exponent of filters"] == pytest.approx(0.8, rel=0.05)
    assert found["exponent of batch"] == pytest.approx(0.9, rel=0.02)
    assert found["exponent of gpus"] == pytest.approx(-0.7, rel=0.02)


def test_levels_multiply() -> None:
    table = grid(batch=[16, 32, 64, 128], device=["k80", "p100", "v100"], repeat=[1, 2, 3])
    speed = table.device.map({"k80": 1.0, "p100": 0.4, "v100": 0.2})
    table = table.drop(columns="repeat")
    model = PerformanceModel().fit(table, noisy(0.1 * table.batch * speed))
    found = {constant.name: constant.value for constant in model.explain().constants}
    assert found["device = p100"] == pytest.approx(0.4, rel=0.03)
    assert found["device = v100"] == pytest.approx(0.2, rel=0.03)


def single_product(table: pd.DataFrame, seconds: Array, asked: pd.DataFrame) -> Array:
    """The best product of powers, by least squares on logarithms."""

    def design(points: pd.DataFrame) -> Array:
        return np.column_stack([np.ones(len(points)), np.log(points.to_numpy(float))])

    constants = np.linalg.lstsq(design(table), np.log(seconds), rcond=None)[0]
    found: Array = np.exp(design(asked) @ constants)
    return found


def two_terms(table: pd.DataFrame) -> Any:
    """Computation that is divided by the workers, and communication that grows with them."""
    return 0.02 * table.batch / table.workers + 0.05 * table.workers**0.5


def test_a_sum_of_two_terms_is_found() -> None:
    table = grid(batch=[16, 32, 64, 128, 256], workers=[1, 2, 4, 8, 16, 32])
    between = grid(batch=[24, 48, 96, 192], workers=[3, 6, 12, 24])
    model = PerformanceModel().fit(table, noisy(two_terms(table)))
    exact = two_terms(between)
    single = errors(single_product(table, noisy(two_terms(table)), between), exact).mean()
    assert single > 0.15
    assert errors(model.predict_formula(between), exact).mean() < 0.3 * single
    assert errors(model.predict(between), exact).mean() < 1.5 * NOISE
    assert " + " in model.formula()


def scaling(table: pd.DataFrame, latency: float) -> Any:
    """Work that is divided, a part that is not, and a tree of messages."""
    return 0.02 * table.batch / table.workers + 0.05 + latency * np.log2(table.workers)


@pytest.mark.parametrize("latency", [0.02, 0.05, 0.1])
def test_the_best_number_of_workers_is_found(latency: float) -> None:
    table = grid(batch=[64, 128, 256], workers=[1, 2, 4, 8, 16, 32, 64, 128])
    model = PerformanceModel().fit(table, noisy(scaling(table, latency)))
    unseen = grid(batch=[96, 200], workers=[3, 6, 12, 24, 48, 96])
    assert errors(model.predict(unseen), scaling(unseen, latency)).mean() < 2 * NOISE

    workers = model.explain().workers
    assert workers is not None
    assert workers.name == "workers"
    assert workers.reference == {"batch": 128}
    # d/dw (0.02·128/w + latency·log2 w) = 0
    best = min(0.02 * 128 * np.log(2) / latency, 1024)
    assert best / 1.5 < workers.best < 1.5 * best
    at_best = pd.DataFrame({"batch": [128], "workers": [workers.best]})
    assert workers.at_best == pytest.approx(float(model.predict(at_best)[0]))
    assert workers.limit <= workers.at_best
    largest = scaling(pd.DataFrame({"batch": [128], "workers": [128]}), latency)[0]
    assert workers.at_reference == pytest.approx(largest, rel=0.06)


def test_the_time_does_not_fall_below_what_is_not_divided() -> None:
    """Amdahl: 8 s of work for any number of gpus, and 1 s that each of them needs."""
    table = grid(gpus=[1, 2, 3, 4, 6, 8, 12, 16, 24, 32], repeat=[1, 2, 3])[["gpus"]]
    model = PerformanceModel().fit(table, noisy(8 / table.gpus + 1))
    workers = model.explain().workers
    assert workers is not None
    assert workers.best > 32
    assert workers.limit == pytest.approx(1, rel=0.15)
    assert workers.at_reference == pytest.approx(1.25, rel=0.05)


@pytest.mark.filterwarnings("ignore::forerun.errors.ExtrapolationWarning")
def test_more_work_takes_longer_and_more_workers_help_where_they_did() -> None:
    table = grid(batch=[16, 32, 64, 128], workers=[1, 2, 4, 8])
    model = PerformanceModel().fit(table, noisy(0.02 * table.batch / table.workers + 0.01))
    by_batch = model.predict(pd.DataFrame({"batch": np.arange(16, 2000, 16), "workers": 2}))
    by_workers = model.predict(pd.DataFrame({"batch": 128, "workers": np.arange(1, 17)}))
    assert (np.diff(by_batch) > 0).all()
    assert (np.diff(by_workers) < 0).all()


@pytest.mark.parametrize("latency", [0.02, 0.05, 0.1])
@pytest.mark.filterwarnings("ignore::forerun.errors.ExtrapolationWarning")
def test_a_time_that_rose_before_the_edge_goes_on_rising(latency: float) -> None:
    table = grid(batch=[64, 128, 256], workers=[1, 2, 4, 8, 16, 32, 64, 128])
    model = PerformanceModel().fit(table, noisy(scaling(table, latency)))
    more = pd.DataFrame({"batch": 128, "workers": [128, 192, 256, 384]})
    assert (np.diff(model.predict(more)) > 0).all()
    low, high = model.predict_interval(more[1:])
    assert (low <= scaling(more[1:], latency)).all()
    assert (high >= scaling(more[1:], latency)).all()
