from collections.abc import Iterator
from pathlib import Path

import pytest
from device_beds import Bed, patient


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that are waited for as long as a machine may stand still."""
    patient(monkeypatch)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path)
    yield made
    made.close()
