"""What a layer takes on a device: a model of layers that were timed there, or a plain rule.

The layers that `timing` has timed are the runs of a study, like any other; for each kind of layer a
PerformanceModel is fitted to them and kept in the study. So the same model predicts a training job
on a cluster and a layer on a board.

    seconds of a segment = scale * sum of its layers + seconds of a call + so much for each operator

Where no layers were timed, a plain rule stands in: multiply-accumulates over a rate, bytes over a
bandwidth. It knows the order of magnitude, and its intervals say so.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from forerun._state import state_directory
from forerun.errors import DataWarning, ExtrapolationWarning, InputError
from forerun.factors import Factor, Point, Space
from forerun.modelling.columns import Array
from forerun.modelling.estimator import PerformanceModel
from forerun.study import Study

Kind = Literal["conv", "depthwise", "gemm", "pool", "elementwise", "copy", "reorder"]
Precision = Literal["float32", "int8"]
Wire = Literal["float32", "float16", "int8"]

KINDS: tuple[Kind, ...] = (
    "conv",
    "depthwise",
    "gemm",
    "pool",
    "elementwise",
    "copy",  # concatenation, permutation, padding: what moves numbers and computes nothing
    "reorder",  # from and to the order in which the runtime keeps tensors inside a segment
)
PRECISIONS: tuple[Precision, ...] = ("float32", "int8")
WIRES: tuple[Wire, ...] = ("float32", "float16", "int8")
COVERAGE = 0.9
VECTOR = 8  # channels
NOTE = "layers"  # of the study: what was timed besides layers
FEWEST, MOST = 20, 600  # layers of a kind that a model is fitted to

# What tells layers of a kind apart; the rest is the same for all of them, or follows from these.
_COLUMNS: dict[Kind, tuple[str, ...]] = {
    "conv": (
        "macs",
        "weights_bytes",
        "in_bytes",
        "out_bytes",
        "kernel",
        "channels",
        "outputs",
        "groups",
        "fill",
    ),
    "depthwise": ("macs", "in_bytes", "out_bytes", "kernel"),
    "gemm": ("macs", "out_bytes"),
    "pool": ("macs", "in_bytes", "out_bytes"),
    "elementwise": ("in_bytes", "out_bytes"),
    "copy": ("in_bytes", "out_bytes"),
    "reorder": ("in_bytes", "channels"),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator with what is fused into it, as it stands in a segment."""

    kind: Kind
    macs: float  # of a pool, a sum or a copy: one for each number that it looks at
    weights_bytes: float
    in_bytes: float
    out_bytes: float
    kernel: int = 1
    channels: int = 1  # that one group reads
    outputs: int = 1  # channels that one group makes
    groups: int = 1
    precision: Precision = "float32"

    @property
    def fill(self) -> str:
        """Whether the channels that it reads fill the vectors that processors compute with."""
        if self.channels < VECTOR:
            return "few"
        return "ragged" if self.channels % VECTOR else "full"

    @property
    def point(self) -> Point:
        """As the study holds it: a numeric factor that may be nothing cannot be a power."""
        values = dict(zip(SPACE, (*astuple(self), self.fill), strict=True))
        return Point({n: v if isinstance(v, str) else max(v, 1) for n, v in values.items()})


SPACE = Space(
    [
        Factor("kind", "categorical", "intrinsic", values=KINDS),
        Factor("macs", scope="intrinsic"),
        Factor("weights_bytes", scope="intrinsic", unit="B"),
        Factor("in_bytes", scope="intrinsic", unit="B"),
        Factor("out_bytes", scope="intrinsic", unit="B"),
        Factor("kernel", scope="intrinsic"),
        Factor("channels", scope="intrinsic"),
        Factor("outputs", scope="intrinsic"),
        Factor("groups", scope="intrinsic"),
        Factor("precision", "categorical", role="precision", values=PRECISIONS),
        Factor("fill", "categorical", "intrinsic", values=("few", "full", "ragged")),
    ]
)


@dataclass(frozen=True, slots=True)
class Coding:
    """What a number on the wire costs a device besides its bytes on the link, in seconds."""

    send: float
    receive: float


