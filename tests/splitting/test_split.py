"""One network on several devices, as a notebook has it."""

from pathlib import Path

import numpy as np
import pytest

import forerun
from forerun.errors import InputError
from forerun.infrastructure import Infrastructure
from forerun.splitting.comparing import Whole, difference
from forerun.splitting.graph import Graph
from forerun.splitting.layout import Layout

pytestmark = pytest.mark.usefixtures("patient_devices")


def test_cut_check_and_run(cnn: Path, tmp_path: Path) -> None:
    made = forerun.split(cnn, devices=3, layout="rows", output=tmp_path / "shelf")
    assert isinstance(made, forerun.Split)
    assert (made.name, made.layout, made.devices, made.precision) == ("small", "rows", 3, "float32")
    assert (made.inputs, made.outputs) == ({"image": [1, 1, 8, 8]}, {"logits": [1, 10]})
    assert made.check(cnn) < 1e-5
    samples = list(np.random.default_rng(0).standard_normal((4, 1, 1, 8, 8), np.float32))
    answers = made.run(samples, in_flight=2)
    whole = Whole(cnn)
    assert max(difference(a, whole.run(s)) for a, s in zip(answers, samples, strict=True)) < 1e-5
    again = forerun.Split.load(tmp_path / "shelf")
    assert again.shares == made.shares
    assert isinstance(again, forerun.Split)


def test_shares_say_what_each_device_does(cnn: Path, tmp_path: Path) -> None:
    one = forerun.split(cnn, 1, "whole", tmp_path / "one").shares
    (whole,) = one
    numbers = 6 * 9 + 8 * 6 * 9 + 1280
    assert whole.weights_bytes >= 4 * numbers
    assert whole.sent_bytes == 4 * 10  # the answer
    halves = forerun.split(cnn, [3, 1], "rows", tmp_path / "two").shares
    assert [share.macs for share in halves] == [0.75 * whole.macs, 0.25 * whole.macs]
    assert all(share.activations_bytes < whole.activations_bytes for share in halves)
    # A row of six channels of four columns goes each way, besides the partial answers.
    assert [share.sent_bytes for share in halves] == [4 * (6 * 4 + 10)] * 2


def test_the_folder_is_named_for_the_network(
    cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert forerun.split(cnn, 2, "outputs").folder == Path("small-2")


def test_a_layout_of_ones_own(cnn: Path, tmp_path: Path) -> None:
    graph = Graph.load(cnn)
    fused = Layout.fused(graph, (1, 1), [])
    made = forerun.split(graph, 2, fused, tmp_path / "s", name="mine")
    assert (made.name, made.layout) == ("mine", "fused")
    assert made.check(cnn) < 1e-5


def test_auto_is_for_the_boards_that_there_are(cnn: Path, tmp_path: Path) -> None:
    boards = Infrastructure.load(Path("boards"))
    made = forerun.split(cnn, boards, output=tmp_path / "s")
    assert made.devices == 4
    assert made.check(cnn) < 1e-5


def test_replicas(cnn: Path, tmp_path: Path) -> None:
    made = forerun.split(cnn, 2, "replicas", tmp_path / "s")
    assert made.layout == "replicas"
    first, second = made.shares
    assert first.macs == second.macs
    samples = list(np.random.default_rng(0).standard_normal((3, 1, 1, 8, 8), np.float32))
    whole = Whole(cnn)
    answers = made.run(samples)
    assert max(difference(a, whole.run(s)) for a, s in zip(answers, samples, strict=True)) < 1e-5


def test_int8_is_found_by_samples(cnn: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    samples = [{"image": random.standard_normal((1, 1, 8, 8), np.float32)} for _ in range(8)]
    exact = forerun.split(cnn, 2, "rows", tmp_path / "s")
    stored = sum(share.weights_bytes for share in exact.shares)
    made = forerun.split(cnn, 2, "rows", tmp_path / "s", int8=samples)
    assert made.precision == "int8"
    assert sum(share.weights_bytes for share in made.shares) < stored / 2
    assert made.check(cnn) > 1e-5  # or nothing was quantised


def test_another_network_is_no_reference(cnn: Path, tmp_path: Path) -> None:
    from onnx import load, numpy_helper, save_model

    made = forerun.split(cnn, 2, "rows", tmp_path / "s")
    model = load(cnn)
    weights = numpy_helper.to_array(model.graph.initializer[0]) + 1
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w1"))
    save_model(model, tmp_path / "other.onnx")
    with pytest.raises(InputError, match="found a split of another network"):
        made.check(tmp_path / "other.onnx")


def test_a_cut_that_fails_leaves_what_was_there(cnn: Path, tmp_path: Path) -> None:
    made = forerun.split(cnn, 2, "rows", tmp_path / "s")
    before = (made.folder / "split.json").read_bytes()
    with pytest.raises(InputError, match="layout"):
        forerun.split(cnn, 2, "diagonals", tmp_path / "s")
    assert (made.folder / "split.json").read_bytes() == before
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_only_a_split_is_replaced(cnn: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link", "."):
        with pytest.raises(InputError, match="found something else"):
            forerun.split(cnn, 2, "rows", tmp_path / name)
    (tmp_path / "empty").mkdir()
    assert forerun.split(cnn, 2, "rows", tmp_path / "empty").devices == 2


@pytest.mark.parametrize("devices", [0, [], [1, -1]])
def test_devices_that_are_none(cnn: Path, tmp_path: Path, devices: int | list[float]) -> None:
    with pytest.raises(InputError, match="device"):
        forerun.split(cnn, devices, "rows", tmp_path / "s")


def test_a_device_may_have_nothing_to_do(cnn: Path, tmp_path: Path) -> None:
    made = forerun.split(cnn, [1, 2], "alone", tmp_path / "s")
    first, second = made.shares
    assert (first.macs, first.sent_bytes) == (0, 0)
    assert second.macs > 0
    samples = list(np.random.default_rng(0).standard_normal((3, 1, 1, 8, 8), np.float32))
    whole = Whole(cnn)
    answers = made.run(samples, in_flight=2)
    assert max(difference(a, whole.run(s)) for a, s in zip(answers, samples, strict=True)) < 1e-5
