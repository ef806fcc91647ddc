import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from forerun.cli import main


class Printed(NamedTuple):
    """What a call of the command line printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document on standard output."""
        return json.loads(self.out)


Forerun = Callable[..., Printed]


@pytest.fixture
def forerun(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forerun:
    """Call the command line as a user would, on a terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: object) -> Printed:
        code = main([str(word) for word in words])
        return Printed(code, *capsys.readouterr())

    return call
