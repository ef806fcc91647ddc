"""Published run times, cut into runs to learn from and runs to predict.

The tables were measured by others on real accelerators. Their sources, all under Apache-2.0:

    dlperf.csv      Oneflow-Inc/DLPerf: frameworks training ResNet-50 and BERT on 1 to 32 V100
    pollux.csv      petuum/adaptdl, the Pollux artifact: six training jobs on 1 to 64 T4
    timm_train.csv  huggingface/pytorch-image-models: some 800 networks trained on one RTX 3090
    conv_p100.csv   CDECatapult/ml-performance-prediction: single convolution layers on one P100

A cut is random ("interp": 70 % to learn from), or it learns from small runs and predicts large
ones ("extrap"). The random cuts are seeded, so every figure can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Rows = NDArray[np.intp]

TARGET = "seconds"
LEARN_SHARE = 0.7
FEWEST_TO_LEARN, FEWEST_TO_PREDICT = 4, 3
IMAGES = 1.28e6  # an epoch of ImageNet


@dataclass(frozen=True)
class Cut:
    """One task: its scoreboard column, the series of runs within it, and the two halves."""

    column: str
    series: str
    learn: pd.DataFrame
    predict: pd.DataFrame
    intrinsic: tuple[str, ...]
    extrinsic: tuple[str, ...]

    @property
    def factors(self) -> list[str]:
        """Intrinsic ones first."""
        return [*self.intrinsic, *self.extrinsic]

    @property
    def numeric(self) -> bool:
        """Whether no factor is a category."""
        return all(pd.api.types.is_numeric_dtype(self.learn[name]) for name in self.factors)


@dataclass(frozen=True)
class Series:
    """Runs that belong together, and how many of them a cut may use."""

    name: str
    runs: pd.DataFrame
    intrinsic: tuple[str, ...]
    extrinsic: tuple[str, ...]
    learn: int | None = None
    predict: int | None = None

    def cut(self, column: str, learn: Rows, predict: Rows) -> Cut:
        """The cut with these rows in its halves."""
        table = self.runs[[*self.intrinsic, *self.extrinsic, TARGET]].reset_index(drop=True)
        halves = table.iloc[learn], table.iloc[predict]
        return Cut(column, self.name, *halves, self.intrinsic, self.extrinsic)

    def at_random(self, column: str, seeds: int) -> Iterator[Cut]:
        """One cut for each seed."""
        count = len(self.runs)
        edge = round(LEARN_SHARE * count)
        for seed in range(seeds):
            order = np.random.default_rng(100 + seed).permutation(count)
            yield self.cut(column, order[:edge][: self.learn], order[edge:][: self.predict])

    def small_to_large(self, column: str, large: pd.Series[bool]) -> Iterator[Cut]:
        """At most one cut: none where either half would be too small to mean anything."""
        small, big = np.flatnonzero(~large.to_numpy()), np.flatnonzero(large.to_numpy())
        if len(small) < FEWEST_TO_LEARN or len(big) < FEWEST_TO_PREDICT:
            return
        draw = np.random.default_rng(7)
        small = _at_most(small, self.learn, draw)
        yield self.cut(column, small, _at_most(big, self.predict, draw))


def _at_most(rows: Rows, limit: int | None, draw: np.random.Generator) -> Rows:
    return rows if limit is None or len(rows) <= limit else draw.choice(rows, limit, replace=False)


def frameworks(data: Path) -> Iterator[Cut]:
    """Each series of DLPerf alone (step and epoch), a new framework, and all series together."""
    kinds = ("framework", "impl", "model", "precision", "xla", "variant")
    runs = pd.read_csv(data / "dlperf.csv")
    wanted = runs.framework.isin(["TensorFlow", "MxNet", "PyTorch", "MindSpore", "PaddlePaddle"])
    wanted &= runs.model.isin(["bert-base", "resnet50"])
    wanted &= ~runs.table_note.fillna("").str.contains("static")
    runs = runs[wanted].assign(batch=runs.batch_per_gpu, seconds=runs.step_time_s)
    whole = []
    for key, every in runs.groupby(list(kinds), dropna=False):
        steps = every.drop_duplicates(["gpus", "batch"])
        if steps.batch.nunique() >= 2 and len(steps) >= 10 and steps.gpus.max() >= 32:
            whole.append(steps)
            yield from _one_framework("/".join(map(str, key)), steps)
    pool = pd.concat(whole).fillna({"variant": "none"}).astype({"xla": str, "variant": str})
    yield from _new_framework(pool, kinds)
    together = Series("all", pool, kinds, ("gpus", "batch"))
    yield from together.at_random("pooled interp", seeds=3)
    yield from together.small_to_large("pooled extrap 8>32", pool.gpus > 8)


def _one_framework(name: str, steps: pd.DataFrame) -> Iterator[Cut]:
    step = Series(name, steps, (), ("gpus", "batch"))
    yield from step.at_random("dlperf interp", seeds=3)
    yield from step.small_to_large("dlperf extrap 8>32", steps.gpus > 8)
    yield from step.small_to_large("dlperf extrap 16>32", steps.gpus > 16)
    epoch = replace(step, runs=steps.assign(seconds=IMAGES / steps.samples_per_s))
    yield from epoch.at_random("epoch interp", seeds=3)
    yield from epoch.small_to_large("epoch extrap 8>32", steps.gpus > 8)


def _new_framework(pool: pd.DataFrame, kinds: tuple[str, ...], own_runs: int = 5) -> Iterator[Cut]:
    """Every run of the other frameworks, and five of a new one's own."""
    columns = [*kinds, "gpus", "batch", TARGET]
    for framework, new in pool.groupby("framework"):
        for seed in range(3):
            order = np.random.default_rng(300 + seed).permutation(len(new))
            others = pool[pool.framework != framework]
            known = pd.concat([others, new.iloc[order[:own_runs]]])[columns]
            rest = new.iloc[order[own_runs:]][columns]
            halves = known.reset_index(drop=True), rest.reset_index(drop=True)
            yield Cut("transfer, 5 runs", str(framework), *halves, kinds, ("gpus", "batch"))


