"""What devices have on the wire, by what they say that they have sent."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import small_splits

from forerun.errors import InputError
from forerun.splitting.on_wire import wires_of
from forerun.splitting.packages import read_packages

# The bytes of a message of two channels of 30 values, and of the frame around it.
BYTES = {"float32": 24 + 240, "float16": 24 + 120, "int8": 24 + 80}


def totals(wires: Sequence[str], messages: int = 12) -> list[dict[str, Any]]:
    """What devices say that have sent each other so much; the host gets its answers besides."""
    return [
        {
            "sent_messages": {"host": 7, "8": messages, "9": messages},
            "sent_bytes": {"host": 7000, **dict.fromkeys("89", messages * BYTES[wire])},
        }
        for wire in wires
    ]


@pytest.mark.parametrize("wire", BYTES)
def test_the_bytes_of_messages_tell_their_type(tmp_path: Path, wire: str) -> None:
    small_splits.groups(tmp_path, 3)
    programs = read_packages(tmp_path).programs
    assert wires_of(programs, totals([wire] * 3)) == [wire]
    more = totals([wire] * 3)
    more[1]["sent_bytes"]["9"] += 50  # of a sample that was abandoned
    assert wires_of(programs, more) == [wire]


def test_devices_that_send_different_types_are_refused(tmp_path: Path) -> None:
    small_splits.groups(tmp_path, 3)
    programs = read_packages(tmp_path).programs
    with pytest.raises(InputError, match="--wire: found int8, int8, float16, expected the same"):
        wires_of(programs, totals(["int8", "int8", "float16"]))


def test_devices_that_send_nothing_may_have_any(tmp_path: Path) -> None:
    small_splits.replicas(tmp_path / "replicas", 2)
    silent = totals(["float32"] * 2, messages=0)
    assert wires_of(read_packages(tmp_path / "replicas").programs, silent) == [*BYTES]
