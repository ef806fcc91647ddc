from pathlib import Path

import pytest

from forerun.workloads.home import data_directory, environments_directory, home


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORERUN_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ada")


def test_it_lies_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORERUN_HOME", "~/elsewhere")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert home() == Path("/home/ada/elsewhere")
    assert data_directory() == Path("/home/ada/elsewhere/data")
    assert environments_directory() == Path("/home/ada/elsewhere/environments")


def test_it_lies_where_the_desktop_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert home() == Path("/data/forerun")


def test_it_lies_in_the_users_home_otherwise() -> None:
    assert home() == Path("/home/ada/.local/share/forerun")
