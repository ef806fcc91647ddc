"""Real layers, timed on this machine for a moment."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from forerun.describing import describe
from forerun.errors import InputError
from forerun.splitting.chains import chain
from forerun.splitting.layers import NOTE, Precision, Timed
from forerun.splitting.timing import options, profiled, time_layers


@pytest.mark.parametrize("seed", range(6))
def test_a_chain_has_the_macs_that_its_layers_say(tmp_path: Path, seed: int) -> None:
    made = chain(np.random.default_rng(seed))
    model = made.model()
    onnx.checker.check_model(model, full_check=True)
    path = tmp_path / "chain.onnx"
    onnx.save(model, path)
    counted = sum(
        layer.macs for layer in made.layers.values() if layer.kind in ("conv", "depthwise", "gemm")
    )
    assert describe(str(path), batch=1).macs == counted


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_every_layer_that_the_runtime_keeps_has_its_seconds(precision: Precision) -> None:
    made = chain(np.random.default_rng(1), precision)
    found = profiled(made)
    kinds = {layer.kind for layer, _ in found}
    assert "conv" in kinds
    assert all(0 < seconds < 10 for _, seconds in found)
    assert all(layer.precision == precision for layer, _ in found)
    convolutions = [one for one in made.layers.values() if one.kind == "conv"]
    assert [layer for layer, _ in found if layer.kind == "conv"] == convolutions


@pytest.mark.parametrize("seed", range(6))
def test_layers_in_int8_are_computed_in_int8(tmp_path: Path, seed: int) -> None:
    """With a bias, an activation and a sum, each as a quantised network has it."""
    asked = options()
    asked.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    made = chain(np.random.default_rng(seed), "int8")
    providers = ["CPUExecutionProvider"]
    onnxruntime.InferenceSession(made.model().SerializeToString(), asked, providers=providers)
    kinds = {node.op_type for node in onnx.load(asked.optimized_model_filepath).graph.node}
    assert kinds & {"QLinearConv", "QGemm"}
    assert not kinds & {"Add", "Conv", "FusedConv", "Gemm", "FusedGemm", "Relu"}


def test_a_moment_of_timing_makes_a_study_that_predicts(tmp_path: Path) -> None:
    told: list[float] = []
    study = time_layers(tmp_path / "layers.db", 1.0, tell=lambda share, _: told.append(share))
    times = Timed(study)
    assert len(study) > 10
    assert times.constants.call > 0
    assert times.constants.wires["int8"].send > 0
    note = study.note(NOTE)
    assert note is not None
    assert note["aside"] >= 1
    assert told == sorted(told)
    before = len(study)
    assert len(time_layers(study.path, 0.2)) > before  # more of them, and others


def test_a_time_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="seconds of timing: found 0, expected a number above 0"):
        time_layers(tmp_path / "layers.db", 0)
