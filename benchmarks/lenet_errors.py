"""How well runs of each framework are predicted that the model has not seen.

Three questions: each framework alone, beside what people would use instead; one model over all
frameworks against one for each; and what a few runs of a framework are worth once the others are
known. Every answer is kept in a cache as it is found: a second start goes on from there.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache as cache_result
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kept import Kept, sources
from lenet_points import SPACE
from lenet_splits import FACTORS, Array, Cut, first_runs, splits
from peers import PEERS, predict

from forerun import PerformanceModel

DEFAULT, GENERIC, FORMULA = "forerun", "published expression", "forerun, formula alone"
METHODS = (DEFAULT, FORMULA, GENERIC, *PEERS)
SPLITS = 20
SEEDS = 10
FEW = 5  # runs of the framework that is new
ALONE = (5, 10, 15, 20, 30, 40, 50, 60, 70)  # runs of it without the others

Tables = dict[str, pd.DataFrame]
Key = tuple[object, ...]
Track = Callable[..., Any]  # items, what is done with them, and how many there are


class Cache:
    """Errors found so far: ours by exactly this code and these runs, peers' by these runs."""

    def __init__(self, path: Path | None, tables: Tables) -> None:
        self._kept, self._runs, self._code = Kept(path), _digest(tables), sources("modelling")

    def __contains__(self, key: Key) -> bool:
        return self._name(key) in self._kept

    def __getitem__(self, key: Key) -> float:
        return float(self._kept[self._name(key)])

    def put(self, found: Mapping[Key, float]) -> None:
        """Keep these too."""
        self._kept.put({self._name(key): error for key, error in found.items()})

    def _name(self, key: Key) -> str:
        code = "" if key[-1] in PEERS else self._code
        return "/".join(map(str, (self._runs, code, *key)))


@dataclass(frozen=True)
class Job:
    """Errors that are found together, for they share a fit."""

    keys: Sequence[Key]
    find: Callable[[Sequence[Key]], list[float]]  # the errors of some of these keys


def fill(cache: Cache, jobs: Sequence[Job], track: Track, words: str) -> None:
    """Find what the cache does not know, on all processors."""
    asked = [(job, [key for key in job.keys if key not in cache]) for job in jobs]
    with ProcessPoolExecutor() as pool:
        found = {pool.submit(job.find, keys): keys for job, keys in asked if keys}
        for future in track(as_completed(found), words, len(found)):
            cache.put(dict(zip(found[future], future.result(), strict=True)))


def _digest(tables: Tables) -> str:
    parts = [pd.util.hash_pandas_object(runs).to_numpy().tobytes() for runs in tables.values()]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def model(extra: Sequence[str] = (), **settings: Any) -> PerformanceModel:
    """The model with this study's scopes; what is `extra` is extrinsic."""
    return PerformanceModel(
        intrinsic=list(SPACE.intrinsic), extrinsic=[*SPACE.extrinsic, *extra], **settings
    )


def guess(method: str, cut: Cut, fitted: Callable[[], PerformanceModel]) -> Array:
    """What a method says of the unseen runs."""
    learn, seconds, unseen = cut.factors(FACTORS)
    if method == DEFAULT:
        return fitted().predict(unseen)
    if method == FORMULA:
        return fitted().predict_formula(unseen)
    if method == GENERIC:
        return model(expression="generic").fit(learn, seconds).predict(unseen)
    return predict(method, learn, seconds, unseen)


def by_method(tables: Tables, cache: Cache, track: Track, count: int = SPLITS) -> pd.DataFrame:
    """A row for each framework, method and split: the error in per cent."""
    jobs = [
        Job([("alone", framework, seed, method) for method in METHODS], partial(errors_alone, cut))
        for seed in range(count)
        for framework, cut in splits(tables, seed).items()
    ]
    fill(cache, jobs, track, "frameworks alone")
    rows = [(key[1], key[3], key[2], cache[key]) for job in jobs for key in job.keys]
    return pd.DataFrame(rows, columns=["framework", "method", "split", "error"])


