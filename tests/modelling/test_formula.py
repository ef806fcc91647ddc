"""The formula as printed is the formula that predicts, whatever the factors are called."""

import math
from collections.abc import Iterator
from typing import Any

import matplotlib.mathtext
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from forerun import PerformanceModel
from forerun.modelling.columns import as_levels, is_number

Array = NDArray[np.float64]
pytestmark = pytest.mark.filterwarnings("ignore::forerun.errors.ForerunWarning")
expressions = pytest.mark.parametrize("expression", ["auto", "generic"])


def runs(seed: int = 0, count: int = 60) -> pd.DataFrame:
    """A sum of two terms, with a factor that is 0 somewhere and a category."""
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "batch": draw.choice([16, 32, 64, 128], count),
            "gpus": draw.choice([1, 2, 4, 8], count),
            "dropout": draw.choice([0, 0.1, 0.5], count),
            "shift": draw.choice([-3.0, -1.0, 2.0], count),
            "device": draw.choice(["p100", "v100", 'it\'s "a" {1} \\ \n'], count),
        }
    )
    work = 0.01 * table.batch / table.gpus * (1 + table.dropout) + 0.1 * table.gpus**0.5
    level = table.device.map({"p100": 1.0, "v100": 0.5}).fillna(2.0)
    noise = np.exp(0.02 * draw.standard_normal(count) + 0.1 * table["shift"])
    return table.assign(seconds=work * level * noise)


def evaluated(model: PerformanceModel, table: pd.DataFrame) -> Array:
    """The Python formula at each row, by `eval`: factors by their names, all of them in `point`."""
    known = {"__builtins__": {}, "exp": math.exp, "max": max}
    code = compile(model.formula("python"), "formula", "eval")
    text = {name: v if is_number(v) else as_levels(v) for name, v in table.items()}
    points: list[dict[str, Any]] = pd.DataFrame(text).to_dict("records")  # type: ignore[assignment]
    return np.array([eval(code, {**point, **known, "point": point}) for point in points])


NAMES = {
    "as they are": {},
    "odd": {
        "batch": "batch size",
        "gpus": "it's",
        "dropout": 'a "b" \\',
        "shift": "π",
        "device": "\t",
    },
    "keywords": {
        "batch": "for",
        "gpus": "lambda",
        "dropout": "None",
        "shift": "is",
        "device": "in",
    },
    "taken": {"batch": "exp", "gpus": "max", "dropout": "point", "shift": "math", "device": "e"},
}


@expressions
@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("intrinsic", [[], ["batch", "dropout", "device"]])
def test_the_python_formula_is_what_predicts(
    expression: Any, names: str, intrinsic: list[str]
) -> None:
    named = NAMES[names]
    table = runs().rename(columns=named)
    factors = table.drop(columns="seconds")
    model = PerformanceModel(
        expression=expression,
        intrinsic=[named.get(name, name) for name in intrinsic],
        strength=1e-4,
    )
    model.fit(factors, table.seconds)
    first = named.get("batch", "batch")
    asked = pd.concat([factors, factors.assign(**{first: 1000.5})])
    np.testing.assert_allclose(evaluated(model, asked), model.predict_formula(asked), rtol=1e-9)


def tables() -> Iterator[tuple[str, pd.DataFrame, Array]]:
    table = runs()
    seconds = table.pop("seconds").to_numpy()
    draw = np.random.default_rng(1)
    yield "numbers", table[["batch", "gpus"]], seconds
    yield "zeros", table[["dropout", "shift"]], seconds
    yield "one category", table[["device"]], seconds
    yield "constant", table[["batch"]] * 0 + 3, seconds
    yield "a single time", table, np.full(len(table), 2.5)
    yield "many levels", table.assign(host=draw.integers(0, 50, 60).astype(str)), seconds
    yield "empty cells", table.assign(device=table.device.where(table.batch > 16)), seconds
    yield "true and false", table.assign(device=table.batch > 32), seconds
    yield "very long times", table, 1e300 * seconds
    yield "very short times", table, 1e-300 * seconds
    yield "very large numbers", table.assign(batch=1e250 * table.batch**20), seconds
    yield "very small numbers", table.assign(batch=1e-250 * table.batch), seconds
    yield "two runs", table.iloc[[0, 9]], seconds[[0, 9]]


@expressions
@pytest.mark.parametrize(("table", "seconds"), [pytest.param(t, s, id=n) for n, t, s in tables()])
def test_the_python_formula_predicts_for_every_kind_of_table(
    expression: Any, table: pd.DataFrame, seconds: Array
) -> None:
    model = PerformanceModel(expression=expression, strength=1e-3).fit(table, seconds)
    np.testing.assert_allclose(evaluated(model, table), model.predict_formula(table), rtol=1e-9)


def test_a_product_reads_as_one() -> None:
    table = pd.DataFrame({"batch": [8, 16, 32, 64] * 8, "gpus": np.repeat([1, 2, 4, 8], 8)})
    model = PerformanceModel().fit(table, 0.5 * table.batch / table.gpus**0.5)
    assert model.formula() == "seconds = 0.5·batch·gpus^-0.5"
    assert (
        model.formula("latex")
        == r"\mathrm{seconds} = 0.5 \cdot \mathrm{batch} \cdot \mathrm{gpus}^{-0.5}"
    )


def test_the_target_is_named() -> None:
    table = pd.DataFrame({"x": [1, 2, 3, 4]})
    model = PerformanceModel(target="peak memory").fit(table, [1, 2, 3, 4])
    assert model.formula().startswith("peak memory = ")
    assert model.formula("latex").startswith(r"\mathrm{peak\ memory} = ")


@pytest.mark.parametrize("style", ["text", "latex"])
def test_many_levels_are_not_all_printed(style: Any) -> None:
    table = pd.DataFrame({"host": [f"n{i:02}" for i in range(30)] * 2, "batch": [1, 2] * 30})
    model = PerformanceModel(expression="generic", strength=1e-3)
    model.fit(table, np.arange(1, 61) % 30 + table.batch)
    assert "22 more" in model.formula(style)
    assert "n29" not in model.formula(style)
    assert "n29" in model.formula("python")


@expressions
@pytest.mark.parametrize(
    "names",
    [
        {},
        {"batch": "batch_size", "gpus": "100 % of $x & #2", "dropout": "a{b}^c~d"},
        {"batch": "it's", "gpus": "naïve µ", "dropout": "a\\b\nc"},
        {"batch": "\\frac", "gpus": "x]", "dropout": '<>|@!?*+-/=,.;:()[]`"'},
    ],
)
@pytest.mark.parametrize("scale", [1.0, 1e300])
def test_latex_compiles(expression: Any, names: dict[str, str], scale: float) -> None:
    table = runs().drop(columns=["device", "shift"]).rename(columns=names)
    factors = table.drop(columns="seconds")
    intrinsic = list(factors.columns[[0, 2]])
    model = PerformanceModel(expression=expression, intrinsic=intrinsic, strength=1e-4)
    model.fit(factors, scale * table.seconds)
    matplotlib.mathtext.MathTextParser("path").parse(f"${model.formula('latex')}$")
