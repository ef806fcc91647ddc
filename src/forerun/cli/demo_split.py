"""The demonstration's last part: a small network, trained, cut over two devices and run there."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forerun.cli.common import note, results
from forerun.cli.demo_steps import say, type_
from forerun.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NEEDED = ("onnx", "onnxruntime")
_LEARNT = 1500  # of the 1797 digits; the others the network never sees
_TRAINING = {
    "dataset": "digits",
    "kernel": 3,
    "padding": "same",
    "filters": 32,
    "chunks": _LEARNT // 500,
    "batch": 50,
    "epochs": 20,
    "optimiser": "adam",
    "learning-rate": 0.001,
    "dropout": 0.2,
}
_SAMPLES = "100"


def can_split() -> bool:
    """Whether this Python can cut a network and run it; told where it cannot."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        note(
            f"{' and '.join(missing)} cannot be imported, so no network is cut over devices:"
            " pip install 'forerun[split]'"
        )
    return not missing


def split(output: Path, training: Sequence[str]) -> dict[str, Any]:
    """Train a network, cut it over two devices of this machine, compare and time its answers."""
    folder = output / "split"
    folder.mkdir(exist_ok=True)
    network, whole, halves = folder / "digits.onnx", folder / "whole", folder / "halves"
    answers, study = folder / "answers.npy", folder / "split.db"
    say(
        "A trained network may have to run on small devices, several of which are fast enough"
        " together. A LeNet learns handwritten digits:"
    )
    _train(training, network)
    unseen, labels = _unseen(folder)
    say("It is cut by rows over two devices. Nothing is trained again: the cut is exact.")
    type_("split", "cut", str(network), "--devices", "2", "--layout", "rows", "-o", str(halves))
    say(
        f"Both devices run as processes here, and get {len(labels)} digits that it has not seen."
        " One process that runs the whole network says whether their answers are right:"
    )
    compared = ("--against", str(network), "-o", str(answers))
    type_("split", "run", str(halves), "--input", str(unseen), *compared)
    right = _right(answers, labels)
    say(f"{right} of {len(labels)} digits are recognised. What do two devices change here?")
    type_("split", "cut", str(network), "--devices", "1", "-o", str(whole))
    timed = ("--input", str(unseen), "--samples", _SAMPLES, "-o", str(study))
    type_("split", "bench", str(whole), str(halves), *timed)
    if _is_slower(study):
        say(
            "So small a network gains nothing by it: one core computes it sooner than two processes"
            " talk. On boards that take a second for an answer, talking is the small part."
        )
    return {"network": str(network), "split": str(halves), "split_study": str(study)} | {
        "digits": len(labels),
        "recognised": right,
    }


def _is_slower(study: Path) -> bool:
    """Whether two devices take longer than one."""
    from forerun.splitting.measured import splits_of
    from forerun.study import Study

    took = {one.devices: one.p50 for one in splits_of(Study.open(study))}
    return took[2] > took[1]


def _train(training: Sequence[str], network: Path) -> None:
    """Train and export the network by the same script; InputError, with its last line, if not."""
    from forerun.workloads.data import SETS, prepare
    from forerun.workloads.home import data_directory

    prepare(SETS["digits"], data_directory(), note)
    given = {**_TRAINING, "data": data_directory(), "export": network}
    options = (str(word) for name, value in given.items() for word in (f"--{name}", value))
    words = [*training, *options]
    to = results()
    to.print()
    to.print("$ " + shlex.join(words), style="bold cyan", soft_wrap=True)
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    lines = (done.stdout if done.returncode == 0 else done.stderr or done.stdout).splitlines()
    if done.returncode != 0 or not network.is_file():
        found = lines[-1] if lines else f"exit code {done.returncode}"
        raise InputError("the training of the network", found, f"a file {network}")
    for line in lines:
        to.print(line, soft_wrap=True)


def _unseen(folder: Path) -> tuple[Path, NDArray[np.uint8]]:
    """The digits that were kept from the network, as it takes them, and what they are."""
    import numpy as np

    from forerun.workloads.data import files
    from forerun.workloads.home import data_directory

    images, labels = (np.load(file) for file in files("digits", data_directory()))
    path = folder / "unseen.npy"
    np.save(path, images[_LEARNT:].transpose(0, 3, 1, 2).astype(np.float32) / 255)
    return path, labels[_LEARNT:]


def _right(answers: Path, labels: NDArray[np.uint8]) -> int:
    import numpy as np

    return int((np.load(answers).reshape(len(labels), -1).argmax(axis=1) == labels).sum())
