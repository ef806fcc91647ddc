"""What the arithmetic of each device takes, run alone, and what the single process answers.

    python split_alone.py NETWORK.onnx SPLIT DENSE INPUTS.npy ANSWERS.npy [IDEAL.onnx]

NETWORK is run whole on every input, and its answers are written. The segments of each device of
SPLIT, those of the one device of DENSE, and the network IDEAL are run one after the other without
any exchange, by turns, on one thread of an otherwise idle machine. Prints seconds of processor a
sample, as JSON: medians of the rounds. Where a split computes in int8, its own segments give the
answers, in one process: int8 has errors of its own, which are not those of splitting.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from forerun.splitting.simulate import simulate

ROUNDS = 7
WARMING = 2


def main(network: str, split: str, dense: str, inputs: str, answers: str, *ideal: str) -> None:
    images = np.load(inputs)
    np.save(answers, np.stack(answered(Path(network), Path(split), images)))
    packages = sorted(Path(split).glob("device-*"))
    works = [work(package) for package in (Path(dense) / "device-0", *packages)]
    whole, *parts = by_turns([*works, *map(share, ideal)])
    shares = parts[len(packages) :]
    print(json.dumps({"devices": parts[: len(packages)], "dense": whole, "ideal": shares}))


def answered(network: Path, split: Path, images: np.ndarray) -> list[np.ndarray]:
    """What one process says of each image."""
    if json.loads((split / "split.json").read_text())["precision"] == "int8":
        (name,) = json.loads((split / "split.json").read_text())["inputs"]
        return [first(simulate(split, {name: image[None]})) for image in images]
    session = opened(network)
    name = session.get_inputs()[0].name
    return [session.run(None, {name: image[None]})[0] for image in images]


def first(outputs: dict[str, np.ndarray]) -> np.ndarray:
    """The network's only output."""
    (found,) = outputs.values()
    return found


def work(package: Path) -> Callable[[], None]:
    """All segments of a device, on made-up data."""
    told = json.loads((package / "package.json").read_text())
    draws = np.random.default_rng(0)
    made: list[tuple[onnxruntime.InferenceSession, dict[str, Any]]] = []
    for segment in told["segments"]:
        given = {
            name: draws.standard_normal(told["buffers"][buffer]).astype(np.float32)
            for name, buffer in segment["inputs"].items()
        }
        made.append((opened(package / segment["file"]), given))

    def run() -> None:
        for session, given in made:
            session.run(None, given)

    return run


def share(network: str) -> Callable[[], None]:
    """A whole network, on made-up data."""
    session = opened(Path(network))
    (only,) = session.get_inputs()
    given = {only.name: np.random.default_rng(0).standard_normal(only.shape).astype(np.float32)}

    def run() -> None:
        session.run(None, given)

    return run


def opened(path: Path) -> onnxruntime.InferenceSession:
    """A network on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def by_turns(works: list[Callable[[], None]]) -> list[float]:
    """Seconds of processor of each, a slow minute harming all alike."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(WARMING + ROUNDS):
        for one, seconds in zip(works, taken, strict=True):
            start = time.process_time()
            one()
            seconds.append(time.process_time() - start)
    return [statistics.median(seconds[WARMING:]) for seconds in taken]


if __name__ == "__main__":
    main(*sys.argv[1:])
