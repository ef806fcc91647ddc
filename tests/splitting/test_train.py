"""Short trainings on images that are easily told apart."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from forerun.splitting import export
from forerun.splitting.graph import Graph
from forerun.splitting.networks import count
from forerun.splitting.train import main

TRAINED, TESTED = 96, 40


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes by the brightness of two channels, with noise."""
    directory = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    for part, images in (("", TRAINED), ("-test", TESTED)):
        labels = np.arange(images) % 4
        base = np.stack([labels % 2 * 120, labels // 2 * 120, np.full(images, 60)], 1)
        noisy = base[:, None, None] + random.integers(0, 100, (images, 32, 32, 3))
        np.save(directory / f"toy{part}-images.npy", noisy.astype(np.uint8))
        np.save(directory / f"toy{part}-labels.npy", labels.astype(np.uint8))
    return directory


@pytest.fixture
def options(data: Path, tmp_path: Path) -> list[str]:
    return [
        *("--dataset", "toy", "--data", str(data), "--output", str(tmp_path / "toy.onnx")),
        *("--batch", "16", "--learning-rate", "0.05", "--threads", "1"),
    ]


def test_a_decoupled_network_is_trained_exported_and_kept(
    options: list[str], tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decoupled = ["--groups", "4", "--width", "1.25", "--epochs", "2"]
    assert main([*options, *decoupled]) == 0
    first, *epochs = capsys.readouterr().out.splitlines()
    assert first == "resnet-8: 5.26 MMAC, 31504 parameters"
    assert [line.partition(":")[0] for line in epochs] == ["epoch 1 of 2", "epoch 2 of 2"]
    assert {one.name for one in tmp_path.iterdir()} == {"toy.onnx", "toy.safetensors"}

    about = export.read(tmp_path / "toy.safetensors")[1]
    accuracy = about["history"][-1]["accuracy"]
    assert accuracy > 0.9
    assert f"accuracy {accuracy:.2%}, " in epochs[-1]
    assert count(export.load(tmp_path / "toy.safetensors")).parameters == 31504

    kept = {
        one.key: json.loads(one.value) for one in onnx.load(tmp_path / "toy.onnx").metadata_props
    }
    images = np.load(data / "toy-test-images.npy") / 255
    given = ((images - kept["mean"]) / kept["std"]).astype(np.float32).transpose(0, 3, 1, 2)
    normal = Graph.load(tmp_path / "toy.onnx").normal  # which is what `forerun split run` uses
    assert normal == (tuple(kept["mean"]), tuple(kept["std"]))
    session = onnxruntime.InferenceSession(tmp_path / "toy.onnx")
    scores = [session.run(None, {"image": one[None]})[0].argmax() for one in given]
    assert np.mean(scores == np.load(data / "toy-test-labels.npy")) == pytest.approx(accuracy)

    assert main([*options, *decoupled]) == 0
    assert capsys.readouterr().out.endswith(f"toy.onnx: trained before, accuracy {accuracy:.2%}\n")


def test_a_training_that_was_stopped_goes_on_as_if_it_had_not_been(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = ["--groups", "4", "--epochs", "3"]
    assert main([*options, *epochs]) == 0
    whole = export.read(tmp_path / "toy.safetensors")[0]
    for file in tmp_path.iterdir():
        file.unlink()

    saved = export.save
    times: list[Path] = []

    def stopping(path: Path, *rest: object) -> None:
        saved(path, *rest)  # type: ignore[arg-type]
        times.append(path)
        if len(times) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(export, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        main([*options, *epochs])
    assert {one.name for one in tmp_path.iterdir()} == {"toy.checkpoint"}
    assert main([*options, *epochs]) == 0
    assert len(times) == 4  # the third epoch, and the weights
    again, about = export.read(tmp_path / "toy.safetensors")
    assert len(about["history"]) == 3
    assert all(torch.equal(again[name], value) for name, value in whole.items())


def test_another_training_is_not_gone_on_with(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export.save(
        tmp_path / "toy.checkpoint",
        {"network.x": torch.zeros(1)},
        {"network": {"network": "resnet-8", "classes": 4, "width": 1.5}, "history": []},
    )
    assert main([*options, "--epochs", "1"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: --width, before 1.5: found 1.0, expected the same, or another")


def test_a_student_learns_from_a_teacher(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*options, "--epochs", "1"]) == 0
    teacher = (tmp_path / "toy.safetensors").rename(tmp_path / "teacher.safetensors")
    (tmp_path / "toy.onnx").unlink()
    taught = ["--groups", "4", "--epochs", "2", "--teacher", str(teacher)]
    assert main([*options, *taught]) == 0
    history = export.read(tmp_path / "toy.safetensors")[1]["history"]
    assert history[1]["loss"] < history[0]["loss"]
    assert "error" not in capsys.readouterr().err


def test_workers_train_one_network_together(options: list[str], tmp_path: Path) -> None:
    started = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "-m", "forerun.splitting.train", *options, "--epochs", "2"),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        check=False,
    )
    assert started.returncode == 0, started.stderr
    lines = [line for line in started.stdout.splitlines() if line.startswith("epoch")]
    assert len(lines) == 2
    assert len(export.read(tmp_path / "toy.safetensors")[1]["history"]) == 2


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (("--epochs", "0"), "--epochs: found 0, expected a whole number from 1"),
        (("--warm-up", "1"), "--warm-up: found 1.0, expected a share from 0 and below 1"),
        (("--learning-rate", "-1"), "--learning-rate: found -1.0, expected a number from 0"),
        (("--output", "toy.pt"), "--output: found toy.pt, expected a file NAME.onnx"),
        (("--groups", "3"), "layer stem.0: found 16 channels, expected a multiple of the 3 groups"),
        (("--shuffles", "some", "--groups", "4"), "shuffles: found some, expected a module of the"),
        (("--dataset", "none"), "none-images.npy: found "),
        (("--teacher", "none.safetensors"), "none.safetensors: found "),
        (("--batch", "97"), "training images: found 96, expected at least a batch of 97 for each"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    options: list[str],
    changed: tuple[str, ...],
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*options, *changed]) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1


def test_unknown_options_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--network", "resnet-9"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
