from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from PIL import Image

from forerun.splitting.inputs import Samples
from forerun.splitting.split import Split

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun


def test_run_answers_as_the_whole_network_does(
    forerun: Forerun,
    halves: Path,
    cnn: Path,
    digits: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names.txt").write_text("".join(f"class {n}\n" for n in range(10)))
    words = ("--input", digits.name, "--against", cnn, "-o", "a.npy")
    done = forerun("split", "run", halves, *words, "--labels", "names.txt", "--top", 2)
    assert (done.code, done.err) == (0, "")
    assert "; the same class for 6 of 6" in done.out
    answers = np.load(tmp_path / "a.npy")
    assert answers.shape == (6, 10)
    first = answers[0].argsort()[::-1]
    assert " digits.npy, 0 " in done.out
    assert f" {first[0]} class {first[0]} " in done.out
    assert f" {first[1]} class {first[1]} " in done.out


def test_run_as_json(forerun: Forerun, halves: Path, cnn: Path, described: Described) -> None:
    done = forerun("split", "run", halves, "--against", cnn, "--wire", "int8", "--json")
    assert set(done.document) == described("split run")
    assert done.err == "no --input: the network sees random numbers\n"
    (answer,) = done.document["answers"]
    assert answer["input"] == "random numbers"
    assert answer["outputs"] == {"logits": [1, 10]}
    assert 0 < answer["classes"][0]["share"] <= 1
    assert done.document["agreement"]["difference"] < 0.05
    assert done.document["agreement"]["same_class"] == 1


@pytest.mark.parametrize(("wire", "most"), [("float32", 0.0), ("float16", 2**-11)])
def test_what_the_wire_loses_is_told(
    forerun: Forerun, halves: Path, digits: Path, wire: str, most: float
) -> None:
    words = ("split", "run", halves, "--input", digits, "--wire", wire)
    assert forerun(*words, "--json").document["wire_error"] is None
    lost = forerun(*words, "--report-error", "--json").document["wire_error"]
    told = forerun(*words, "--report-error").out.splitlines()[-1]
    if not most:
        assert lost == {"difference": 0.0, "device": None, "message": None}
        assert told == "on the wire: no number loses anything"
        return
    assert 0 < lost["difference"] <= most  # of half the last bit of float16
    numbers = [one["message"] for one in Split.load(halves).description(lost["device"])["sends"]]
    assert lost["message"] in numbers
    share = f"{100 * lost['difference']:.2g} %"
    where = f"device {lost['device']}, message {lost['message']}"
    said = f"on the wire: a number is off by at most {share} of its message's largest ({where})"
    assert told == said


def test_samples_in_flight_come_back_in_order(
    forerun: Forerun, halves: Path, digits: Path, tmp_path: Path
) -> None:
    files = [tmp_path / f"{k}.npy" for k in (1, 3)]
    for k, file in zip((1, 3), files, strict=True):
        words = ("--input", digits, "--in-flight", k, "-o", file)
        assert forerun("split", "run", halves, *words).code == 0
    one, three = map(np.load, files)
    np.testing.assert_array_equal(one, three)


def test_samples_are_held_only_while_they_are_under_way(
    forerun: Forerun, halves: Path, cnn: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, most = Samples.__iter__, []

    def watched(self: Samples) -> Iterator[NDArray[np.float32]]:
        given: list[weakref.ref[NDArray[np.float32]]] = []
        for one in read(self):
            given.append(weakref.ref(one))
            most.append(sum(ref() is not None for ref in given))
            yield one

    monkeypatch.setattr(Samples, "__iter__", watched)
    done = forerun("split", "run", halves, "--input", digits, "--against", cnn, "--json")
    assert len(done.document["answers"]) == 6
    assert len(most) == 2 * 6  # once for the whole network, once for the devices
    assert max(most) < 4


def test_a_picture_is_read_as_the_network_takes_it(
    forerun: Forerun, halves: Path, tmp_path: Path
) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (8, 8), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "digit.png")
    np.save(tmp_path / "digit.npy", (pixels.astype(np.float32) / 255 - 0.5)[np.newaxis] / 0.25)
    options = ("--mean", "0.5", "--std", "0.25", "--crop", "1", "-o", tmp_path / "a.npy")
    files = ("--input", tmp_path / "digit.png", "--input", tmp_path / "digit.npy")
    assert forerun("split", "run", halves, *files, *options).code == 0
    picture, array = np.load(tmp_path / "a.npy")
    np.testing.assert_allclose(picture, array, atol=1e-5)


def test_another_class_than_the_whole_networks_is_a_failure(
    forerun: Forerun, halves: Path, cnn: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forerun.splitting.comparing.same_class", lambda *_: False)
    done = forerun("split", "run", halves, "--input", digits, "--against", cnn)
    assert done.code == 1
    assert "the same class for 0 of 6" in done.out


@pytest.mark.usefixtures("patient_devices")
def test_answers_without_a_batch_and_of_whole_numbers(
    forerun: Forerun, cnn: Path, digits: Path, tmp_path: Path
) -> None:
    model = onnx.load(cnn)
    plain = onnx.helper.make_node("Squeeze", ["logits"], ["plain"])
    best = onnx.helper.make_node("ArgMax", ["logits"], ["best"], axis=1, keepdims=0)
    model.graph.node.extend([plain, best])
    del model.graph.output[:]
    for name in ("plain", "best"):
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    network, split = tmp_path / "ends.onnx", tmp_path / "split"
    onnx.save(onnx.shape_inference.infer_shapes(model, strict_mode=True), network)
    how = ("--devices", 2, "--layout", "rows", "-o", split)
    assert forerun("split", "cut", network, *how).code == 0
    words = ("--input", digits, "--against", network, "-o", tmp_path / "a.npz", "--json")
    found = forerun("split", "run", split, *words).document
    assert found["agreement"]["same_class"] == 6
    assert found["answers"][0]["outputs"] == {"plain": [10], "best": [1]}
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["plain"].shape == (6, 10)
        assert arrays["best"].dtype == np.int64
        np.testing.assert_array_equal(arrays["best"], arrays["plain"].argmax(1))


@pytest.mark.usefixtures("patient_devices")
@pytest.mark.parametrize(("kind", "classes"), [("Squeeze", 3), ("ArgMax", None)])
def test_only_scores_have_likely_classes(
    forerun: Forerun, cnn: Path, tmp_path: Path, kind: str, classes: int | None
) -> None:
    model = onnx.load(cnn)
    model.graph.node.append(onnx.helper.make_node(kind, ["logits"], ["y"]))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info("y"))
    onnx.save(onnx.shape_inference.infer_shapes(model, strict_mode=True), tmp_path / "y.onnx")
    words = ("--devices", 1, "--replicas", "-o", tmp_path / "split")
    assert forerun("split", "cut", tmp_path / "y.onnx", *words).code == 0
    (answer,) = forerun("split", "run", tmp_path / "split", "--top", 3, "--json").document[
        "answers"
    ]
    assert (answer["classes"] and len(answer["classes"])) == classes


def test_what_run_refuses(
    forerun: Forerun, halves: Path, cnn: Path, digits: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(cnn.read_bytes())
    model_changed(other)
    (tmp_path / "x.npy").write_text("Dear diary")
    for words, said in (
        ((tmp_path,), "found no split.json, expected a folder that forerun split cut has made"),
        ((halves, "-o", "answers.txt"), "--output: found answers.txt, expected a name that ends"),
        ((halves, "-o", tmp_path / "x.npy"), "x.npy: found a file of another kind"),
        ((halves, "--against", other), "found a split of another network, expected one of"),
        ((halves, "--mean", "a,b", "--input", digits), "--mean: found a,b"),
        ((halves, "--on", "boards"), "--secret-file: found none"),
        ((halves, "--secret-file", "x"), "--secret-file: found x, expected none without --on"),
        ((halves, "--boards", "pi"), "--boards: found pi, expected none without --on"),
    ):
        done = forerun("split", "run", *words)
        assert (done.code, done.out) == (2, ""), words
        assert said in done.err
    assert (tmp_path / "x.npy").read_text() == "Dear diary"


def model_changed(path: Path) -> None:
    """Change a weight of a network."""
    from onnx import load, numpy_helper, save_model

    model = load(path)
    weights = numpy_helper.to_array(model.graph.initializer[0]).copy()
    weights[0] += 1
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w1"))
    save_model(model, path)


def test_a_damaged_package_names_the_device(forerun: Forerun, halves: Path) -> None:
    segment = next((halves / "device-1").glob("*.onnx"))
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    done = forerun("split", "run", halves)
    assert (done.code, done.out) == (2, "")
    assert "device-1" in done.errors[0]
    assert segment.name in done.errors[0]


def test_a_picture_is_normalised_as_the_networks_file_says(
    forerun: Forerun, cnn: Path, tmp_path: Path
) -> None:
    model = onnx.load(cnn)
    model.metadata_props.add(key="mean", value="[0.5]")
    model.metadata_props.add(key="std", value="[0.25]")
    onnx.save_model(model, cnn)
    split = tmp_path / "split"
    assert forerun("split", "cut", cnn, "--devices", 1, "-o", split).code == 0
    pixels = np.random.default_rng(2).integers(0, 256, (8, 8), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "digit.png")

    def answer(*words: object) -> NDArray[np.float32]:
        kept = tmp_path / "a.npy"
        options = ("--input", tmp_path / "digit.png", "-o", kept, *words)
        assert forerun("split", "run", split, *options).code == 0
        found: NDArray[np.float32] = np.load(kept)
        return found

    own = answer()
    np.testing.assert_array_equal(own, answer("--mean", 0.5, "--std", 0.25))
    np.testing.assert_array_equal(answer("--mean", 0), answer("--mean", 0, "--std", 0.25))
    assert not np.allclose(own, answer("--mean", 0, "--std", 1))

    page = split / "split.json"
    page.write_text(page.read_text().replace("0.25", "-1"))
    done = forerun("split", "run", split, "--input", tmp_path / "digit.png")
    assert (done.code, done.out) == (2, "")
    assert "split.json: mean and std: found [[0.5], [-1]], expected 1 numbers each" in done.err