def placements(data: Path) -> Iterator[Cut]:
    """The six jobs of Pollux: 60 runs to learn from, like a user who measures for an afternoon."""
    runs = pd.read_csv(data / "pollux.csv")
    runs = runs.rename(columns={"num_nodes": "nodes", "num_replicas": "gpus", "local_bsz": "batch"})
    scale = ("nodes", "gpus", "batch")
    for job, every in runs.groupby("job"):
        mean = every.groupby(list(scale))["step_time"].mean().rename(TARGET).reset_index()
        series = Series(str(job), mean, (), scale, learn=60, predict=400)
        yield from series.at_random("pollux interp", seeds=3)
        yield from series.small_to_large("pollux extrap 16>64", mean.gpus > 16)


def networks(data: Path) -> Iterator[Cut]:
    """Image networks on one GPU, with 60 runs and with all; large is what has most operations."""
    runs = pd.read_csv(data / "timm_train.csv")
    names = {"param_count": "params", "img_size": "image", "batch_size": "batch"}
    runs = runs.rename(columns=names | {"step_time_s": TARGET})
    for file, one in runs.groupby("file"):
        large = one.gmacs > one.gmacs.quantile(0.7)
        every = Series(str(file), one, ("gmacs", "macts", "params"), ("image", "batch"))
        few = replace(every, learn=60)
        yield from few.at_random("timm 60 runs interp", seeds=3)
        yield from few.small_to_large("timm 60 runs extrap", large)
        yield from every.at_random("timm interp", seeds=2)
        yield from every.small_to_large("timm extrap", large)


def layers(data: Path) -> Iterator[Cut]:
    """Single convolutions: their shape alone, then with activation, optimiser, padding and bias."""
    runs = pd.read_csv(data / "conv_p100.csv", keep_default_na=False)
    runs = runs.rename(columns={"batchsize": "batch", "matsize": "image", "kernelsize": "kernel"})
    runs[TARGET] = runs.timeUsed_median.astype(float) / 1e3  # published in milliseconds
    runs = runs.astype({"padding": str, "use_bias": str})
    shape = ("kernel", "channels_in", "channels_out", "strides")
    kinds = ("activation_fct", "optimizer", "padding", "use_bias")
    for device, one in runs.groupby("device"):
        plain = one[one.optimizer == "sgd"]
        series = Series(str(device), plain, shape, ("batch", "image"), learn=200, predict=1500)
        yield from series.at_random("conv interp", seeds=2)
        yield from series.small_to_large("conv extrap", (plain.batch > 32) | (plain.image > 384))
        mixed = replace(series, runs=one, intrinsic=shape + kinds, learn=300)
        yield from mixed.at_random("conv kinds interp", seeds=2)


def cuts(data: Path) -> list[Cut]:
    """Every task; `data` is the folder with the four tables."""
    sources = (frameworks, placements, networks, layers)
    return [cut for source in sources for cut in source(data)]
