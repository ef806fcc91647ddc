"""Networks with random weights, cut for every way of the table, kept in a folder.

    python split_prepared.py FOLDER NETWORK STRUCTURE          # export; needs PyTorch

Exporting runs in a process of its own, so that what measures never holds PyTorch. A cut is made
again when the code that cuts has changed. What layers take on this machine is timed once, for a
minute, into a study: by that forerun chooses its exact splits, as it does for a user.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from boards import RATE, SPEED
from split_ways import DENSE, GROUPS, Cell

import forerun
from forerun.errors import InputError

if TYPE_CHECKING:
    from forerun.splitting.layers import Predictor

WORK = Path("/var/tmp/forerun-split")
STRIDE, ROWS = 32, 7  # rows of the image to one of the last map, and rows of that map
SAMPLES = 4  # images, which go round
CALIBRATED = 8  # images by which int8 finds its ranges
SEED = 0
LATENCY = 2e-4  # seconds of a message between two processes here
PACKAGE = Path(forerun.__file__).parent / "splitting"
# What an exported network depends on.
TORCH = (*("networks", "blocks", "decouple", "grouping", "stages", "tracing"), "export")
# What a cut does not depend on: training, and what runs it.
OTHERS = {"bench", "check", "distill", "measured", "push", "running", "session", "train"}


@dataclass(frozen=True)
class Prepared:
    """Where the parts of a cell are."""

    network: Path  # the whole network, ONNX
    split: Path
    inputs: Path  # images, NumPy

    @property
    def packages(self) -> list[Path]:
        """One for each device."""
        return sorted(self.split.glob("device-*"))

    @property
    def about(self) -> dict[str, Any]:
        """What the split says of itself."""
        found: dict[str, Any] = json.loads((self.split / "split.json").read_text())
        return found

    def descriptions(self) -> list[dict[str, Any]]:
        """What each device is to do."""
        return [json.loads((path / "package.json").read_text()) for path in self.packages]


def prepared(work: Path, cell: Cell) -> Prepared:
    """All that a cell needs, made where it is missing or old."""
    folder = work / cell.network / cell.way.structure
    network = exported(folder, cell.network, cell.way.structure)
    inputs = images(work / cell.network / "inputs.npy", network)
    layers = work / "layers.db"
    return Prepared(network, cut_for(folder, network, inputs, layers, cell), inputs)


def baseline(work: Path, cell: Cell) -> Prepared:
    """Dense float32 of the same network on one device."""
    return prepared(work, Cell(cell.network, 1, DENSE, "float32"))


def ideal(work: Path, cell: Cell) -> Path | None:
    """What a device's share is at best: one network that needs nothing of others.

    Of a dense network so many rows of the image as become the device's part of the last map; of a
    decoupled one its groups without the others, and no shuffle. None where that is not the share:
    on one device, of replicas and pipelines, in int8, and of VGG-16, whose fully connected layers
    are divided otherwise.
    """
    way, devices = cell.way, cell.devices
    undivided = way.layout in ("whole", "replicas", "pipeline") or way.precision != "float32"
    if undivided or cell.network == "vgg-16":
        return None
    if way.width is None:
        structure = f"rows-{STRIDE * math.ceil(ROWS / devices)}"
    else:
        groups = GROUPS // devices
        structure = f"groups-{groups}-{way.width * groups / GROUPS:g}"
    return exported(work / cell.network / structure, cell.network, structure)


def exported(folder: Path, network: str, structure: str) -> Path:
    """The network as ONNX, with statistics that keep activations of order 1."""
    path = folder / "network.onnx"
    made_by = digest(PACKAGE / f"{name}.py" for name in TORCH)
    if not fresh(folder / "network.by", made_by):
        folder.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, __file__, str(folder), network, structure]
        subprocess.run(words, check=True)
        (folder / "network.by").write_text(made_by)
    return path


def export(folder: Path, network: str, structure: str) -> None:
    """Build, decouple and export; in a process that has PyTorch."""
    import torch

    from forerun.splitting import decouple, export, networks

    torch.manual_seed(SEED)
    kind, *numbers = structure.split("-")
    shape = networks.input_shape(network)
    if kind == "rows":
        shape = (*shape[:2], int(numbers[0]), shape[3])
    module = networks.build(network)
    if kind == "decnn":
        module = decouple.decouple(module, groups=GROUPS, width=float(numbers[0]))
    elif kind == "groups":
        groups, width = int(numbers[0]), float(numbers[1])
        module = decouple.variant(network, width=width, groups=groups, shuffles=decouple.NONE)
    export.random_statistics(module, SEED)
    export.to_onnx(module, folder / "network.onnx", torch.zeros(shape))


def images(path: Path, network: Path) -> Path:
    """Some images for a network."""
    from forerun.splitting.graph import Graph

    if not path.exists():
        graph = Graph.load(network)
        shape = graph.tensors[graph.inputs[0]]
        size = (SAMPLES, shape.channels, shape.rows, shape.columns)
        np.save(path, np.random.default_rng(SEED).standard_normal(size).astype(np.float32))
    return path


def cut_for(folder: Path, network: Path, inputs: Path, layers: Path, cell: Cell) -> Path:
    """The split of a cell, with int8 arithmetic where that is asked."""
    way = cell.way
    split = folder / f"{cell.devices}-{way.layout}"
    if way.layout == "exact":  # chosen for what is computed with and sent
        split = split.with_name(f"{split.name}-{way.precision}-{cell.wire}")
    sources = [path for path in PACKAGE.glob("*.py") if path.stem not in {*TORCH, *OTHERS}]
    made_by = digest([*sources, network])
    if not fresh(split / "made.by", made_by):
        shutil.rmtree(split, ignore_errors=True)
        cut_network(network, cell, split, layers)
        (split / "made.by").write_text(made_by)
    if way.precision == "float32":
        return split
    int8 = split.with_name(f"{split.name}-in-int8")
    if not fresh(int8 / "made.by", made_by):
        shutil.rmtree(int8, ignore_errors=True)
        quantised(split, inputs, int8)
        (int8 / "made.by").write_text(made_by)
    return int8


def cut_network(network: Path, cell: Cell, split: Path, layers: Path) -> None:
    """Cut by the layout of a cell; an exact one is chosen for these boards, by timed layers."""
    from forerun.splitting.choice import choose
    from forerun.splitting.cost import Device
    from forerun.splitting.cut import cut, cut_replicas
    from forerun.splitting.graph import Graph
    from forerun.splitting.layout import layout

    graph, way, devices = Graph.load(network), cell.way, cell.devices
    if way.layout == "replicas":
        cut_replicas(graph, devices, split, name=way.name)
    elif way.layout == "exact":
        # For the boards as they run here: what a message takes besides its bytes is not dilated.
        board = Device("board", SPEED, rate=RATE * 1e6 / 8, latency=LATENCY)
        asked: Any = {"precision": way.precision, "wire": cell.wire, "alone": False}
        best = choose(graph, [board] * devices, times=timed(layers), **asked)
        cut(graph, best.layout, split, name=way.name, early=best.early)
    else:
        cut(graph, layout(graph, way.layout, (1.0,) * devices), split, name=way.name)


def timed(layers: Path) -> Predictor:
    """What layers take here, by a study that is made where there is none."""
    from forerun.splitting.layers import Predictor, layer_times
    from forerun.splitting.timing import time_layers

    try:
        return Predictor(layer_times(layers))
    except InputError:  # none, or one that was not finished
        time_layers(layers)
        return Predictor(layer_times(layers))


def quantised(split: Path, inputs: Path, out: Path) -> None:
    """The same split with int8 segments."""
    from forerun.splitting.quantise import quantise

    shape = np.load(inputs, mmap_mode="r").shape[1:]
    drawn = np.random.default_rng(SEED + 1).standard_normal((CALIBRATED, *shape))
    quantise(split, list(drawn.astype(np.float32)[:, None]), out)


def digest(paths: Iterable[Path]) -> str:
    """Of the contents of files."""
    found = sha256()
    for path in sorted(paths):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def fresh(path: Path, made_by: str) -> bool:
    """Whether something was made by this code."""
    return path.exists() and path.read_text() == made_by


if __name__ == "__main__":
    export(Path(sys.argv[1]), *sys.argv[2:])