@dataclass(frozen=True, slots=True)
class Constants:
    """What was timed besides single layers, and how well layers add up to segments."""

    call: float  # seconds of a segment without any layer
    node: float  # seconds of an operator besides its own work
    scale: float  # of the sum of layers, by segments that were timed whole
    common: float  # relative error of such sums that no number of layers averages out, 90 %
    message: float  # seconds of a message at each end, whatever it holds
    wires: Mapping[str, Coding]  # seconds a number, by type

    def to_dict(self) -> dict[str, Any]:
        """As the study's note holds it."""
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "wires"}
        return {**plain, "wires": {name: list(astuple(one)) for name, one in self.wires.items()}}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], where: str) -> Constants:
        """What `to_dict` wrote."""
        try:
            plain = [float(document[name]) for name in _PLAIN]
            wires: dict[str, Coding] = {
                name: Coding(*map(float, document["wires"][name])) for name in WIRES
            }
        except (KeyError, TypeError, ValueError):
            raise InputError(where, "no layers, or damaged ones", _TIMED) from None
        numbers = [*plain, *(number for one in wires.values() for number in astuple(one))]
        if not all(math.isfinite(number) and number >= 0 for number in numbers):
            raise InputError(where, "a number that is not finite", _TIMED)
        call, node, scale, common, message = plain
        return cls(call, node, scale, common, message, wires)


