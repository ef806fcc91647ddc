import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from forerun import PerformanceModel


@pytest.fixture(scope="session")
def runs() -> pd.DataFrame:
    """64 runs of 0.02·batch/workers + 0.1·log2(2·workers) + 0.05, tanh twice, with 2 % noise."""
    grid = pd.MultiIndex.from_product(
        [[16, 32, 64, 128], [1, 2, 4, 8], ["relu", "tanh"], [1, 2]],
        names=["batch", "workers", "activation", "repeat"],
    )
    table = grid.to_frame(index=False).drop(columns="repeat")
    work = 0.02 * table.batch / table.workers + 0.1 * np.log2(2 * table.workers) + 0.05
    noise = np.exp(0.02 * np.random.default_rng(0).standard_normal(len(table)))
    return table.assign(seconds=work * np.where(table.activation == "tanh", 2, 1) * noise)


@pytest.fixture(scope="session")
def factors(runs: pd.DataFrame) -> pd.DataFrame:
    return runs.drop(columns="seconds")


@pytest.fixture(scope="session")
def seconds(runs: pd.DataFrame) -> NDArray[np.float64]:
    return runs.seconds.to_numpy()


@pytest.fixture(scope="session", params=["auto", "generic"])
def fitted(
    request: pytest.FixtureRequest, factors: pd.DataFrame, seconds: NDArray[np.float64]
) -> PerformanceModel:
    """A model of `runs` that knows of two runs out of memory."""
    failed = pd.DataFrame({"batch": [512, 1024], "workers": [1, 2], "activation": "relu"})
    model = PerformanceModel(intrinsic=["activation"], expression=request.param)
    return model.fit(factors, seconds, failed=failed)
