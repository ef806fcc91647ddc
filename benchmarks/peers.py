"""What people would use instead of forerun, each tuned as a careful user would tune it.

Numbers enter as logarithms in standard deviations, categories as one indicator a level. Settings
are chosen by cross-validation within the learnt runs, by the error that is judged in the end,
repeats of a point kept together. "raw" learns seconds, "log" their logarithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from forerun.modelling.columns import Columns
from forerun.modelling.feasibility import features

Array = NDArray[np.float64]
Method = Callable[[pd.DataFrame, Array, pd.DataFrame], Array]

FOLDS = 4
JUDGED = "neg_mean_absolute_percentage_error"
GRIDS: dict[str, dict[str, list[Any]]] = {
    "ridge": {"alpha": [1e-3, 1e-2, 1e-1, 1.0, 10.0]},
    "forest": {"max_features": [1 / 3, 1.0]},
    "boosting": {"n_estimators": [100, 300], "max_depth": [2, 3]},
    "SVR": {"C": [1.0, 10.0, 100.0, 1000.0], "gamma": [0.003, 0.01, 0.03, 0.1]},
}


def log_target(model: Any) -> Any:
    """The model on logarithms of the time."""
    return TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp, check_inverse=False)


def raw_target(model: Any) -> Any:
    """The model on the time itself, in standard deviations."""
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def tuned(model: Any, grid: dict[str, list[Any]]) -> Any:
    """The best of a grid of settings, refitted to all learnt runs."""
    inside = {f"regressor__{name}": values for name, values in grid.items()}
    return GridSearchCV(model, inside, scoring=JUDGED, cv=GroupKFold(FOLDS))


def process(width: int) -> Any:
    """A Gaussian process with a straight line and a length for each feature."""
    kernel = ConstantKernel(1.0) * DotProduct() + ConstantKernel(0.1) * RBF(np.ones(width))
    return GaussianProcessRegressor(kernel + WhiteKernel(1e-3), normalize_y=True, random_state=0)


PEERS: dict[str, Callable[[int], Any]] = {
    "random forest, log": lambda _: tuned(log_target(forest()), GRIDS["forest"]),
    "random forest, raw": lambda _: tuned(raw_target(forest()), GRIDS["forest"]),
    "SVR, log": lambda _: tuned(log_target(SVR(epsilon=0.01)), GRIDS["SVR"]),
    "SVR, raw": lambda _: tuned(raw_target(SVR(epsilon=0.01)), GRIDS["SVR"]),
    "log-log ridge": lambda _: tuned(log_target(Ridge()), GRIDS["ridge"]),
    "gradient boosting": lambda _: tuned(
        log_target(GradientBoostingRegressor(random_state=0)), GRIDS["boosting"]
    ),
    "Gaussian process": lambda width: log_target(process(width)),
}


def forest() -> Any:
    return RandomForestRegressor(300, random_state=0)


def predict(name: str, learn: pd.DataFrame, seconds: Array, unseen: pd.DataFrame) -> Array:
    """What one peer says of unseen points."""
    columns = Columns.measured(learn)
    known, asked = features(learn, columns), features(unseen, columns)
    model = PEERS[name](known.shape[1])
    if isinstance(model, GridSearchCV):
        model.fit(known, seconds, groups=learn.groupby(list(learn.columns)).ngroup())
    else:
        model.fit(known, seconds)
    guess: Array = model.predict(asked)
    return guess
