"""How a module is found, and that PyTorch is asked for by name; its counts are in tests/system."""

import sys
from pathlib import Path

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
