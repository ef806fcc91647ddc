import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import small_splits

from forerun.splitting.device.computing import Computing
from forerun.splitting.device.faults import DeviceError
from forerun.splitting.device.program import Box, Program
from forerun.splitting.device.reading import checked_file, open_checked, read_program


@pytest.fixture
def package(tmp_path: Path) -> Path:
    small_splits.rows(tmp_path, 2)
    return tmp_path / "device-0"


def changed(package: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    path = package / "package.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return package


def refusal(package: Path) -> str:
    with pytest.raises(DeviceError) as refused:
        read_program(package)
    text = str(refused.value)
    assert "\n" not in text
    assert text.startswith(f"{package / 'package.json'}: ")
    return text.removeprefix(f"{package / 'package.json'}: ")


def test_a_package_is_read_as_it_was_written(package: Path) -> None:
    program = read_program(package)
    assert (program.device, program.devices, program.split) == (0, 2, "ab" * 32)
    assert program.peers == (1,)
    assert program.buffers["b"] == ((1, 4, 4, 5), 4, 4, 5)
    assert program.buffers["p"] == ((1, 5), 5, 1, 1)
    assert [one.file for one in program.segments] == [f"segment-00{i}.onnx" for i in range(3)]
    assert program.sends[0].parts == (("a", Box(0, 4, 1, 2, 3), False),)
    assert [(one.name, one.add) for one in program.outputs] == [
        ("y", False),
        ("logits", True),
        ("total", False),
    ]


def test_channels_with_a_step_are_counted() -> None:
    assert Box(1, 8, 3, 0, 4).channels == 3
    assert Box(0, 4, 1, 1, 4).rows == 3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c.update(format=2), "format: found 2, expected 1: made by another forerun"),
        (lambda c: c.update(device=2), "device: found 2, expected a whole number from 0 to 1"),
        (lambda c: c.update(device=True), "device: found True, expected a whole number"),
        (lambda c: c.update(split="ab"), "split: found ab, expected 64 hexadecimal digits"),
        (lambda c: c.update(name="a\nb"), "name: found a\\nb, expected a text of one line"),
        (lambda c: c.pop("segments"), "segments: found None, expected a list of tables"),
        (lambda c: c["buffers"].update(z=[2, 3]), "buffers: z: found [2, 3], expected [1, "),
        (lambda c: c["buffers"].update(z=[1, 0]), "buffers: z: found [1, 0], expected [1, "),
        (lambda c: c["buffers"].update(z=[1, 2**20, 2**20]), "buffers: z: found [1, 1048576, "),
        (lambda c: c["copies"][0].update({"from": "q"}), "from: found q, expected a buffer of"),
        (
            lambda c: c["copies"][0].update(from_box=[[0, 4, 1], [0, 9]]),
            "from_box: found [[0, 4, 1], [0, 9]], expected a part of buffer a",
        ),
        (
            lambda c: c["copies"][0].update(to_box=[[0, 4, 1], [0, 1]]),
            "copies: to_box: found [[0, 4, 1], [0, 1]], expected a box of the size of from_box",
        ),
        (lambda c: c["copies"][0].update(add=1), "add: found 1, expected true or false"),
        (
            lambda c: c["sends"][0]["parts"][0].update(box=[[0, 4, 0], [0, 1]]),
            "box: found [[0, 4, 0], [0, 1]], expected [[channel, stop, step], [row, stop]]",
        ),
        (lambda c: c["sends"][0].update(to=0), "sends: to: found 0, expected another device"),
        (lambda c: c["sends"][0].update(to=2), "to: found 2, expected a whole number from 0 to 1"),
        (lambda c: c["sends"][0].update(message=2**32), "message: found 4294967296, expected a"),
        (lambda c: c["sends"][0].update(parts=[]), "sends: message 3: found no parts, expected"),
        (lambda c: c["sends"].append(c["sends"][0]), "sends: found a message twice, expected one"),
        (
            lambda c: c["inputs"][0].update(box_of_network_input=[[0, 2, 1], [0, 2]]),
            "box_of_network_input: found [[0, 2, 1], [0, 2]], expected a box of the size of buffer",
        ),
        (
            lambda c: c["copies"].pop(0) and c["receives"].pop(0),
            "buffers: b: found nothing that writes it, expected a segment, or parts",
        ),
        (
            lambda c: c["copies"][0].update(add=True),
            "buffers: found parts that are added and such that are not, expected one of the two",
        ),
        (
            lambda c: c["inputs"][0].update(buffer="a", box_of_network_input=[[0, 4, 1], [0, 3]]),
            "buffers: found several that write the same one, expected one segment, or parts",
        ),
        (
            lambda c: c["segments"][0]["inputs"].update(x="b"),
            "buffers: a, b: found parts that wait for themselves, expected an order of work",
        ),
        (
            lambda c: c["segments"][1]["inputs"].update(b="y"),
            "buffers: y: found parts that wait for themselves, expected an order of work",
        ),
    ],
)
def test_what_is_wrong_with_a_package_is_told_in_one_line(
    package: Path, change: Callable[[dict[str, Any]], object], told: str
) -> None:
    assert refusal(changed(package, change)).startswith(told)


