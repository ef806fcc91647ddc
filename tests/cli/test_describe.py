from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from onnx import TensorProto, helper, save_model

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A product of a batch of 1,000 numbers with a matrix, then an activation."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [1000, 500], bytes(2_000_000), raw=True)
    made = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1000])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 500])],
        [weights],
    )
    save_model(helper.make_model(made), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_describe_prints_the_figures(forerun: Forerun, network: Path) -> None:
    done = forerun("describe", network, "--batch", "4")
    assert (done.code, done.err) == (0, "")
    assert "one forward pass of x 4x1000" in done.out
    assert "2,000,000" in done.out
    assert "500,000 (1.91 MiB)" in done.out
    assert "15.6 KiB" in done.out  # two outputs of 4 x 500 numbers


def test_figures_to_paste(forerun: Forerun, network: Path) -> None:
    done = forerun("describe", network, "--input", "x=4x1000", "--factors")
    assert done.out == "-f macs=2000000 -f parameters=500000 -f activation_bytes=16000\n"


def test_describe_as_json(forerun: Forerun, network: Path) -> None:
    document = forerun("describe", network, "--batch", "2", "--json").document
    assert document == {
        "source": str(network),
        "macs": 1_000_000,
        "parameters": 500_000,
        "activation_bytes": 8_000,
        "parameter_bytes": 2_000_000,
        "inputs": {"x": [2, 1000]},
        "operators": [
            {"operator": "MatMul", "layers": 1, "macs": 1_000_000, "activation_bytes": 4_000},
            {"operator": "Relu", "layers": 1, "macs": 0, "activation_bytes": 4_000},
        ],
        "notes": [],
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--batch N"),
        (("--input", "x"), "NAME=SHAPE"),
        (("--input", "x=4*1000"), "NAME=SHAPE"),
        (("--input", "x="), "NAME=SHAPE"),
        (("--input", "x=:int64"), "NAME=SHAPE"),
        (("--input", "x=4x1000:"), "NAME=SHAPE"),
        (("--input", "x=4x1000:int64"), "found int64, expected no type: an ONNX file says it"),
        (("--input", "x=4x1000", "--input", "x=4x1000"), "x twice"),
        (("--input", "y=4x1000"), "one of x"),
        (("--batch", "0"), "from 1 to 2147483647"),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    forerun: Forerun, network: Path, words: tuple[str, ...], said: str
) -> None:
    done = forerun("describe", network, *words)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_what_is_not_there(forerun: Forerun, tmp_path: Path) -> None:
    missing = forerun("describe", tmp_path / "none.onnx")
    assert missing.code == 2
    assert "none.onnx: No such file" in missing.err
    module = forerun("describe", "no_such_package:Net", "--input", "x=1x3")
    assert module.code == 2
    assert module.err.count("\n") == 1
