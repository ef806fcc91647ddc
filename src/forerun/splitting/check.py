"""Whether a network that was cut computes what the whole one does, tensor by tensor.

The whole network is the file as it is, run by onnxruntime; of the devices, every block's result is
looked at, not only the answer. And no device may compute or store more than its layout says.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import numpy as np

from forerun.errors import InputError
from forerun.splitting.comparing import Whole, apart, random_samples
from forerun.splitting.cut import cut
from forerun.splitting.graph import Graph
from forerun.splitting.layout import Layout, layout
from forerun.splitting.packages import Numbers
from forerun.splitting.shares import Load, loads
from forerun.splitting.simulate import Array, Simulation
from forerun.splitting.translation import POINTWISE

CLOSE = 1e-4  # largest difference in units of the tensor's largest number
MOST = 1.1  # times its layout's share that a device may compute or store

# Runs samples on real devices: from a split's folder and samples to the network's outputs.
Run = Callable[[Path, Iterable[Mapping[str, Array]]], Iterable[Mapping[str, Numbers]]]
# Told after each sample: layout, devices, samples that are done, and the largest difference.
Progress = Callable[[str, int, int, float], None]


@dataclass(frozen=True)
class Result:
    """One layout on so many devices."""

    layout: str
    devices: int
    samples: int
    difference: float  # the largest of all tensors and samples
    tensor: str  # that has it
    answers: float | None  # the same of the outputs, from real devices
    tensors: int  # that were looked at
    loads: tuple[Load, ...]
    seconds: float
    problem: str = ""  # why it fails; empty where all is well

    @property
    def passed(self) -> bool:
        """Whether it is right, and no device does too much."""
        return not self.problem


def probed(graph: Graph) -> list[str]:
    """Results of every layer with its activation: all that is not merely activated next."""
    return [
        name
        for name in graph.makers
        if name in graph.outputs
        or len(graph.readers[name]) != 1
        or graph.readers[name][0].kind not in POINTWISE
    ]


def check(
    network: str | Path,
    layouts: Sequence[str | Layout],
    devices: Sequence[int | Sequence[float]],
    *,
    samples: int = 100,
    seed: int = 0,
    early: bool | float = False,
    run: Run | None = None,
    progress: Progress | None = None,
) -> Iterator[Result]:
    """Check layouts on numbers of devices (or shares of them), one result after the other.

    `run` sends the same samples through real devices, and their answers are compared, too. Whoever
    has seen enough just stops asking.
    """
    if samples < 1:
        raise InputError("samples", samples, "at least 1")
    path = Path(network)
    graph = Graph.load(path)
    whole = Whole(path, probed(graph))
    for one in layouts:
        for count in devices:
            shares = (1.0,) * count if isinstance(count, int) else tuple(count)
            made = layout(graph, one, shares) if isinstance(one, str) else one
            yield _checked(whole, graph, made, samples, seed, early, run, progress)


def _checked(
    whole: Whole,
    graph: Graph,
    made: Layout,
    samples: int,
    seed: int,
    early: bool | float,
    run: Run | None,
    progress: Progress | None,
) -> Result:
    start = monotonic()
    devices = made.devices
    shapes = {name: graph.tensors[name].dims for name in graph.inputs}
    with tempfile.TemporaryDirectory(prefix="forerun-check-") as folder:
        split = cut(
            graph, made, Path(folder) / "split", name="check", probes=whole.tensors, early=early
        )
        found = loads(graph, made, split)
        worst = _Worst(graph)
        simulation = Simulation(split.folder)
        given = random_samples(shapes, samples, seed)
        with ThreadPoolExecutor(1) as beside:  # onnxruntime computes while Python waits
            for number, sample in enumerate(given, 1):
                right = beside.submit(whole.run, sample)
                answer = simulation.run(sample)
                worst.look(right.result(), simulation, answer)
                if progress is not None:
                    progress(made.name, devices, number, worst.difference)
        seen = worst.seen | set(graph.outputs)
        answers = None
        if run is not None:
            again = list(random_samples(shapes, samples, seed))
            answers = _answered(whole, graph, again, run(split.folder, again))
    return Result(
        layout=made.name,
        devices=devices,
        samples=samples,
        difference=worst.difference,
        tensor=worst.tensor,
        answers=None if answers is None else answers.difference,
        tensors=len(seen),
        loads=tuple(found),
        seconds=monotonic() - start,
        problem=_problem(worst, answers, found),
    )


class _Worst:
    """The largest difference so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.difference, self.tensor = 0.0, ""
        self.problem = ""  # an answer of another shape or type
        self.seen: set[str] = set()

    def look(
        self, right: Mapping[str, Numbers], simulation: Simulation, answers: Mapping[str, Numbers]
    ) -> None:
        """Compare what all devices have of a sample with the whole network's tensors."""
        self.answered(right, answers)
        for name, parts in simulation.probes().items():
            shape = self.graph.tensors[name]
            whole = right[name].reshape(shape.laid_out)
            largest = _largest(whole)
            for place, value in parts:
                self.compare(name, value, whole[place], largest)

    def answered(self, right: Mapping[str, Numbers], answers: Mapping[str, Numbers]) -> None:
        """Compare answers, of which shape and type have to be the network's, too."""
        for name, value in answers.items():
            wanted = right[name]
            if (value.shape, value.dtype) != (wanted.shape, wanted.dtype):
                self.problem = f"{name} is {_kind(value)}, and not {_kind(wanted)}"
            else:
                self.compare(name, value, wanted, _largest(wanted))

    def compare(self, name: str, found: Numbers, right: Numbers, largest: float) -> None:
        """Compare a part of a tensor, whose largest number is known."""
        self.seen.add(name)
        difference = _largest(apart(found, right)) / (largest or 1.0)
        # What is not a number is as wrong as can be, unless it should be none.
        if not np.isfinite(difference):
            difference = 0.0 if np.array_equal(found, right, equal_nan=True) else float("inf")
        if difference >= self.difference:
            self.difference, self.tensor = difference, name


def _kind(values: Numbers) -> str:
    return f"{values.dtype} {list(values.shape)}"


def _largest(values: Numbers) -> float:
    return max(float(values.max()), -float(values.min()))


def _answered(
    whole: Whole,
    graph: Graph,
    samples: Sequence[Mapping[str, Array]],
    answers: Iterable[Mapping[str, Numbers]],
) -> _Worst:
    """How far real devices' answers are off."""
    worst = _Worst(graph)
    for sample, found in zip(samples, answers, strict=True):
        worst.answered(whole.run(sample), found)
    return worst


def _problem(worst: _Worst, answers: _Worst | None, found: Sequence[Load]) -> str:
    """Why a check fails, in one line."""
    if worst.problem:
        return worst.problem
    if answers is not None and answers.problem:
        return f"answers of devices: {answers.problem}"
    if worst.difference > CLOSE:
        return f"{worst.tensor} differs by {worst.difference:.2g}, more than {CLOSE:g}"
    if answers is not None and answers.difference > CLOSE:
        return f"answers of devices differ by {answers.difference:.2g}, more than {CLOSE:g}"
    for load in found:
        if load.excess > MOST:
            return f"device {load.device} does {load.excess:.3g} times its layout's share"
    return ""
