"""All devices in one process, sample after sample."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_networks import Maker, answers, difference, sample

from forerun.errors import InputError
from forerun.splitting.cut import Split, cut
from forerun.splitting.graph import Graph
from forerun.splitting.layout import layout
from forerun.splitting.simulate import Simulation


@pytest.fixture
def model() -> object:
    net = Maker({"x": (1, 3, 12, 6)})
    x = net.add("Relu", net.conv("x", 6))
    return net.model(net.head(net.conv(x, 4), 10))


@pytest.fixture
def split(model: object, tmp_path: Path) -> Split:
    graph = Graph.of(model)  # type: ignore[arg-type]
    return cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "split", name="net", probes=True)


def test_samples_one_after_the_other(model: object, split: Split) -> None:
    simulation = Simulation(split.folder)
    for seed in range(3):
        given = sample(model, seed)  # type: ignore[arg-type]
        for name, right in answers(model, given).items():  # type: ignore[arg-type]
            assert difference(simulation.run(given)[name], right) < 1e-5


def test_what_segments_read(split: Split) -> None:
    seen: list[tuple[int, int]] = []
    Simulation(split.folder).run(
        {"x": np.zeros((1, 3, 12, 6), np.float32)},
        before=lambda device, segment, _: seen.append((device, segment)),
    )
    segments = [len(split.description(device)["segments"]) for device in range(2)]
    assert sorted(seen) == [(d, s) for d in range(2) for s in range(segments[d])]


def test_probes_cover_a_tensor(split: Split) -> None:
    simulation = Simulation(split.folder)
    simulation.run({"x": np.ones((1, 3, 12, 6), np.float32)})
    covered = np.zeros((1, 6, 12, 6))
    for place, value in simulation.probes()["t1"]:
        assert covered[place].shape == value.shape
        covered[place] += 1
    assert (covered == 1).all()


def test_inputs_that_do_not_fit(split: Split) -> None:
    simulation = Simulation(split.folder)
    with pytest.raises(InputError, match=r"input x: found None, expected an array of \[1, 3"):
        simulation.run({})
    with pytest.raises(InputError, match=r"input x: found \[1, 3, 6, 6\]"):
        simulation.run({"x": np.zeros((1, 3, 6, 6), np.float32)})


def changed(split: Split, device: int, **fields: Any) -> None:
    """Write other things into a device's package."""
    package = split.description(device) | fields
    (split.package(device) / "package.json").write_text(json.dumps(package))


def test_a_split_of_which_a_message_is_missing(split: Split) -> None:
    changed(split, 0, sends=[])
    with pytest.raises(InputError, match="expected a split whose segments can all run"):
        Simulation(split.folder).run({"x": np.zeros((1, 3, 12, 6), np.float32)})


def test_a_message_that_nobody_expects(split: Split) -> None:
    changed(split, 1, receives=[], copies=[], segments=[], outputs=[], sends=[])
    with pytest.raises(InputError, match="found nothing like it at device 1, expected packages of"):
        Simulation(split.folder)


def test_files_outside_of_a_package_are_not_opened(split: Split) -> None:
    segments = split.description(0)["segments"]
    segments[0]["file"] = "../../elsewhere.onnx"
    changed(split, 0, segments=segments)
    with pytest.raises(InputError, match="expected the name of a file in the package's own folder"):
        Simulation(split.folder)


def test_a_damaged_segment_is_named(split: Split) -> None:
    file = split.package(1) / "segment-000.onnx"
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(InputError, match=r"device-1/segment-000\.onnx: damaged"):
        Simulation(split.folder)


def test_a_segment_that_is_no_network(split: Split) -> None:
    (split.package(0) / "segment-000.onnx").write_bytes(b"Dear diary")
    segments = split.description(0)["segments"]
    segments[0]["sha256"] = sha256(b"Dear diary").hexdigest()
    changed(split, 0, segments=segments)
    with pytest.raises(InputError, match=r"segment-000\.onnx: no ONNX file"):
        Simulation(split.folder)
