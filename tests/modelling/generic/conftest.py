import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from forerun.modelling.columns import Columns
from forerun.modelling.generic import Design, design_from


@pytest.fixture
def table() -> pd.DataFrame:
    """150 points of two intrinsic factors (filters, kernel) and two extrinsic ones."""
    draw = np.random.default_rng(0)
    grids = {
        "filters": [4.0, 8, 16, 32, 64],
        "kernel": [1.0, 3, 5, 7],
        "batch": [8.0, 16, 32, 64, 128],
        "gpus": [1.0, 2, 4, 8],
    }
    return pd.DataFrame({name: draw.choice(grid, 150) for name, grid in grids.items()})


@pytest.fixture
def seconds(table: pd.DataFrame) -> NDArray[np.float64]:
    """(0.02·filters^0.9 + 0.05·kernel^1.4)·batch^-0.3·gpus^0.2 + 0.1, with 2 % noise."""
    work = 0.02 * table.filters**0.9 + 0.05 * table.kernel**1.4
    exact = work * table.batch**-0.3 * table.gpus**0.2 + 0.1
    return exact.to_numpy() * np.exp(0.02 * np.random.default_rng(1).standard_normal(150))


@pytest.fixture
def design(table: pd.DataFrame) -> Design:
    return design_from(Columns.measured(table), table, ["filters", "kernel"])
