from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest
from device_beds import BOARDS
from onnx_networks import plain, saved

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun


def test_cut_prints_what_each_device_has(forerun: Forerun, cnn: Path, tmp_path: Path) -> None:
    done = forerun("split", "cut", cnn, "--shares", "3,1", "--layout", "rows", "-o", tmp_path / "s")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == f"small over 2 devices, rows: {tmp_path / 's'}"
    assert re.search(r"^ 0 .* 75 %", done.out, re.MULTILINE)
    assert re.search(r"^ 1 .* 25 %", done.out, re.MULTILINE)
    assert "the network: 11.6 k MACs; the busiest device: 75 % of them" in lines
    assert lines[-1] == f"next: forerun split bench {tmp_path / 's'}"


def test_cut_as_json(forerun: Forerun, cnn: Path, tmp_path: Path, described: Described) -> None:
    words = ("--devices", 2, "--layout", "outputs", "-o", tmp_path / "s", "--json")
    document = forerun("split", "cut", cnn, *words).document
    assert set(document) == described("split cut")
    assert document["inputs"] == {"image": [1, 1, 8, 8]}
    assert document["outputs"] == {"logits": [1, 10]}
    # 8 x 8 places of 6 kernels of 9 numbers, 4 x 4 of 8 of 54, and 128 x 10 weights.
    assert document["macs"] == 8 * 8 * 6 * 9 + 4 * 4 * 8 * 54 + 1280
    assert sum(one["macs"] for one in document["devices"]) == document["macs"]
    assert [one["share"] for one in document["devices"]] == [0.5, 0.5]
    assert all(one["sent_bytes"] > 0 for one in document["devices"])
    assert document["unruled"] == []


