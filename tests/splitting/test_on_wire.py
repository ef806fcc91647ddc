"""What devices have on the wire, by what they say that they have sent."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import small_splits

from forerun.errors import InputError
from forerun.splitting.on_wire import Loss, largest_loss, wires_of
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


def test_the_largest_loss_of_all_devices() -> None:
    said: list[dict[str, Any]] = [{"wire_errors": {"3": 0.001, "4": 0.004}}, {"wire_errors": {}}]
    assert largest_loss(said) == Loss(0.004, device=0, message=4)
    assert largest_loss([*said, {"wire_errors": {"3": 0.02}}]) == Loss(0.02, device=2, message=3)
    assert largest_loss(said[1:]) == largest_loss([{"wire_errors": {"3": 0.0}}]) == Loss()


@pytest.mark.parametrize(
    "errors",
    [
        [],
        {"3": "much"},
        {"3": True},
        {"3": -0.1},
        {"3": float("nan")},
        {"three": 0.1},
        {"3" * 11: 1},
    ],
)
def test_errors_that_are_none_are_refused(errors: object) -> None:
    with pytest.raises(InputError, match=r"device 1: wire_errors: found .*, expected a share for"):
        largest_loss([{"wire_errors": {}}, {"wire_errors": errors}])


def test_a_device_that_does_not_look_at_its_errors_is_named() -> None:
    with pytest.raises(InputError, match="device 1: found no errors of its wire"):
        largest_loss([{"wire_errors": {}}, {}])
