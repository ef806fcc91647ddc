"""What explain() says about planted data is what was planted."""

import json
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from forerun import PerformanceModel
from forerun.modelling.explain import Explanation, FactorEffect, TermEffect, WorkersEffect

Array = NDArray[np.float64]
pytestmark = pytest.mark.filterwarnings("ignore::forerun.errors.DataWarning")
expressions = pytest.mark.parametrize("expression", ["auto", "generic"])
NOISE = 0.02


def grid(**values: Any) -> pd.DataFrame:
    return pd.DataFrame(product(*values.values()), columns=list(values))


def noisy(exact: Any, seed: int = 0) -> Array:
    exact = np.asarray(exact, float)
    found: Array = exact * np.exp(NOISE * np.random.default_rng(seed).standard_normal(len(exact)))
    return found


@pytest.fixture(scope="module", params=["auto", "generic"])
def product_explained(request: pytest.FixtureRequest) -> Explanation:
    """0.1·batch^0.9·gpus^-0.5 with a device of twice the time, and a factor that does nothing."""
    table = grid(
        batch=[16, 32, 64, 128, 256], gpus=[1, 2, 4, 8], device=["p100", "k80"], seed=[0, 1, 2]
    )
    exact = 0.1 * table.batch**0.9 * table.gpus**-0.5 * np.where(table.device == "k80", 2, 1)
    model = PerformanceModel(expression=request.param, intrinsic=["device"])
    return model.fit(table, noisy(exact)).explain()


def effect_of(explained: Explanation, name: str) -> FactorEffect:
    return next(factor for factor in explained.factors if factor.name == name)


def test_contributions_are_shares_in_order_of_size(product_explained: Explanation) -> None:
    shares = [factor.contribution for factor in product_explained.factors]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    assert [f.name for f in product_explained.factors] == ["batch", "gpus", "device", "seed"]
    # the variances of the logarithms: 0.81·var(log batch), 0.25·var(log gpus), var(log 2)
    parts = np.array([0.81 * 2.0, 0.25 * 1.25, 0.25]) * np.log(2) ** 2
    np.testing.assert_allclose(shares, [*(parts / parts.sum()), 0], atol=0.04)


def test_factors_are_described(product_explained: Explanation) -> None:
    kinds = {f.name: (f.kind, f.scope) for f in product_explained.factors}
    assert kinds == {
        "batch": ("numeric", "extrinsic"),
        "gpus": ("numeric", "extrinsic"),
        "device": ("categorical", "intrinsic"),
        "seed": ("numeric", "extrinsic"),
    }


@pytest.mark.parametrize(("name", "planted"), [("batch", 0.9), ("gpus", -0.5)])
def test_elasticities_are_those_planted(
    product_explained: Explanation, name: str, planted: float
) -> None:
    effect = effect_of(product_explained, name)
    assert effect.elasticity == pytest.approx(planted, rel=0.05)
    assert effect.low is not None
    assert effect.high is not None
    assert effect.low - 0.01 <= planted <= effect.high + 0.01
    assert effect.high - effect.low < 0.05
    assert effect.levels is None


def test_levels_are_multiples_of_their_geometric_mean(product_explained: Explanation) -> None:
    effect = effect_of(product_explained, "device")
    assert effect.elasticity is effect.low is effect.high is None
    assert effect.levels is not None
    assert list(effect.levels) == ["k80", "p100"]
    assert effect.levels["k80"] == pytest.approx(np.sqrt(2), rel=0.02)
    assert effect.levels["p100"] == pytest.approx(np.sqrt(0.5), rel=0.02)


def test_the_formula_carries_nearly_everything(product_explained: Explanation) -> None:
    assert 0.99 < product_explained.formula_share <= 1
    assert product_explained.formula.startswith("seconds = ")


def test_constants_spread_over_what_was_planted(product_explained: Explanation) -> None:
    spread = {constant.name: constant for constant in product_explained.constants}
    for name, planted in {"exponent of batch": 0.9, "exponent of gpus": -0.5}.items():
        constant = spread[name]
        assert constant.low <= constant.value <= constant.high
        assert constant.low - 0.01 <= planted <= constant.high + 0.01
        assert constant.high - constant.low < 0.05


def test_the_whole_goes_to_json(product_explained: Explanation) -> None:
    document = json.loads(json.dumps(product_explained.to_dict(), allow_nan=False))
    assert document["formula"] == product_explained.formula
    assert document["factors"][0]["name"] == "batch"
    assert document["workers"]["name"] == "gpus"


@pytest.mark.parametrize("seed", range(3))
def test_the_spread_of_a_constant_is_as_wide_as_its_error(seed: int) -> None:
    """Over many tables 90 % intervals hold nine of ten: here 20 % noise, and all of three."""
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"batch": draw.choice([8, 16, 32, 64, 128], 60), "x": draw.uniform(1, 9, 60)}
    )
    seconds = table.batch**0.8 * table.x**0.4 * np.exp(0.2 * draw.standard_normal(60))
    spread = {c.name: c for c in PerformanceModel().fit(table, seconds).explain().constants}
    # the deviation of the exponent of batch is 0.2 / sqrt(60) / (1.41 log 2) = 0.026
    constant = spread["exponent of batch"]
    assert 0.04 < constant.high - constant.low < 0.2
    assert constant.low - 0.03 < 0.8 < constant.high + 0.03


@pytest.fixture(scope="module")
def two_phases() -> Explanation:
    """0.01·batch/gpus + 0.2, of which each is more than half on its side of batch/gpus = 20."""
    table = grid(batch=[4, 8, 16, 32, 64, 128, 256, 512], gpus=[1, 2])
    return PerformanceModel().fit(table, noisy(0.01 * table.batch / table.gpus + 0.2)).explain()