def errors_alone(cut: Cut, keys: Sequence[Key]) -> list[float]:
    """The errors of some methods on a cut of one framework."""
    warnings.filterwarnings("ignore")
    fitted = cache_result(partial(fit_one, cut))
    return [cut.error(guess(str(key[-1]), cut, fitted)) for key in keys]


def fit_one(cut: Cut) -> PerformanceModel:
    """The default model of one framework."""
    learn, seconds, _ = cut.factors(FACTORS)
    return model().fit(learn, seconds)


def pooled(tables: Tables, cache: Cache, track: Track, count: int = SPLITS) -> pd.DataFrame:
    """One model over all frameworks, asked for each: the error on the same splits."""
    jobs = []
    for seed in range(count):
        cuts = splits(tables, seed)
        keys = [("pooled", framework, seed) for framework in cuts]
        jobs.append(Job(keys, partial(errors_of_all, cuts)))
    fill(cache, jobs, track, "one model over all")
    rows = [(*key[1:], cache[key]) for job in jobs for key in job.keys]
    return pd.DataFrame(rows, columns=["framework", "split", "error"])


def errors_of_all(cuts: dict[str, Cut], keys: Sequence[Key]) -> list[float]:
    """The errors of one model over all frameworks on the unseen runs of some."""
    warnings.filterwarnings("ignore")
    fitted = fit_all(pd.concat([cut.learn for cut in cuts.values()]))
    asked = [cuts[str(key[1])] for key in keys]
    return [cut.error(fitted.predict(cut.unseen)) for cut in asked]


def fit_all(learn: pd.DataFrame) -> PerformanceModel:
    """One model over several frameworks: `framework` is a factor like the others."""
    return model(["framework"]).fit(learn[[*FACTORS, "framework"]], learn["seconds"])


def transfer(tables: Tables, cache: Cache, track: Track, count: int = SEEDS) -> pd.DataFrame:
    """The error with few runs of one framework and all of the others, and with n runs alone.

    `runs` counts the framework's own; `others` says whether the other frameworks were known.
    """
    jobs = []
    for seed in range(count):
        for framework, cut in splits(tables, 1000 + seed).items():
            rest = [runs for name, runs in tables.items() if name != framework]
            ways = [(FEW, True), *((runs, False) for runs in ALONE)] if rest else []
            for own, others in ways:
                learn = first_runs(cut.learn, own, seed)
                if len(learn) < own:
                    continue
                known = pd.concat([*rest, learn]) if others else learn
                key = ("transfer", framework, seed, own, others)
                jobs.append(Job([key], partial(error_after, known, cut)))
    fill(cache, jobs, track, "a new framework")
    rows = [(*key[1:], cache[key]) for job in jobs for key in job.keys]
    return pd.DataFrame(rows, columns=["framework", "seed", "runs", "others", "error"])


def error_after(known: pd.DataFrame, cut: Cut, _: Sequence[Key]) -> list[float]:
    """The error on the unseen runs of a cut of a model that has learnt from these runs."""
    warnings.filterwarnings("ignore")
    return [cut.error(fit_all(known).predict(with_known_levels(known, cut.unseen)))]


def with_known_levels(known: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """Levels that no known run has become the most frequent known one: there is nothing better."""
    asked = asked.copy()
    for name in (*SPACE.categorical, "framework"):
        unknown = ~asked[name].isin(known[name])
        asked.loc[unknown, name] = known[name].mode().iloc[0]
    return asked


def same_error_alone(errors: pd.DataFrame, framework: str) -> float:
    """How many runs of a framework alone give the mean error of few runs and the others.

    Between two counts the logarithm of the error is a straight line of that of the count; infinite
    where even the most runs alone are worse.
    """
    own = errors[errors["framework"] == framework]
    aim = np.log(own[own["others"]]["error"].mean())
    alone = own[~own["others"]].groupby("runs")["error"].mean()
    logs = np.minimum.accumulate(np.log(alone.to_numpy()))  # more runs are never taken as worse
    if aim < logs[-1]:
        return float("inf")
    if aim >= logs[0]:
        return float(alone.index[0])
    counts = np.log(alone.index.to_numpy(float))
    return float(np.exp(np.interp(-aim, -logs, counts)))
