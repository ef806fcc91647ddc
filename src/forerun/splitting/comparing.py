"""Answers of a split beside those of the whole network, which one process has from its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forerun.splitting.packages import Floats, Numbers
from forerun.splitting.reading import fix_batch
from forerun.splitting.simulate import as_readable, session

Answers = Mapping[str, Numbers]


class Whole:
    """The whole network in this process, by onnxruntime alone: nothing of forerun is in it.

    Weights may stand in files beside the network's. `tensors` are answered for too, those that the
    file has.
    """

    def __init__(self, path: str | Path, tensors: Iterable[str] = ()) -> None:
        import onnx

        self._path = path
        with as_readable(path):
            model = onnx.load(path)
            fix_batch(model.graph, str(path))
            made = {name for node in model.graph.node for name in node.output}
            self.tensors = [name for name in tensors if name in made]
            outputs = [value.name for value in model.graph.output]
            self._names = [*dict.fromkeys([*outputs, *self.tensors])]
            model.graph.output.extend(
                map(onnx.helper.make_empty_tensor_value_info, self._names[len(outputs) :])
            )
            self._session = session(model.SerializeToString())
        self._inputs = [one.name for one in self._session.get_inputs()]

    def run(self, sample: Floats | Mapping[str, Floats]) -> dict[str, Numbers]:
        """The outputs for one sample, by name."""
        fed = sample if isinstance(sample, Mapping) else dict.fromkeys(self._inputs, sample)
        with as_readable(self._path):
            found: Any = self._session.run(self._names, dict(fed))
        return dict(zip(self._names, found, strict=True))


def difference(ours: Answers, theirs: Answers) -> float:
    """max|a - b| / max|b|, of the output where that is largest."""
    return max(_difference(ours[name].ravel(), theirs[name].ravel()) for name in theirs)


def _difference(ours: Numbers, theirs: Numbers) -> float:
    scale = float(np.abs(theirs).max()) or 1.0
    return float(np.abs(apart(ours, theirs)).max()) / scale


def apart(ours: Numbers, theirs: Numbers) -> Numbers:
    """a - b, as numbers that can be negative: true less true is none of bool's."""
    found: Numbers = np.subtract(ours, theirs, dtype=np.result_type(ours, theirs, np.float32))
    return found


def same_class(ours: Answers, theirs: Answers) -> bool:
    """Whether every output says the same class: where its largest number is, or a whole number."""
    return all(_same_class(ours[name], theirs[name]) for name in theirs)


def _same_class(ours: Numbers, theirs: Numbers) -> bool:
    if theirs.dtype.kind != "f":
        return np.array_equal(ours, theirs)
    return int(ours.argmax()) == int(theirs.argmax())


def random_samples(
    shapes: Mapping[str, Sequence[int]], count: int, seed: int
) -> Iterator[dict[str, Floats]]:
    """Inputs of normal random numbers, as normalised pictures roughly are."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
