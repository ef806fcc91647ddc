"""What the system tests share: real programs, which `make system` installs on Debian."""

import shutil

import pytest


def program(name: str) -> str:
    """The path of a program of the machine's; a test that needs it is skipped where it is not."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not on this machine: on Debian, `make system` as root installs it")
    return path


@pytest.fixture(scope="session")
def chromium() -> str:
    return program("chromium")


@pytest.fixture(scope="session")
def shellcheck() -> str:
    return program("shellcheck")