@pytest.mark.parametrize(
    "file", ["../segment-000.onnx", "/etc/passwd", "a/b.onnx", "", ".hidden", "a" * 200]
)
def test_a_file_outside_the_package_is_refused(package: Path, file: str) -> None:
    told = refusal(changed(package, lambda c: c["segments"][0].update(file=file)))
    assert told.startswith("segments: file: found ")
    assert told.endswith("expected the name of a file in the package's own folder")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_package_is_refused(package: Path, content: bytes) -> None:
    (package / "package.json").write_bytes(content)
    assert refusal(package).startswith(("not JSON", "not a package"))


def test_a_folder_without_a_package_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "No such file or directory"


def test_a_damaged_segment_is_told(package: Path) -> None:
    program = read_program(package)
    path = package / "segment-001.onnx"
    assert checked_file(program, program.segments[1]) == path
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(DeviceError, match=r"segment-001\.onnx: damaged: its SHA-256 is not"):
        checked_file(program, program.segments[1])


def test_a_link_in_a_package_is_not_followed(package: Path, tmp_path: Path) -> None:
    program = read_program(package)
    path = package / "segment-001.onnx"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DeviceError, match="not there as a file of the package"):
        checked_file(program, program.segments[1])


def test_a_file_that_is_replaced_once_it_was_checked_is_loaded_as_it_was(package: Path) -> None:
    program = read_program(package)
    path = package / "segment-001.onnx"
    content = path.read_bytes()
    # Systems differ in whether the file that gave way has changed thereby.
    with suppress(DeviceError), open_checked(program, program.segments[1]) as name:
        (package / "segment-000.onnx").replace(path)
        loaded = Path(name).read_bytes()
    assert loaded == content != path.read_bytes()


@pytest.mark.parametrize("piece", [b"", b"?"])
def test_a_file_that_is_changed_while_it_is_loaded_is_refused(
    package: Path, monkeypatch: pytest.MonkeyPatch, piece: bytes
) -> None:
    """Whether onnxruntime notices it or not."""
    program = read_program(package)
    path = package / program.segments[0].file
    content = path.read_bytes()
    os.utime(path, (0, 0))  # clocks of files may be coarse
    load = onnxruntime.InferenceSession

    def late(name: str, *given: Any, **more: Any) -> Any:
        path.write_bytes(piece + content)
        return load(name, *given, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", late)
    with pytest.raises(DeviceError) as refused:
        Computing(program, program.segments[0], 1)
    assert str(refused.value) == (
        f"{path}: it was changed while it was loaded: start the device again"
    )


def test_a_pipe_in_a_package_is_not_waited_for(package: Path) -> None:
    program = read_program(package)
    path = package / "segment-001.onnx"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DeviceError, match="not there as a file of the package"):
        checked_file(program, program.segments[1])


def with_segment(package: Path, content: bytes) -> Program:
    """The program of a package whose second segment is this."""
    (package / "segment-001.onnx").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return read_program(changed(package, lambda c: c["segments"][1].update(sha256=digest)))


def test_a_segment_with_weights_elsewhere_is_refused(package: Path) -> None:
    path = package / "segment-001.onnx"
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        onnx.external_data_helper.set_external_data(tensor, "../../outside")
        tensor.ClearField("raw_data")
    program = with_segment(package, model.SerializeToString())
    with pytest.raises(DeviceError) as refused:
        checked_file(program, program.segments[1])
    assert str(refused.value) == (
        f"{path}: found external data, expected all weights in the file itself"
    )


@pytest.mark.parametrize("content", [b"", b"\x3a\x05abc", b"<!DOCTYPE html>"])
def test_a_segment_that_is_no_onnx_file_is_refused(package: Path, content: bytes) -> None:
    program = with_segment(package, content)
    with pytest.raises(DeviceError, match=r"segment-001\.onnx: no ONNX file: "):
        checked_file(program, program.segments[1])