_TIMED = "a study of timed layers"
_PLAIN = ("call", "node", "scale", "common", "message")


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of several layers, one after the other, and the deviation of that in two parts."""

    seconds: float
    apart: float = 0.0  # squared: what layers have each by itself
    count: int = 0

    def __add__(self, other: Taken) -> Taken:
        return Taken(
            self.seconds + other.seconds, self.apart + other.apart, self.count + other.count
        )


class LayerTimes(Protocol):
    """Whoever says what layers take on the machine that is counted as speed 1."""

    constants: Constants
    told: str  # where it is from, for people

    def each(self, layers: Sequence[Layer]) -> tuple[Array, Array]:
        """Seconds of each layer, and half of its 90 % interval as a share of them."""
        ...  # pragma: no cover - a protocol


class Predictor:
    """Sums over layers, each distinct one asked for once."""

    def __init__(self, times: LayerTimes) -> None:
        self.times = times
        self._known: dict[Layer, tuple[float, float]] = {}

    def learn(self, layers: Iterable[Layer]) -> None:
        """Ask for all that is not known yet, at once: a model takes long to begin to answer."""
        new = [layer for layer in dict.fromkeys(layers) if layer not in self._known]
        if new:
            seconds, half = self.times.each(new)
            found = zip(seconds.tolist(), half.tolist(), strict=True)
            self._known.update(zip(new, found, strict=True))

    def layer(self, layer: Layer) -> float:
        """Seconds of one."""
        self.learn([layer])
        return self._known[layer][0]

    def segment(self, layers: Sequence[Layer]) -> Taken:
        """What a call of the runtime with these layers takes."""
        self.learn(layers)
        constants, known = self.times.constants, [self._known[layer] for layer in layers]
        seconds = constants.scale * sum(seconds for seconds, _ in known)
        apart = sum((constants.scale * seconds * half) ** 2 for seconds, half in known)
        return Taken(constants.call + constants.node * len(layers) + seconds, apart, len(layers))

    def half(self, taken: Taken) -> float:
        """Half of the 90 % interval, as a logarithm: what layers have each and what they share."""
        if taken.seconds <= 0:
            return 0.0
        return math.hypot(math.sqrt(taken.apart) / taken.seconds, self.times.constants.common)


class PlainRule:
    """MACs over a rate plus bytes over a bandwidth: an x86 core of about 2020, within a factor."""

    MACS = 2e10  # a second
    BYTES = 5e9  # a second
    FASTER = 2.5  # int8 than float32
    FACTOR = 3.0  # by which it may be off either way

    constants = Constants(
        call=2e-5,
        node=2e-6,
        scale=1.0,
        common=math.log(FACTOR),
        message=8e-5,
        wires={
            "float32": Coding(6e-10, 6e-10),
            "float16": Coding(3e-9, 3e-9),
            "int8": Coding(1e-9, 6e-10),
        },
    )
    told = "no layers were timed: a rule of thumb, which may be off by a factor of 3"

    def each(self, layers: Sequence[Layer]) -> tuple[Array, Array]:
        seconds = [
            (
                (layer.macs / self.MACS if layer.kind in ("conv", "depthwise", "gemm") else 0.0)
                + (layer.weights_bytes + layer.in_bytes + layer.out_bytes) / self.BYTES
            )
            / (self.FASTER if layer.precision == "int8" else 1.0)
            for layer in layers
        ]
        return np.array(seconds), np.zeros(len(layers))


class Timed:
    """Models of the layers of a study, one for each kind and precision that was timed."""

    def __init__(self, study: Study) -> None:
        self.study = study
        note = study.note(NOTE)
        if note is None or study.space.names != SPACE.names:
            raise InputError(str(study.path), "another study", f"{_TIMED}")
        self.constants = Constants.from_dict(note, str(study.path))
        host = next((run.host for run in study.runs("ok") if run.host), "")
        self._table = study.table()
        where = f" of {host}" if host else ""
        self.told = f"by {len(self._table)} layers{where} that were timed ({study.path})"
        self._digest = study.digest()
        self._models: dict[tuple[str, str], PerformanceModel | None] = {}
        self._rule = PlainRule()

    def each(self, layers: Sequence[Layer]) -> tuple[Array, Array]:
        """Seconds of each layer, and half of its 90 % interval as a share of them."""
        seconds, half = np.zeros(len(layers)), np.zeros(len(layers))
        places: dict[tuple[Kind, Precision], list[int]] = {}
        for place, layer in enumerate(layers):
            places.setdefault((layer.kind, layer.precision), []).append(place)
        for (kind, precision), found in places.items():
            asked = [layers[place] for place in found]
            seconds[found], half[found] = self._of(kind, precision, asked)
        return seconds, half

    def has(self, kind: Kind, precision: Precision) -> bool:
        """Whether enough layers of the kind were timed."""
        return self._model(kind, precision) is not None

    def _of(self, kind: Kind, precision: Precision, layers: Sequence[Layer]) -> tuple[Array, Array]:
        model = self._model(kind, precision)
        if model is None:
            if kind == "reorder":  # this machine's runtime has no order of its own
                return np.zeros(len(layers)), np.zeros(len(layers))
            return self._rule.each(layers)[0], np.full(len(layers), math.log(self._rule.FACTOR))
        table = pd.DataFrame([dict(layer.point) for layer in layers])[list(_COLUMNS[kind])]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExtrapolationWarning)
            seconds = model.predict(table)
            low, high = model.predict_interval(table, COVERAGE)
        return seconds, (high - low) / (2 * seconds)

    def _model(self, kind: Kind, precision: Precision) -> PerformanceModel | None:
        if (kind, precision) not in self._models:
            self._models[kind, precision] = self._fitted(kind, precision)
        return self._models[kind, precision]

    def _fitted(self, kind: Kind, precision: Precision) -> PerformanceModel | None:
        """The model that the study keeps, or one that is fitted and kept now."""
        name = f"seconds of {kind}, {precision}"
        stored = self.study.model_document(name)
        if stored is not None and stored.digest == self._digest:
            try:
                return PerformanceModel.from_dict(stored.document, str(self.study.path))
            except InputError:
                pass  # of another forerun: it is fitted again
        table = self._table
        table = table[(table["kind"] == kind) & (table["precision"] == precision)]
        if len(table) < FEWEST:
            return None
        model = fitted(kind, table.tail(MOST))
        self.study.save_model(name, model.to_dict(), self._digest)
        return model


def fitted(kind: Kind, table: pd.DataFrame, *, quick: bool = True) -> PerformanceModel:
    """A model of layers of one kind: a table of a layers' study, with their seconds."""
    columns = list(_COLUMNS[kind])
    model = PerformanceModel(intrinsic=columns, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return model.fit(table[columns], table["seconds"], quick=quick)


def default_study() -> Path:
    """Where this user's timed layers are kept."""
    return state_directory() / "layers.db"


def layer_times(path: Path | None = None) -> LayerTimes:
    """By the study of timed layers that is given, or this user's own, or a plain rule."""
    if path is not None:
        return Timed(Study.open(path))
    own = default_study()
    return Timed(Study.open(own)) if own.exists() else PlainRule()
