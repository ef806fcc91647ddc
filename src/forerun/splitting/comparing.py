"""Answers of a split beside those of the whole network, which one process has from its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forerun.splitting.simulate import as_readable, session

Floats = NDArray[np.float32]
Answers = Mapping[str, Floats]


class Whole:
    """The whole network in this process, by onnxruntime alone: nothing of forerun is in it.

    Weights may stand in files beside the network's. `tensors` are answered for too, those that the
    file has.
    """

    def __init__(self, path: str | Path, tensors: Iterable[str] = ()) -> None:
        import onnx

        with as_readable(path):
            model = onnx.load(path)
            made = {name for node in model.graph.node for name in node.output}
            self.tensors = [name for name in tensors if name in made]
            outputs = [value.name for value in model.graph.output]
            self._names = [*dict.fromkeys([*outputs, *self.tensors])]
            model.graph.output.extend(
                map(onnx.helper.make_empty_tensor_value_info, self._names[len(outputs) :])
            )
            self._session = session(model.SerializeToString())
        self._inputs = [one.name for one in self._session.get_inputs()]

    def run(self, sample: Floats | Mapping[str, Floats]) -> dict[str, Floats]:
        """The outputs for one sample, by name."""
        fed = sample if isinstance(sample, Mapping) else dict.fromkeys(self._inputs, sample)
        found: Any = self._session.run(self._names, dict(fed))
        return dict(zip(self._names, found, strict=True))


def difference(ours: Answers, theirs: Answers) -> float:
    """max|a - b| / max|b|, of the output where that is largest."""
    return max(_difference(ours[name].ravel(), theirs[name].ravel()) for name in theirs)


def _difference(ours: Floats, theirs: Floats) -> float:
    scale = float(np.abs(theirs).max()) or 1.0
    return float(np.abs(ours - theirs).max()) / scale


def same_class(ours: Answers, theirs: Answers) -> bool:
    """Whether the largest number of every output stands at the same place."""
    return all(int(ours[name].argmax()) == int(theirs[name].argmax()) for name in theirs)


def random_samples(
    shapes: Mapping[str, Sequence[int]], count: int, seed: int
) -> Iterator[dict[str, Floats]]:
    """Inputs of normal random numbers, as normalised pictures roughly are."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
