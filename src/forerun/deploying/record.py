"""What is kept of a deployment: one JSON file in its folder, replaced whole whenever it changes.

It leads to a job that can be cancelled, a study that is written to and a file that is printed. So
it has the seal of who made it (see `_seal`), and is believed with that alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from forerun import _outputs
from forerun._documents import Count, NotNegative, Table, read_json, validated
from forerun._seal import is_sealed, sealed
from forerun._state import state_directory
from forerun.errors import InputError
from forerun.factors import Value
from forerun.jobs.backend import Phase

FILE = "deployment.json"
FORMAT = 1
SEAL = "seal"  # the field of the file that is not sealed itself
_LONGEST = 2**22  # bytes

Stored = Literal["time", "apart", "status", ""]  # as what the study has a run; not at all: empty
Texts = Annotated[tuple[str, ...], Field(strict=False)]


class Predicted(Table):
    """What the plan said before, in seconds."""

    seconds: NotNegative  # until the result is there
    low: NotNegative  # 90 % interval of it
    high: NotNegative
    run: NotNegative  # of that, the program itself
    wait: NotNegative = 0.0  # and what goes before: in the queue
    staging: NotNegative = 0.0
    memory_bytes: NotNegative | None = None  # of a worker, at most

    @property
    def run_low(self) -> float:
        """90 % interval of the program itself."""
        return max(0.0, self.low - self.wait - self.staging)

    @property
    def run_high(self) -> float:
        """90 % interval of the program itself."""
        return max(0.0, self.high - self.wait - self.staging)


class Result(Table):
    """How it ended, once it has."""

    status: Literal["ok", "failed", "out_of_memory", "timed_out", "cancelled"]
    run_seconds: NotNegative | None = None  # of the program, or what its marker times of it
    waited_seconds: NotNegative | None = None
    staged_seconds: NotNegative | None = None
    memory_bytes: NotNegative | None = None  # peak of its largest process
    starts: Annotated[int, Field(ge=0)] = 0
    nodes: Texts = ()
    inside: bool | None = None  # the interval; None where nothing was predicted, or nothing timed
    stored: Stored = ""
    told: Texts = ()  # lines for a person: the surprise, and what explains it


class Record(Table):
    """All that is kept."""

    format: int = FORMAT
    uid: str
    name: str
    words: Texts = ()  # of the command
    plan: str  # SHA-256 of the plan
    request: str
    infrastructure: str
    candidate: Count  # its number in the plan
    partition: str
    nodes: Count
    backend: str
    folder: str
    script: Literal["job.sh", "job.yaml"]
    output: str  # in the folder
    errors: str | None = None
    image: str = ""  # that it runs in
    runtime: str = ""  # and by what
    made: str  # ISO 8601, UTC, as all times
    submitted: str | None = None
    job: str | None = None  # the scheduler's word for it
    over: str | None = None  # when its scheduler said that it was done, and its files did not yet
    predicted: Predicted | None = None
    cautions: Texts = ()  # of the plan
    study: str | None = None
    point: dict[str, Value] = Field(default_factory=dict)
    variant: str = ""
    steps: str | None = None  # the factor that counts them
    repeats: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0  # of what the study times
    startup: NotNegative = 0.0  # seconds before that
    apart: str = ""  # why its time is not like those of the study; empty where it is
    elsewhere: bool = False  # on this machine, though it was planned for another
    alone: bool = False  # whether its nodes were its own
    node_memory: NotNegative | None = None  # bytes
    state: Phase | Literal["made"] = "made"
    reason: str = ""
    result: Result | None = None

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What a folder holds; InputError where that is nothing, newer or damaged."""
        path = folder / FILE
        if not path.exists():
            raise InputError(str(folder), "no deployment", "a folder that forerun deploy has made")
        document = read_json(path, _LONGEST)
        version = document.get("format")
        if isinstance(version, int) and version > FORMAT:
            raise InputError(str(path), f"format {version}", f"{FORMAT} at most; a newer forerun")
        seal = document.pop(SEAL, None)
        record = validated(cls, document, f"{path}: ")
        if not (isinstance(seal, str) and is_sealed(_text(document), seal)):
            found = "a deployment that somebody else may have made, or changed"
            raise InputError(str(path), found, "one that you made here: forerun status lists them")
        return record

    def save(self) -> None:
        """Put it in place of what was there, with this user's seal."""
        document = self.model_dump(mode="json")
        seal = sealed(_text(document))
        if seal is None:
            expected = "a directory with room that you may write to, or another XDG_STATE_HOME"
            raise InputError(str(state_directory()), "no place for a key", expected)
        text = json.dumps({**document, SEAL: seal}, indent=2, ensure_ascii=False)
        put(Path(self.folder) / FILE, f"{text}\n".encode())


def _text(document: Mapping[str, Any]) -> str:
    """What is sealed: the same whatever the order of fields and the blanks between them."""
    said = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return f"deployment {said}"


def put(path: Path, content: bytes) -> None:
    """Write a file of a deployment, whole; InputError where there is no room, or no right.

    It is for this user alone: commands and environments hold what opens other doors.
    """
    try:
        _outputs.write(path, content, 0o600)
    except OSError as error:
        expected = "a folder with room that you may write to; another one with -o"
        raise InputError(str(path), error.strerror, expected) from None
