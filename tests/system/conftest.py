"""What the system tests share: real programs, which `make system` installs on Debian."""

import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
from images import RefusedError


@contextmanager
def only_where_packages_are_had() -> Iterator[None]:
    """Skip what needs packages that an archive refuses to give now: it says nothing of forerun."""
    try:
        yield
    except RefusedError as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    with only_where_packages_are_had():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    with only_where_packages_are_had():
        yield


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
