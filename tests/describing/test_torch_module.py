"""How a module is found, and that PyTorch is asked for by name; its counts are in tests/system."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from forerun.describing import describe
from forerun.errors import InputError


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.usefixtures("without_torch")
def test_torch_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("raise SystemExit('must not run')\n")
    with pytest.raises(InputError, match="needs torch in the Python that runs forerun"):
        describe(f"{file}:Net", {"x": (1, 3)})


def test_shapes_are_asked_for() -> None:
    with pytest.raises(InputError, match="--input x=1x3x224x224"):
        describe("net.py:Net")
    with pytest.raises(InputError, match="--input x=1x3x224x224"):
        describe(f"{'package.' * 100}net:Net")  # longer than the name of a file can be


def test_an_empty_shape_is_refused() -> None:
    with pytest.raises(InputError, match="input y: found no sizes, expected a shape, such as"):
        describe("net.py:Net", {"x": (1, 3), "y": ()})


def test_types_are_those_of_pytorch_and_of_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(dtype=str, float32="float32", int64="int64", nn=None, empty=print)
    monkeypatch.setitem(sys.modules, "torch", torch)
    for kind in ("int65", "empty"):
        with pytest.raises(InputError, match=f"input x: found {kind}, expected a type of PyTorch"):
            describe("no_such_module:Net", {"x": (1, 3)}, types={"x": kind})
    with pytest.raises(InputError, match="no_such_module"):
        describe("no_such_module:Net", {"x": (1, 3), "y": (1,)}, types={"x": "int64"})
    with pytest.raises(InputError, match="type of an input: found y, expected one of x"):
        describe("no_such_module:Net", {"x": (1, 3)}, types={"y": "int64"})
