"""How well runs are predicted that the model has not seen, beside what people would use instead.

    python benchmarks/accuracy.py --data DIR [--only WORD] [--cache FILE]

DIR holds the four tables that `published.py` names. Every method learns from the same runs and
predicts the same others. An entry is the mean absolute percentage error, averaged over the random
cuts of a series and then over the series of a column. Peers are given logarithms of numbers and
times and one-hot categories. All of it takes about a quarter of an hour; with --cache a second
start goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kept import Kept, sources
from numpy.typing import NDArray
from published import TARGET, Cut, cuts
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.svm import SVR

from forerun import PerformanceModel
from forerun.modelling.columns import Columns
from forerun.modelling.feasibility import features

Array = NDArray[np.float64]

FORERUN, FORMULA, GENERIC, PROCESS = "forerun", "formula", "generic", "Gaussian process"
COVERAGE = 0.9
TIE = 1.02  # a column is won up to this ratio: less is within the noise

progress = Console(stderr=True)


def process(width: int) -> GaussianProcessRegressor:
    kernel = ConstantKernel(1.0) * DotProduct() + ConstantKernel(0.1) * RBF(np.ones(width))
    return GaussianProcessRegressor(kernel + WhiteKernel(1e-3), normalize_y=True, random_state=0)


PEERS: dict[str, Callable[[int], Any]] = {
    "log-log ridge": lambda _: Ridge(1e-3),
    "random forest": lambda _: RandomForestRegressor(200, random_state=0),
    "gradient boosting": lambda _: GradientBoostingRegressor(random_state=0),
    "SVR": lambda _: SVR(C=10, epsilon=0.01),
    PROCESS: process,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="", help="columns whose name contains this")
    parser.add_argument("--cache", type=Path, help="results so far, to go on from")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    done, rows = Kept(arguments.cache), []
    for cut in track(
        [c for c in cuts(arguments.data) if arguments.only in c.column],
        "learning",
        console=progress,
    ):
        key = digest(cut)
        if key not in done:
            done.put({key: measure(cut)})
        rows.append({"column": cut.column, "series": cut.series, **done[key]})
    report(pd.DataFrame(rows))


def digest(cut: Cut) -> str:
    """What a cached result belongs to: exactly this code and these runs."""
    frames = [
        pd.util.hash_pandas_object(part).to_numpy().tobytes() for part in (cut.learn, cut.predict)
    ]
    name = f"{sources('modelling')}/{cut.column}/{cut.series}".encode()
    return hashlib.sha256(b"".join([name, *frames])).hexdigest()


def measure(cut: Cut) -> dict[str, float]:
    """The error of every method on one cut, in per cent; coverage and score of the intervals."""
    factors = [*cut.intrinsic, *cut.extrinsic]
    learn, unseen = cut.learn[factors], cut.predict[factors]
    times, truth = cut.learn[TARGET].to_numpy(), cut.predict[TARGET].to_numpy()

    def error(guess: Array) -> float:
        return float(np.abs(guess / truth - 1).mean() * 100)

    scopes: dict[str, Any] = {"intrinsic": list(cut.intrinsic), "extrinsic": list(cut.extrinsic)}
    model = PerformanceModel(**scopes).fit(learn, times)
    low, high = model.predict_interval(unseen, COVERAGE)
    result = {
        FORERUN: error(model.predict(unseen)),
        FORMULA: error(model.predict_formula(unseen)),
        "held": float(((truth >= low) & (truth <= high)).mean() * 100),
        "unseen": float(len(truth)),
        "interval": winkler(truth, low, high),
    }
    published = PerformanceModel(**scopes, expression="generic").fit(learn, times)
    result[GENERIC] = error(published.predict(unseen))
    columns = Columns.measured(pd.concat([learn, unseen], ignore_index=True))
    known, asked = features(learn, columns), features(unseen, columns)
    for name, make in PEERS.items():
        peer = make(known.shape[1]).fit(known, np.log(times))
        result[name] = error(np.exp(peer.predict(asked)))
        if name == PROCESS:
            centre, spread = peer.predict(asked, return_std=True)
            half = 1.645 * spread  # 90 % of a normal distribution
            result["peer interval"] = winkler(truth, np.exp(centre - half), np.exp(centre + half))
    return result


def winkler(truth: Array, low: Array, high: Array) -> float:
    """The interval score on logarithms: the width, and a fine for each miss. Lower is better."""
    at, bottom, top = np.log(truth), np.log(np.maximum(low, 1e-300)), np.log(high)
    misses = np.maximum(bottom - at, 0) + np.maximum(at - top, 0)
    return float(np.mean(top - bottom + 2 / (1 - COVERAGE) * misses))


def report(rows: pd.DataFrame) -> None:
    order = list(dict.fromkeys(rows.column))
    means = rows.groupby(["column", "series"]).mean(numeric_only=True).groupby("column").mean()
    means = means.loc[order]
    best = means[list(PEERS)].min(axis=1)
    table = Table(title="error on unseen runs (MAPE, %); 90 % intervals")
    for name in (
        "",
        FORERUN,
        FORMULA,
        GENERIC,
        *PEERS,
        "to the best peer",
        "held %",
        "interval score",
    ):
        table.add_column(name, justify="left" if not name else "right")
    for column in order:
        row = means.loc[column]
        errors = [f"{row[name]:.1f}" for name in (FORERUN, FORMULA, GENERIC, *PEERS)]
        ratio, sharpness = row[FORERUN] / best[column], row["interval"] / row["peer interval"]
        table.add_row(
            str(column), *errors, f"{ratio:.2f}", f"{row['held']:.0f}", f"{sharpness:.2f}"
        )
    Console(width=200).print(table)
    print("\n".join(summary(rows, means)))


def summary(rows: pd.DataFrame, means: pd.DataFrame) -> list[str]:
    """What the table comes to, a line a claim."""
    best = means[list(PEERS)].min(axis=1)
    ratios, straight = means[FORERUN] / best, means["log-log ridge"]
    sharpness = geometric(means["interval"] / means["peer interval"])
    lines = [
        f"won {int((ratios <= TIE).sum())} of {len(ratios)} columns (up to {TIE})",
        f"over each column's best peer: {geometric(ratios):.3f} (worst {ratios.max():.2f})",
        f"formula alone over the best peer: {geometric(means[FORMULA] / best):.2f}",
        f"formula better than log-log ridge in {int((means[FORMULA] < straight).sum())} columns",
        *(f"over {n}: {geometric(means[FORERUN] / means[n]):.3f}" for n in (GENERIC, *PEERS)),
        f"interval score over the Gaussian process's: {sharpness:.3f}",
    ]
    for kind in ("interp", "extrap"):
        some = rows[rows.column.str.contains(kind)]
        if len(some):
            held = float(np.average(some["held"], weights=some["unseen"]))
            by_column = means[means.index.str.contains(kind)]["held"].mean()
            lines.append(
                f"{kind}: 90 % intervals held {held:.1f} % of all unseen runs,"
                f" {by_column:.1f} % in the mean of the columns"
            )
    return lines


def geometric(values: pd.Series[float]) -> float:
    return float(np.exp(np.log(values).mean()))


if __name__ == "__main__":
    main()