def planted_terms(explained: Explanation) -> tuple[TermEffect, TermEffect]:
    """The term that is work, and the one that is fixed."""
    work = next(term for term in explained.terms if "batch·gpus^-1" in term.text)
    return work, next(term for term in explained.terms if "batch" not in term.text)


def test_terms_share_the_time(two_phases: Explanation) -> None:
    shares = [term.share for term in two_phases.terms]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    work, fixed = planted_terms(two_phases)
    assert work.share == pytest.approx(0.55, abs=0.05)
    assert work.share + fixed.share > 0.95


def test_terms_say_where_they_dominate(two_phases: Explanation) -> None:
    work, fixed = planted_terms(two_phases)
    assert work.dominates == "batch ≥ 32"
    assert fixed.dominates == "batch < 32"
    for term in two_phases.terms:
        assert term.text in two_phases.formula
        assert term in (work, fixed) or term.dominates == "nowhere"


def test_the_constants_of_two_phases_are_those_planted(two_phases: Explanation) -> None:
    for planted in (0.01, 0.2):
        constant = min(two_phases.constants, key=lambda c: abs(np.log(c.value / planted)))
        assert constant.low * 0.95 <= planted <= constant.high * 1.05
        assert constant.high < 1.2 * constant.low


def test_the_generic_terms_share_the_time() -> None:
    table = grid(kernel=[1, 3, 5, 7, 9], batch=[16, 32, 64, 128], gpus=[1, 2, 4])
    exact = 0.001 * table.kernel**2 * table.batch / table.gpus + 0.3
    model = PerformanceModel(expression="generic", intrinsic=["kernel"], strength=1e-6)
    terms = model.fit(table, noisy(exact)).explain().terms
    assert sum(term.share for term in terms) == pytest.approx(1)
    constant = next(term for term in terms if "kernel" not in term.text)
    assert float(constant.text) == pytest.approx(0.3, rel=0.1)
    assert constant.dominates.startswith("kernel < ")
    assert constant.share == pytest.approx(float(np.mean(0.3 / exact)), abs=0.03)


@expressions
def test_a_single_term_dominates_everywhere(expression: Any) -> None:
    table = grid(batch=[16, 32, 64], gpus=[1, 2, 4, 8])
    model = PerformanceModel(expression=expression, strength=1e-4)
    terms = model.fit(table, noisy(0.1 * table.batch)).explain().terms
    assert terms[0].dominates == "everywhere"
    assert sum(term.share for term in terms) == pytest.approx(1)


def test_a_formula_that_misses_something_carries_less() -> None:
    """A wave in the logarithm of the batch: no sum of powers follows it."""
    table = pd.DataFrame({"batch": np.geomspace(1, 1000, 80)})
    seconds = noisy(np.exp(np.sin(2 * np.log(table.batch))))
    explained = PerformanceModel().fit(table, seconds).explain()
    assert 0 <= explained.formula_share < 0.6


@expressions
@pytest.mark.parametrize(
    ("counts", "best"),
    [([0, 1, 2, 4], 4), ([0.25, 0.5, 1], None), ([1, 2], None), ([2, 4, 8], None)],
)
def test_worker_counts_may_be_anything(expression: Any, counts: list[float], best: Any) -> None:
    """A loader without a worker process, fractions of a GPU."""
    table = grid(batch=[16, 32, 64, 128], workers=counts)
    seconds = noisy(0.1 * table.batch / (1 + table.workers))
    workers = PerformanceModel(expression=expression).fit(table, seconds).explain().workers
    assert workers is not None
    assert 0 < workers.limit <= workers.at_best <= workers.at_reference
    assert best is None or workers.best == best
    if counts[0] >= 1:
        assert workers.best == round(workers.best)


def test_only_a_factor_that_counts_workers_is_taken_for_it() -> None:
    table = grid(batch=[16, 32, 64], speed=[1, 2, 4])
    seconds = noisy(table.batch / table.speed)
    assert PerformanceModel().fit(table, seconds).explain().workers is None
    told = PerformanceModel(roles={"speed": "workers"}).fit(table, seconds).explain().workers
    assert told is not None
    assert told.name == "speed"
    assert told.reference == {"batch": 32}


def test_a_constant_factor_is_part_of_the_reference_only() -> None:
    table = grid(gpus=[1, 2, 4, 8], batch=[64], device=["v100"], repeat=[1, 2, 3])
    table = table.drop(columns="repeat")
    explained = PerformanceModel().fit(table, noisy(1 / table.gpus)).explain()
    assert [factor.name for factor in explained.factors] == ["gpus"]
    assert explained.workers is not None
    assert explained.workers.reference == {"batch": 64, "device": "v100"}


@pytest.mark.parametrize(
    ("best", "at_best", "limit", "told"),
    [
        (2, 9.95, 1.0, "no clear effect up to 4, the most measured (10 s)"),
        (2, 8.0, 8.0, "lowest at 2 with 8 s (10 s at 4, the most measured)"),
        (
            *(16, 6.0, 5.0),
            "still falling at 4, the most measured, with 10 s; at 16, which nobody has run, the "
            "model expects 6 s, and no count takes it below 5 s",
        ),
        (
            *(16, 6.0, 1e-9),
            "still falling at 4, the most measured, with 10 s; at 16, which nobody has run, the "
            "model expects 6 s",
        ),
    ],
)
def test_more_workers_are_promised_nothing(
    best: float, at_best: float, limit: float, told: str
) -> None:
    effect = WorkersEffect("workers", best, at_best, limit, {}, at_reference=10.0, measured=4.0)
    assert effect.told("seconds", "s") == told
