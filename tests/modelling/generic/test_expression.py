import json

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from forerun.errors import LevelError
from forerun.modelling.columns import Columns
from forerun.modelling.generic import Design, GenericExpression, Part, Scaling, fit_generic

TABLE = pd.DataFrame(
    {
        "filters": [4.0, 9.0],
        "dropout": [0.0, 0.5],
        "activation": ["relu", "tanh"],
        "batch": [1.0, 100.0],
    }
)


def expression(*parts: Part, constant: float = 0.0) -> GenericExpression:
    scaling = Scaling("power", "batch", (-0.5,))
    return GenericExpression(Columns.measured(TABLE), parts, (scaling,), constant, np.log(2.0))


def test_a_power_times_a_power() -> None:
    # geometric means: filters 6, batch 10; the unit is 2 s
    times = expression(Part("power", "filters", (3.0,), 2.0)).evaluate(TABLE)
    expected = 2 * 3 * np.array([(4 / 6) ** 2 * 10**0.5, (9 / 6) ** 2 * 10**-0.5])
    np.testing.assert_allclose(times, expected)


def test_parts_add_and_the_constant_is_not_scaled() -> None:
    levels = Part("levels", "activation", (0.0, 0.25))
    times = expression(levels, Part("constant", "", (1.0,)), constant=4.0).evaluate(TABLE)
    np.testing.assert_allclose(times, [2 * 10**0.5 + 8, 2 * 1.25 * 10**-0.5 + 8])


@pytest.mark.parametrize(
    ("up", "down", "at_0", "at_half"), [(3.0, 0.0, 0.0, 3.0), (1.0, 2.0, 2.0, 1.0)]
)
def test_ramps_rise_and_fall(up: float, down: float, at_0: float, at_half: float) -> None:
    ramps = expression(Part("ramps", "dropout", (up, down)), constant=1.0)
    np.testing.assert_allclose(
        ramps.evaluate(TABLE), [2 * at_0 * 10**0.5 + 2, 2 * at_half * 10**-0.5 + 2]
    )
    beyond = TABLE.assign(dropout=[-9.0, 9.0])
    assert (ramps.evaluate(beyond) >= 2.0).all()


def test_never_negative_and_always_finite() -> None:
    nothing = expression(Part("ramps", "dropout", (1.0, 0.0)))
    far = TABLE.assign(batch=[5e-324, 1.7e308], filters=[1e-300, 1e300], dropout=[-1e308, 1e308])
    for one in (nothing, expression(Part("power", "filters", (1e4,), 3.0))):
        times = one.evaluate(far)
        assert np.isfinite(times).all()
        assert (times >= 0).all()


def test_a_level_never_seen_is_refused() -> None:
    with pytest.raises(LevelError, match="gelu"):
        expression(Part("levels", "activation", (1.0, 2.0))).evaluate(
            TABLE.assign(activation=["relu", "gelu"])
        )


def test_json_gives_the_same_bits(
    design: Design, table: pd.DataFrame, seconds: NDArray[np.float64]
) -> None:
    fitted, _ = fit_generic(design, seconds)
    again = GenericExpression.from_dict(json.loads(json.dumps(fitted.to_dict())))
    assert again.evaluate(table).tobytes() == fitted.evaluate(table).tobytes()
    assert again.formula("python") == fitted.formula("python")
