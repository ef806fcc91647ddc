"""One network on several devices, in one call: cut it, check it, run it.

made = forerun.split("network.onnx", devices=4, output="shelf")
answers = made.run(images)
"""

from __future__ import annotations

import math
import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from forerun.errors import ForerunWarning, InputError
from forerun.infrastructure import Infrastructure
from forerun.splitting import cut as cutting
from forerun.splitting.answers import FLOAT, losses
from forerun.splitting.choice import choose
from forerun.splitting.cost import Device, devices_of
from forerun.splitting.graph import Graph
from forerun.splitting.inputs import Normal, normal_of
from forerun.splitting.layout import layout as named_layout
from forerun.splitting.measured import DeviceShare
from forerun.splitting.regions import checked_shares

if TYPE_CHECKING:
    from forerun.splitting.layers import Precision
    from forerun.splitting.layout import Layout
    from forerun.splitting.packages import Numbers, Sample

Floats = NDArray[np.float32]

AUTO, REPLICAS = "auto", "replicas"
USUAL_RATE = 125e6  # bytes a second of a link that nobody has described: gigabit Ethernet
_NUMBER = 4  # bytes


class Split(cutting.Split):
    """A network that was cut over devices: a package for each, in a folder."""

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The split that `forerun split cut` or `forerun.split` has put into a folder."""
        found = cutting.Split.load(folder)
        return cls(found.folder, found.document)

    @property
    def name(self) -> str:
        """The network's."""
        return str(self.document["name"])

    @property
    def layout(self) -> str:
        """How the work is divided."""
        replicated = self.document["kind"] == REPLICAS
        return REPLICAS if replicated else str(self.document["layout"])

    @property
    def precision(self) -> str:
        """What is computed with: float32 or int8."""
        return str(self.document["precision"])

    @property
    def inputs(self) -> dict[str, list[int]]:
        """The shape of each input of the network."""
        return dict(self.document["inputs"])

    @property
    def outputs(self) -> dict[str, list[int]]:
        """The shape of each output of the network."""
        return dict(self.document["outputs"])

    @property
    def types(self) -> dict[str, str]:
        """The type of each output of the network, as NumPy names it."""
        return {name: self.document.get("types", {}).get(name, FLOAT) for name in self.outputs}

    @property
    def normal(self) -> Normal | None:
        """Mean and deviation of each channel that its pictures are normalised by, where known."""
        mean, std = (self.document.get(name) for name in ("mean", "std"))
        if mean is None and std is None:
            return None
        channels = next(iter(self.inputs.values()))[1]
        found = normal_of(mean, std, channels)
        if found is None:
            where = f"{self.folder / 'split.json'}: mean and std"
            raise InputError(where, [mean, std], f"{channels} numbers each, std above 0")
        return found

    @property
    def shares(self) -> tuple[DeviceShare, ...]:
        """What each device has to compute, to store, and to send of one sample, as float32."""
        return tuple(_share(self.description(device)) for device in range(self.devices))

    def run(
        self, inputs: Iterable[Sample], *, wire: str = "float32", in_flight: int = 1
    ) -> list[dict[str, Numbers]]:
        """The answers to some samples, by all devices as processes of this machine.

        Each sample has the shape of the network's input, [1, channels, rows, columns]; a network
        of several inputs takes a mapping by their names. Answers have the shapes and types of the
        network's own outputs.
        """
        from forerun.splitting.running import Local

        with Local(self.folder, wire=wire, in_flight=in_flight) as devices:
            return [answer.outputs for answer in devices.run(inputs)]

    def check(self, network: str | Path, samples: int = 10, seed: int = 0) -> float:
        """How far its answers are from the whole network's: max|a - b| / max|b|, of random inputs.

        Both are computed in this process. InputError if it was cut from another network.
        """
        from forerun.splitting.comparing import Whole, difference, random_samples
        from forerun.splitting.simulate import Simulation

        if self.document["network"] != Graph.load(network).digest:
            raise InputError(str(self.folder), "a split of another network", f"one of {network}")
        whole, parts = Whole(network), Simulation(self.folder)
        return max(
            difference(parts.run(sample), whole.run(sample))
            for sample in random_samples(self.inputs, samples, seed)
        )


