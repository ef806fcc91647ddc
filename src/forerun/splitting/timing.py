"""Time layers on this machine: random chains of them, one thread, until a minute is over.

The runtime's own profile says what each operator of a chain took. Most chains go into the study,
layer by layer; every fifth is kept aside, timed as a whole and as parts: by those we know how well
a model of single layers predicts layers that it has not seen, and how they add up to a segment.
"""

from __future__ import annotations

import json
import platform
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnxruntime

from forerun.errors import InputError
from forerun.splitting.adding_up import Whole, settle
from forerun.splitting.chains import Chain, chain, convolve
from forerun.splitting.layers import (
    SPACE,
    Layer,
    Precision,
    default_study,
)
from forerun.study import Run, Study

SECONDS = 60.0  # that timing takes by default; fitting comes on top
REPEATS = 20  # of a chain, at most
LONGEST = 0.4  # seconds of one chain
ASIDE = 5  # each so many chains one is kept aside
INT8 = 0.3  # share of chains in int8
EDGES = 0.3  # of edges that are kept
CALM = 1.1  # times the best that a calm machine takes
TRIES = 3
LARGEST_CACHE = 2**24  # bytes: of a chain's numbers nothing is to be left there from its last run
Measured = TypeVar("Measured")
_LAYER = re.compile(r"(layer\d+)\b", re.ASCII)


def time_layers(
    path: Path | None = None,
    seconds: float = SECONDS,
    seed: int = 0,
    tell: Callable[[float, int], None] | None = None,
) -> Study:
    """Time layers for so many seconds into a study, and fit the models; by default the user's own.

    `tell` is told after each chain the share of the time that is over, and the layers until then.
    """
    if not 0 < seconds < float("inf"):
        raise InputError("seconds of timing", seconds, "a number above 0")
    path = default_study() if path is None else path
    path.parent.mkdir(parents=True, exist_ok=True)
    study = Study.open_or_create(path, SPACE)
    rng = np.random.default_rng(seed + len(study))
    start, count = time.monotonic(), 0
    aside: list[Whole] = []
    call, calm = _call_seconds(), Calm()
    while (spent := time.monotonic() - start) < seconds or count < ASIDE:
        count += 1
        whole = count % ASIDE == 0  # of those kept aside the int8 ones would teach little
        precision: Precision = "int8" if not whole and rng.random() < INT8 else "float32"
        made = chain(rng, precision)
        found = _calmly(calm, partial(profiled, made))
        if whole:
            layers, each = zip(*found, strict=True)
            seconds_ = _calmly(calm, partial(_whole_seconds, made))
            aside.append(Whole(layers, each, seconds_))
        else:
            study.add_all(_run(layer, taken) for layer, taken in _fewer_edges(rng, found))
        if tell is not None:
            tell(min(spent / seconds, 1.0), len(study))
    settle(study, call, aside)
    return study


class Calm:
    """Whether nobody else takes part of the processor: by a layer that always takes as long."""

    def __init__(self) -> None:
        made = Chain(np.random.default_rng(0), "float32", 64, 28, 28)
        for number in range(2):
            convolve(made, f"layer{number}", 64, 3, 1, 1)
        self._session, self._shape = _session(made, options()), made.shape
        self._best = float("inf")
        self.takes()

    def takes(self) -> float:
        """How much longer it takes now than at its best."""
        taken: list[float] = []
        _repeat(self._session, self._shape, taken)
        self._best = min(self._best, *taken)
        return min(taken) / self._best


def _calmly(calm: Calm, measure: Callable[[], Measured]) -> Measured:
    """Measure, and again if others were at work meanwhile; but not for ever."""
    for _ in range(TRIES):
        found = measure()
        if calm.takes() < CALM:
            break
    return found


def _fewer_edges(
    rng: np.random.Generator, found: list[tuple[Layer, float]]
) -> list[tuple[Layer, float]]:
    """There are as many edges as layers, and little to be learnt from them."""
    return [one for one in found if one[0].kind != "reorder" or rng.random() < EDGES]


def options() -> onnxruntime.SessionOptions:
    """How a session runs on a device: one thread, and no memory that grows."""
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads = made.inter_op_num_threads = 1
    made.enable_cpu_mem_arena = False
    made.log_severity_level = 3
    return made


def profiled(made: Chain) -> list[tuple[Layer, float]]:
    """The layers of a chain with the seconds that each took, and what is done at its edges."""
    with tempfile.TemporaryDirectory() as folder:
        asked = options()
        asked.enable_profiling = True
        asked.profile_file_prefix = str(Path(folder) / "profile")
        session = _session(made, asked)
        runs = _repeat(session, made.shape)
        document = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    events = [one for one in document if one.get("cat") == "Node" and one["name"].endswith("_time")]
    by_node: dict[str, list[dict[str, Any]]] = {}
    for one in events:
        by_node.setdefault(one["name"], []).append(one)
    totals = dict.fromkeys(made.layers, 0.0)
    edges = []
    for name, every in by_node.items():
        taken = min(one["dur"] for one in every[-runs:]) / 1e6
        whose = _LAYER.search(name)
        if whose is not None:
            totals[whose[1]] += taken
        else:
            edges.append((_edge(every[0], made.precision), taken))
    parts = [(made.layers[name], taken) for name, taken in totals.items() if taken > 0]
    return [*parts, *((layer, taken) for layer, taken in edges if taken > 0)]


def _edge(event: dict[str, Any], precision: Precision) -> Layer:
    """What brings a tensor into the runtime's own order or out of it, or into whole numbers."""
    told = event["args"]
    shape = next(iter(told["output_type_shape"][0].values()), [1, 1])
    size = float(told["activation_size"])
    return Layer(
        "reorder",
        macs=size / 4,
        weights_bytes=0,
        in_bytes=size,
        out_bytes=float(told["output_size"]),
        channels=shape[1] if len(shape) > 1 else 1,
        precision=precision,
    )


def _session(made: Chain, asked: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    content = made.model().SerializeToString()
    return onnxruntime.InferenceSession(content, asked, providers=["CPUExecutionProvider"])


def _repeat(
    session: onnxruntime.InferenceSession, shape: tuple[int, ...], note: list[float] | None = None
) -> int:
    """Run it a few times, each with caches that hold something else; returns how often."""
    given = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    other = np.zeros(LARGEST_CACHE // 8)
    session.run(None, given)
    start, done = time.perf_counter(), 0
    while done < 3 or (done < REPEATS and time.perf_counter() - start < LONGEST):
        other += 1
        before = time.thread_time()  # of the processor: what others take of it does not count
        session.run(None, given)
        if note is not None:
            note.append(time.thread_time() - before)
        done += 1
    return done


def _whole_seconds(made: Chain) -> float:
    """A call of the chain, without a profile."""
    taken: list[float] = []
    _repeat(_session(made, options()), made.shape, taken)
    return statistics.median(taken)


def _call_seconds() -> float:
    """What a call takes that computes nothing to speak of."""
    made = Chain(np.random.default_rng(0), "float32", 8, 1, 1)
    made.tensor = made.node("Relu", [made.tensor], "layer0.out")
    session = _session(made, options())
    given = {"x": np.zeros(made.shape, np.float32)}
    taken = []
    for _ in range(200):
        before = time.thread_time()
        session.run(None, given)
        taken.append(time.thread_time() - before)
    return statistics.median(taken)


def _run(layer: Layer, seconds: float) -> Run:
    return Run(
        layer.point,
        {"seconds": seconds},
        host=platform.node(),
        versions={"onnxruntime": onnxruntime.__version__},
        source="timed layer",
    )
