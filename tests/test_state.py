import os
from pathlib import Path

import pytest

from forerun._state import state_directory


def test_the_state_directory_is_where_the_standard_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/ada")
    assert state_directory() == Path("/home/ada/.local/state/forerun")
    assert os.environ["XDG_STATE_HOME"] == "relative"


def test_a_state_directory_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_directory() == tmp_path / "forerun"