def test_without_further_words_four_devices_are_cut_for(
    forerun: Forerun, cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = forerun("split", "cut", cnn, "--json").document
    assert document["folder"] == "small-4"
    assert len(document["devices"]) == 4


def test_an_earlier_split_is_replaced_and_nothing_else(
    forerun: Forerun, cnn: Path, halves: Path
) -> None:
    words = ("--layout", "outputs", "--devices", 3, "-o", halves)
    assert forerun("split", "cut", cnn, *words).code == 0
    assert {one.name for one in halves.iterdir()} == {
        "split.json",
        *(f"device-{n}" for n in range(3)),
    }
    (halves / "notes.txt").write_text("mine")
    done = forerun("split", "cut", cnn, *words)
    assert done.code == 2
    assert "found something else, expected a new folder, or an earlier split" in done.err
    assert (halves / "notes.txt").read_text() == "mine"
    assert not list(halves.parent.glob(".forerun-*"))


def test_boards_have_shares_by_their_speeds(forerun: Forerun, cnn: Path, tmp_path: Path) -> None:
    (tmp_path / "boards.yaml").write_text(BOARDS.format("10.0.0.2", "10.0.0.3"))
    on = ("--on", tmp_path / "boards.yaml", "-o", tmp_path / "s", "--layout", "rows", "--json")
    document = forerun("split", "cut", cnn, *on).document
    assert [one["share"] for one in document["devices"]] == [0.75, 0.25]


def test_replicas_have_the_whole_network(forerun: Forerun, cnn: Path, tmp_path: Path) -> None:
    words = ("--replicas", "--devices", 3, "-o", tmp_path / "s")
    document = forerun("split", "cut", cnn, *words, "--json").document
    assert document["layout"] == "replicas"
    assert [one["macs"] for one in document["devices"]] == [document["macs"]] * 3
    done = forerun("split", "cut", cnn, *words)
    assert "the busiest device: 100 % of them, of one sample in 3" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--devices", "0"), "devices: found 0, expected at least 1"),
        (("--shares", "1,x"), "--shares: found 1,x, expected numbers above 0"),
        (("--shares", "1,0"), "share of device 1: found 0.0, expected a number above 0"),
        (("--shares", "1,1", "--devices", "3"), "--shares: found 2 numbers, expected 3"),
        (("--on", "boards", "--devices", "3"), "--devices: found 3, expected none with --on"),
        (("--on", "boards", "--shares", "1,1"), "--shares: found 1,1, expected none with --on"),
        (("--on", "laptop"), "laptop: found no boards, expected an infrastructure with boards"),
        (("--int8",), "--samples: found none, expected typical inputs"),
        (("--samples", "x.npy"), "--samples: found x.npy, expected none without --int8"),
        (("--replicas", "--layout", "rows"), "--layout: found rows, expected none with --replicas"),
        (("--layout", "diagonals"), "diagonals"),
        (("--candidate", "2"), "--candidate: found 2, expected none without --plan"),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    forerun: Forerun, cnn: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    done = forerun("split", "cut", cnn, "-o", tmp_path / "s", *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
    assert not (tmp_path / "s").exists()


def ended(cnn: Path, file: Path, *nodes: onnx.NodeProto) -> Path:
    """The network with more layers after its classes, which end in y."""
    model = onnx.load(cnn)
    model.graph.node.extend(nodes)
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info("y"))
    onnx.save(onnx.shape_inference.infer_shapes(model, strict_mode=True), file)
    return file


def test_an_output_that_may_be_rounded_is_named(
    forerun: Forerun, cnn: Path, tmp_path: Path
) -> None:
    best = onnx.helper.make_node("ArgMax", ["logits"], ["best"], axis=1)
    squared = onnx.helper.make_node("Mul", ["best", "best"], ["y"])
    network = ended(cnn, tmp_path / "squared.onnx", best, squared)
    done = forerun("split", "cut", network, "--layout", "rows", "-o", tmp_path / "s")
    told = "output y: int64, but devices give float32: whole numbers beyond 16777216 are rounded"
    assert done.code == 0
    assert [line for line in done.err.splitlines() if "output" in line] == [
        f"forerun: warning: {told}"
    ]


def test_an_output_that_is_no_number_is_refused(
    forerun: Forerun, cnn: Path, tmp_path: Path
) -> None:
    text = onnx.helper.make_node("Cast", ["logits"], ["y"], to=onnx.TensorProto.STRING)
    network = ended(cnn, tmp_path / "text.onnx", text)
    done = forerun("split", "cut", network, "--layout", "rows", "-o", tmp_path / "s")
    told = "forerun: error: output y: found text, expected numbers: devices give float32\n"
    assert (done.code, done.out, done.err) == (2, "", told)
    assert not (tmp_path / "s").exists()


def test_what_is_no_network_is_refused(forerun: Forerun, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_text("Dear diary")
    for name in ("net.onnx", "none.onnx"):
        done = forerun("split", "cut", tmp_path / name, "-o", tmp_path / "s")
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert name in done.err


def test_an_operator_without_a_rule_is_named(forerun: Forerun, cnn: Path, tmp_path: Path) -> None:
    from onnx import helper, load, save_model

    model = load(cnn)
    model.graph.node[1].CopyFrom(helper.make_node("LRN", ["a"], ["b"], name="odd", size=3))
    save_model(model, cnn)
    words = ("--devices", 2, "--layout", "rows", "-o", tmp_path / "s")
    done = forerun("split", "cut", cnn, *words)
    assert done.code == 0
    told = "LRN odd has no rule: computed whole, by every device that needs it"
    assert done.err == f"forerun: warning: {told}\n"
    again = forerun("split", "run", tmp_path / "s", "--against", cnn, "--json").document
    assert again["agreement"]["difference"] < 1e-5


@pytest.fixture
def untimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's timed layers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.usefixtures("untimed")
def test_auto_says_what_it_should_take(forerun: Forerun, tmp_path: Path) -> None:
    (tmp_path / "boards.yaml").write_text(
        """
name: pair
boards:
  pi: {count: 2, processors: {microarchitecture: cortex_a72, cores: 4}, memory: 1 GiB,
       link: {bandwidth: 1 Gbit/s, latency: 100us}, speed: 0.02}
"""
    )
    words = (saved(plain(32, 16), tmp_path / "net.onnx"), "--on", tmp_path / "boards.yaml")
    done = forerun("split", "cut", *words, "-o", tmp_path / "s")
    assert done.err == "no layers were timed: a rule of thumb, which may be off by a factor of 3\n"
    time = r"\S+ \S+ \(\S+ \S+ to \S+ \S+\)"
    (line,) = (one for one in done.out.splitlines() if one.startswith("predicted: "))
    assert re.fullmatch(f"predicted: {time}; one device alone: {time}", line)
    document = forerun("split", "cut", *words, "-o", tmp_path / "s", "--json").document
    predicted, first = document["predicted"], document["alternatives"][0]
    assert first["layout"].partition(",")[0] == document["layout"]
    assert predicted["low"] < predicted["seconds"] == first["seconds"] < predicted["high"]
    times = {one["layout"]: one["seconds"] for one in document["alternatives"]}
    assert {"alone", "rows", "outputs", "groups"} <= set(times)
    assert times["groups"] is None  # which cannot be cut so, for a reason
    assert times["alone"] > predicted["seconds"]


@pytest.mark.usefixtures("untimed")
def test_so_small_a_network_is_not_divided(forerun: Forerun, cnn: Path, tmp_path: Path) -> None:
    done = forerun("split", "cut", cnn, "--shares", "1,2", "-o", tmp_path / "s")
    lines = done.out.splitlines()
    assert lines[0] == f"small over 2 devices, alone: {tmp_path / 's'}"
    assert ", by one device alone; the best split: " in lines[-2]
    assert done.err.splitlines()[-1] == (
        "forerun: warning: no split is predicted to be faster than one device alone:"
        " device 1 does it all; --layout cuts it all the same"
    )
    again = forerun("split", "run", tmp_path / "s", "--against", cnn, "--json").document
    assert again["agreement"]["difference"] < 1e-5


def test_missing_extras_are_told(
    forerun: Forerun, cnn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    for missing, words, extra in (
        ("onnxruntime", ("cut", cnn), "split"),
        ("torch", ("decouple", "resnet-8", "-o", "x.onnx"), "torch"),
    ):
        gone = {missing}
        monkeypatch.setattr(
            "importlib.util.find_spec", lambda name, gone=gone: None if name in gone else real(name)
        )
        done = forerun("split", *words)
        line = (
            f"forerun: error: {missing} is missing in the Python that runs forerun:"
            f" pip install 'forerun[{extra}]'\n"
        )
        assert (done.code, done.out, done.err) == (2, "", line)