def split(
    network: str | Path | Graph,
    devices: int | Sequence[float] | Infrastructure = 4,
    layout: str | Layout = AUTO,
    output: str | Path | None = None,
    *,
    name: str | None = None,
    int8: Iterable[Mapping[str, Floats]] | None = None,
    early: float = 0.0,
) -> Split:
    """Cut a network (an ONNX file) over devices, into a folder with a package for each.

    `devices` says how many, or how fast each is beside the others, or is an infrastructure with
    boards. `layout` is "auto" (what should answer soonest, be it one device that does it all), the
    name of a layout, "replicas" (the whole network on each device, samples go round), or a Layout,
    with the share of a device's work that is to be left while what others need travels (`early`;
    0: that is not computed first). `int8` are samples to find the ranges of its numbers by, for
    computing in int8. The folder is the network's name with the number of devices, unless `output`
    says another; one that holds an earlier split is replaced. A ForerunWarning names an output that
    may be rounded, for devices give float32.
    """
    graph = network if isinstance(network, Graph) else Graph.load(network)
    called = name or ("network" if isinstance(network, Graph) else Path(network).stem)
    boards = boards_of(devices)
    folder = Path(f"{called}-{len(boards)}" if output is None else output)
    with _replaced(folder) as place:
        if layout == REPLICAS:
            cutting.cut_replicas(graph, len(boards), place, name=called)
        else:
            if isinstance(layout, str):
                precision: Precision = "float32" if int8 is None else "int8"
                layout, early = _layout(graph, layout, boards, precision)
            cutting.cut(graph, layout, place, name=called, early=early)
        if int8 is not None:
            _quantise(place, int8)
    for line in losses(graph):
        warnings.warn(line, ForerunWarning, stacklevel=2)
    return Split.load(folder)


def boards_of(devices: int | Sequence[float] | Infrastructure) -> list[Device]:
    """What is known of each device; of those that are only counted, that their link is usual."""
    if isinstance(devices, Infrastructure):
        if not devices.boards:
            raise InputError(devices.name, "no boards", "an infrastructure with boards")
        return devices_of(devices.boards)
    shares = checked_shares((1.0,) * devices if isinstance(devices, int) else devices)
    return [
        Device(f"device {number}", speed, rate=USUAL_RATE) for number, speed in enumerate(shares)
    ]


def _layout(
    graph: Graph, layout: str, boards: Sequence[Device], precision: Precision
) -> tuple[Layout, float]:
    """The layout of a name, and how much is left while what others need travels."""
    if layout != AUTO:
        return named_layout(graph, layout, [board.speed for board in boards]), 0.0
    found = choose(graph, boards, precision=precision)
    return found.layout, found.early


def _quantise(place: Path, samples: Iterable[Mapping[str, Floats]]) -> None:
    """Replace a split by one that computes in int8."""
    from forerun.splitting.quantise import quantise

    exact = place.with_name(f"{place.name}.float32")
    place.rename(exact)
    quantise(exact, samples, place)


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """Where to write a split, which then takes the folder's place: whole, or not at all."""
    if folder.exists() and not _is_ours(folder):
        raise InputError(str(folder), "something else", "a new folder, or an earlier split")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".forerun-", dir=folder.parent) as beside:
        made, old = Path(beside) / "new", Path(beside) / "old"
        yield made
        if folder.exists():
            folder.rename(old)
        made.rename(folder)


def _is_ours(folder: Path) -> bool:
    """Whether a folder is empty, or holds a split and nothing else."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    names = {one.name for one in folder.iterdir()}
    packages = {name for name in names if re.fullmatch(r"device-\d+", name)}
    return not names or names == packages | {"split.json"}


def _share(package: Mapping[str, Any]) -> DeviceShare:
    """What a device has to do, by its package."""
    buffers, segments = package["buffers"], package["segments"]
    sent = [part for message in package["sends"] for part in message["parts"]]
    return DeviceShare(
        device=package["device"],
        macs=sum(segment["macs"] for segment in segments),
        weights_bytes=sum(segment["weights_bytes"] for segment in segments),
        activations_bytes=package["activations_bytes"],
        sent_bytes=_NUMBER
        * (
            sum(_numbers(buffers[part["buffer"]], part["box"]) for part in sent)
            + sum(math.prod(buffers[piece["buffer"]]) for piece in package["outputs"])
        ),
    )


def _numbers(dims: Sequence[int], box: Sequence[Sequence[int]]) -> int:
    """How many numbers a box of a buffer holds; columns are never cut."""
    channels, rows = (len(range(*axis)) for axis in box)
    return channels * rows * math.prod(dims[3:])
