import pytest
from patience import LONG


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search by a pattern may take as long as a machine may stand still."""
    monkeypatch.setattr("forerun.importing.pattern.LONGEST_SEARCH", LONG)
