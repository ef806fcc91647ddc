"""How well runs of each framework are predicted that the model has not seen.

Three questions: each framework alone, beside what people would use instead; one model over all
frameworks against one for each; and what a few runs of a framework are worth once the others are
known. Every answer is kept in a cache as it is found: a second start goes on from there.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lenet_points import SPACE
from lenet_splits import FACTORS, Array, Cut, first_runs, splits
from peers import PEERS, predict

import forerun
from forerun import PerformanceModel

DEFAULT, GENERIC, FORMULA = "forerun", "published expression", "forerun, formula alone"
METHODS = (DEFAULT, FORMULA, GENERIC, *PEERS)
SPLITS = 20
SEEDS = 10
FEW = 5  # runs of the framework that is new
ALONE = (5, 10, 15, 20, 30, 40, 50, 60, 70)  # runs of it without the others

Tables = dict[str, pd.DataFrame]


@dataclass
class Cache:
    """Errors found so far, in a JSON file or in memory only."""

    path: Path | None
    label: str  # of this version of forerun and exactly these runs
    known: dict[str, float] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path | None, tables: Tables) -> Cache:
        """What an earlier start has found, if anything."""
        known = json.loads(path.read_text()) if path is not None and path.exists() else {}
        return cls(path, _digest(tables), known)

    def get(self, key: Sequence[object], find: Callable[[], float]) -> float:
        """The error under this key, found now if it is not known."""
        name = "/".join(map(str, (self.label, *key)))
        if name not in self.known:
            self.known[name] = find()
            if self.path is not None:
                whole = self.path.with_name(f".{self.path.name}")
                whole.write_text(json.dumps(self.known, indent=0))
                whole.replace(self.path)
        return self.known[name]


def _digest(tables: Tables) -> str:
    parts = [pd.util.hash_pandas_object(runs).to_numpy().tobytes() for runs in tables.values()]
    version = forerun.__version__.encode()
    return hashlib.sha256(b"".join([version, *parts])).hexdigest()[:16]


def model(extra: Sequence[str] = (), **settings: Any) -> PerformanceModel:
    """The model with this study's scopes; what is `extra` is extrinsic."""
    return PerformanceModel(
        intrinsic=list(SPACE.intrinsic), extrinsic=[*SPACE.extrinsic, *extra], **settings
    )


def error_of(method: str, cut: Cut, fitted: Callable[[], PerformanceModel]) -> float:
    """The error of one method on a cut of one framework; `fitted` gives the default model."""
    return cut.error(guess(method, cut, fitted))


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


def by_method(
    tables: Tables, cache: Cache, track: Callable[..., Any], count: int = SPLITS
) -> pd.DataFrame:
    """A row for each framework, method and split: the error in per cent."""
    rows = []
    for seed in track(range(count), "frameworks alone"):
        for framework, cut in splits(tables, seed).items():
            fitted = functools.cache(functools.partial(fit_one, cut))
            for method in METHODS:
                find = functools.partial(error_of, method, cut, fitted)
                error = cache.get(("alone", framework, seed, method), find)
                rows.append((framework, method, seed, error))
    return pd.DataFrame(rows, columns=["framework", "method", "split", "error"])


def fit_one(cut: Cut) -> PerformanceModel:
    """The default model of one framework."""
    learn, seconds, _ = cut.factors(FACTORS)
    return model().fit(learn, seconds)


def pooled(
    tables: Tables, cache: Cache, track: Callable[..., Any], count: int = SPLITS
) -> pd.DataFrame:
    """One model over all frameworks, asked for each: the error on the same splits."""
    rows = []
    for seed in track(range(count), "one model over all"):
        cuts = splits(tables, seed)
        learn = pd.concat([cut.learn for cut in cuts.values()])
        # one fit for all frameworks, and none if all is known
        fitted = functools.cache(functools.partial(fit_all, learn))
        for framework, cut in cuts.items():
            find = functools.partial(error_of_all, cut, fitted)
            error = cache.get(("pooled", framework, seed), find)
            rows.append((framework, seed, error))
    return pd.DataFrame(rows, columns=["framework", "split", "error"])


def error_of_all(cut: Cut, fitted: Callable[[], PerformanceModel]) -> float:
    """The error of one model over all frameworks on the unseen runs of one."""
    return cut.error(fitted().predict(cut.unseen))


def fit_all(learn: pd.DataFrame) -> PerformanceModel:
    """One model over several frameworks: `framework` is a factor like the others."""
    return model(["framework"]).fit(learn[[*FACTORS, "framework"]], learn["seconds"])


def transfer(
    tables: Tables, cache: Cache, track: Callable[..., Any], count: int = SEEDS
) -> pd.DataFrame:
    """The error with few runs of one framework and all of the others, and with n runs alone.

    `runs` counts the framework's own; `others` says whether the other frameworks were known.
    """
    rows = []
    for seed in track(range(count), "a new framework"):
        for framework, cut in splits(tables, 1000 + seed).items():
            rest = [runs for name, runs in tables.items() if name != framework]
            ways = [(FEW, True), *((runs, False) for runs in ALONE)] if rest else []
            for own, others in ways:
                learn = first_runs(cut.learn, own, seed)
                if len(learn) < own:
                    continue
                known = pd.concat([*rest, learn]) if others else learn
                find = functools.partial(error_after, known, cut)
                error = cache.get(("transfer", framework, seed, own, others), find)
                rows.append((framework, seed, own, others, error))
    return pd.DataFrame(rows, columns=["framework", "seed", "runs", "others", "error"])


def error_after(known: pd.DataFrame, cut: Cut) -> float:
    """The error on the unseen runs of a cut of a model that has learnt from these runs."""
    return cut.error(fit_all(known).predict(with_known_levels(known, cut.unseen)))


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
