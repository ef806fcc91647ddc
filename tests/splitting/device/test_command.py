"""The command of a board, as a real process."""

import ast
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import small_splits
from device_beds import Bed, ended, greeted

from forerun.splitting import device
from forerun.splitting.running import Session

PROGRAM = Path(device.__file__).parent


def test_devices_that_are_started_one_by_one_answer_and_end(bed: Bed) -> None:
    processes = [bed.started(i) for i in range(2)]
    images = small_splits.samples(3)
    with Session(bed.folder, bed.addresses, bed.secret) as session:
        assert session.in_flight == 1
        for image, answer in zip(images, session.run(images), strict=True):
            whole = small_splits.answer(bed.network, image)
            for name, tensor in whole.items():
                np.testing.assert_allclose(answer.outputs[name], tensor, rtol=1e-4, atol=1e-4)
        said = session.end()
    for i, process in enumerate(processes):
        code, out, errors = ended(process)
        assert (code, errors) == (0, "")
        totals = json.loads(out)
        assert totals["samples"] == said[i]["samples"] == 3
        assert totals["sent_bytes"][str(1 - i)] == said[i]["sent_bytes"][str(1 - i)] > 0
        assert totals["memory_bytes"] > 2**20
        assert totals["seconds"] >= totals["waiting_seconds"] + totals["idle_seconds"]


def test_several_hosts_one_after_the_other(bed: Bed) -> None:
    processes = [bed.started(i, in_flight=2) for i in range(2)]
    image = small_splits.samples(1)[0]
    whole = small_splits.answer(bed.network, image)["logits"]
    for _ in range(3):
        with Session(bed.folder, bed.addresses, bed.secret) as session:
            answers = session.run([image] * 5)
            for _ in range(2):  # the rest is left unfinished
                np.testing.assert_allclose(next(answers).outputs["logits"], whole, rtol=1e-4)
    with Session(bed.folder, bed.addresses, bed.secret) as session:
        assert len(list(session.run([image] * 4))) == 4
        session.end()
    assert [ended(process)[0] for process in processes] == [0, 0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_device_that_waits(bed: Bed, number: signal.Signals) -> None:
    process = bed.started(0)
    process.send_signal(number)
    code, out, errors = ended(process)
    assert (code, errors) == (0, "")
    assert json.loads(out)["samples"] == 0


def test_a_device_ends_with_its_lifeline(bed: Bed) -> None:
    process = bed.start([*bed.command(0), "--lifeline"])
    assert process.stdout is not None
    process.stdout.readline()
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    code, out, errors = ended(process)
    assert (code, errors) == (0, "")
    assert json.loads(out)["samples"] == 0


def test_a_host_that_never_comes_is_waited_for_so_long(bed: Bed) -> None:
    code, out, errors = ended(bed.started(0, start_within=0.5))
    assert code == 2
    assert errors == "forerun device: the host has not answered for 0.5 s\n"
    assert json.loads(out)["samples"] == 0


def test_a_first_host_is_waited_for_longer_than_one_that_is_gone(bed: Bed) -> None:
    processes = [bed.started(i, **bed.held) for i in range(2)]
    bed.go()  # far more than their time-out has passed
    with Session(bed.folder, bed.addresses, bed.secret) as session:
        assert len(list(session.run(small_splits.samples(2)))) == 2
        session.end()
    assert [ended(process)[::2] for process in processes] == [(0, ""), (0, "")]


def test_devices_that_are_missing_have_time_once_the_first_host_has_come(bed: Bed) -> None:
    late = bed.started(1, **bed.held)
    bed.go()
    with greeted(bed, 1):  # device 0 is not there
        assert late.poll() is None
    bed.started(0)
    with Session(bed.folder, bed.addresses, bed.secret) as session:
        assert len(list(session.run(small_splits.samples(2)))) == 2
        session.end()
    assert ended(late)[0] == 0


def test_devices_end_when_the_host_is_gone(bed: Bed) -> None:
    processes = [bed.started(i, timeout=1, **bed.held) for i in range(2)]
    image = small_splits.samples(1)[0]
    with Session(bed.folder, bed.addresses, bed.secret) as session:
        list(session.run([image]))
    bed.go()
    for process in processes:
        code, out, errors = ended(process)
        lines = errors.splitlines()
        assert all("waiting for it" in line for line in lines[:1])
        assert code == 0, errors
        assert json.loads(out)["samples"] == 1


def test_a_device_that_is_missing_is_named(bed: Bed) -> None:
    process = bed.started(1, timeout=1, **bed.held)
    with greeted(bed, 1):
        bed.go()
        code, _, errors = ended(process)
    assert code == 2
    told = f"device 0 at {bed.addresses[0]} has not answered for 1 s: Connection refused"
    assert errors == f"forerun device: {told}\n"


def test_the_folder_works_alone(bed: Bed, tmp_path: Path) -> None:
    alone = tmp_path / "a board" / "device"
    shutil.copytree(PROGRAM, alone, ignore=shutil.ignore_patterns("__pycache__"))
    here = {"program": alone}
    processes = [bed.started(0, **here)]
    words = bed.command(1, python=(sys.executable, "-m"), program="device")
    process = subprocess.Popen(
        words,
        cwd=alone.parent,
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    bed.processes.append(process)
    assert process.stdout is not None
    assert "ready" in process.stdout.readline()
    with Session(bed.folder, bed.addresses, bed.secret) as session:
        assert len(list(session.run(small_splits.samples(2)))) == 2
        session.end()
    assert [ended(one)[0] for one in (*processes, process)] == [0, 0]


def test_the_folder_imports_nothing_else_of_ours_and_reads_as_python_3_9() -> None:
    for file in PROGRAM.glob("*.py"):
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("forerun") for alias in node.names)
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert node.module is not None
                assert not node.module.startswith("forerun")


def test_a_secret_that_others_can_read_is_refused(bed: Bed) -> None:
    bed.secret_file.chmod(0o640)
    told = bed.refused(bed.command(0))
    assert told == f"{bed.secret_file}: found mode 0640, expected 0600: others can read the secret"


def test_a_secret_that_is_no_file_is_refused(bed: Bed) -> None:
    bed.secret_file.rename(bed.folder / "kept")
    bed.secret_file.symlink_to(bed.folder / "kept")
    told = bed.refused(bed.command(0))
    assert told == f"{bed.secret_file}: found a symbolic link, expected a file"
    bed.secret_file.unlink()
    os.mkfifo(bed.secret_file, 0o600)
    assert (
        bed.refused(bed.command(0)) == f"{bed.secret_file}: found something else, expected a file"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_secret_of_somebody_else_is_refused(bed: Bed) -> None:
    os.chown(bed.secret_file, 12345, -1)
    told = bed.refused(bed.command(0))
    assert told == f"{bed.secret_file}: found a file of user 12345, expected one of 0"


def test_a_short_secret_is_refused(bed: Bed) -> None:
    bed.secret_file.write_bytes(b"short\n")
    told = bed.refused(bed.command(0))
    assert told == f"{bed.secret_file}: found 5 bytes, expected a secret of 16 at least"


def test_a_damaged_segment_is_refused(bed: Bed) -> None:
    path = bed.folder / "device-0" / "segment-002.onnx"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert bed.refused(bed.command(0)) == (
        f"{path}: damaged: its SHA-256 is not the one in package.json"
    )


def test_a_segment_with_weights_elsewhere_is_refused(bed: Bed) -> None:
    """onnxruntime would read them, wherever they are."""
    path, package = (
        bed.folder / "device-0" / name for name in ("segment-000.onnx", "package.json")
    )
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        onnx.external_data_helper.set_external_data(tensor, f"{tensor.name}.data")
        (bed.folder / "device-0" / f"{tensor.name}.data").write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
    path.write_bytes(model.SerializeToString())
    content = json.loads(package.read_text())
    content["segments"][0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    package.write_text(json.dumps(content))
    told = bed.refused(bed.command(0))
    assert told == f"{path}: found external data, expected all weights in the file itself"


def test_a_segment_that_is_not_what_the_package_says_is_refused(bed: Bed) -> None:
    path = bed.folder / "device-0" / "package.json"
    content = json.loads(path.read_text())
    content["buffers"]["p"] = [1, 6]
    content["outputs"] = content["outputs"][:1]
    content["copies"] = content["copies"][:1]
    content["receives"] = content["receives"][:1]
    path.write_text(json.dumps(content))
    told = bed.refused(bed.command(0))
    assert told.endswith("outputs: logits: found tensor(float) [1, 5], expected float32 of [1, 6]")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--device-at", "2=127.0.0.1:7000"], "--device-at 2=127.0.0.1:7000: expected a number"),
        (["--device-at", "0=nowhere"], "nowhere: found no address, expected one such as"),
        (["--listen", "192.0.2.1:7000"], "192.0.2.1:7000: Cannot assign requested address"),
        (["--device-at", "0=0.0.0.0:7000"], "0.0.0.0:7000: found all addresses of this machine"),
        (["--inputs", "/nowhere.npy"], "/nowhere.npy: "),
        (["--socket", "77"], "--socket 77: "),
    ],
)
def test_what_is_wrong_with_the_words_is_told(bed: Bed, words: list[str], told: str) -> None:
    assert bed.refused([*bed.command(0), *words]).startswith(told)


def test_addresses_that_are_needed_are_asked_for(bed: Bed) -> None:
    bed.addresses = bed.addresses[:1]
    told = bed.refused([*bed.command(1)])
    assert told == "--device-at: device 1 is missing, which this one is"


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 2, 6, 5)),  # float64
        np.zeros((0, 2, 6, 5), np.float32),
        np.zeros((2, 2, 6, 4), np.float32),
        np.zeros((2, 2, 3, 5), np.float32),
        np.zeros((2, 60), np.float32),
        np.array(1, np.float32),
    ],
)
def test_samples_of_another_kind_are_refused(bed: Bed, array: Any) -> None:
    path = bed.folder / "samples.npy"
    np.save(path, array)
    told = bed.refused(bed.command(0, inputs=path))
    assert told.startswith(f"{path}: found {array.dtype} of {list(array.shape)}, expected float32")


def test_samples_are_never_unpickled(bed: Bed) -> None:
    path = bed.folder / "samples.npy"
    np.save(path, np.array([{}], object), allow_pickle=True)
    assert bed.refused(bed.command(0, inputs=path)).startswith(f"{path}: ")


@pytest.mark.parametrize(
    "content",
    [b"", b"\x93NUMPY\x01\x00\x06\x00{'a':\n", b"\x93NUMPY\x01\x00\x04\x00((((", b"PK\x03\x04"],
)
def test_a_file_that_holds_no_array_is_one_line(bed: Bed, content: bytes) -> None:
    path = bed.folder / "samples.npy"
    path.write_bytes(content)
    assert bed.refused(bed.command(0, inputs=path)).startswith(f"{path}: ")


def test_an_archive_of_arrays_is_none(bed: Bed) -> None:
    path = bed.folder / "samples.npz"
    np.savez(path, image=np.zeros((2, 2, 6, 5), np.float32))
    assert bed.refused(bed.command(0, inputs=path)).startswith(f"{path}: ")


def test_a_device_may_listen_everywhere_if_told_so(bed: Bed) -> None:
    for i, place in enumerate(bed.addresses):
        port = place.rpartition(":")[2]
        process = bed.start([*bed.command(i), "--listen", f"0.0.0.0:{port}"])
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ready"]["address"] == f"0.0.0.0:{port}"
    with Session(bed.folder, bed.addresses, bed.secret) as session:
        assert len(list(session.run(small_splits.samples(2)))) == 2


def test_strangers_do_not_disturb_a_device_at_work(bed: Bed) -> None:
    processes = [bed.started(i) for i in range(2)]
    port = int(bed.addresses[0].rpartition(":")[2])
    images = small_splits.samples(12)
    strangers = []
    with Session(bed.folder, bed.addresses, bed.secret) as session:
        for answer in session.run(images):
            stranger = socket.create_connection(("127.0.0.1", port))
            stranger.setblocking(False)
            with suppress(BlockingIOError, ConnectionError):
                stranger.send(b"\xff" * (answer.sample * 100_000))
            strangers.append(stranger)
        assert answer.sample == 11
        memory = [one["memory_bytes"] for one in session.end()]
    assert abs(memory[0] - memory[1]) < 8 * 2**20
    assert [ended(process)[0] for process in processes] == [0, 0]
    for stranger in strangers:
        stranger.close()


def test_who_has_the_secret_but_sends_nonsense_is_named(bed: Bed) -> None:
    process = bed.started(0)
    with greeted(bed, 0) as connection:
        connection.sendall(b"\xff" * 10**5)
        code, out, errors = ended(process)
    assert code == 2
    assert errors == "forerun device: the host sends something that is no frame\n"
    assert json.loads(out)["memory_bytes"] < 2**27


def test_a_trace_says_when_everything_happened(bed: Bed) -> None:
    traces = [bed.folder / f"trace-{i}" for i in range(2)]
    processes = [bed.started(i, trace=traces[i]) for i in range(2)]
    with Session(bed.folder, bed.addresses, bed.secret) as session:
        list(session.run(small_splits.samples(2)))
        session.end()
    for process in processes:
        assert ended(process)[0] == 0
    events = [json.loads(line) for line in traces[0].read_text().splitlines()]
    segments = [(one["sample"], one["segment"]) for one in events if "segment" in one]
    assert segments == [(i, f"segment-00{j}.onnx") for i in range(2) for j in range(3)]
    assert all(one["begin"] <= one["end"] for one in events if "segment" in one)
    assert {one["received"] for one in events if one.get("from") == 1} == {2, 100}
    (first, second) = [one for one in events if one.get("to") == 1]
    assert (first["sent"], first["bytes"], first["sample"]) == (3, 80, 0)
    assert second["at"] > first["at"]


def test_a_paced_device_takes_its_time_and_answers_the_same(bed: Bed) -> None:
    processes = [bed.started(i, speed=0.2) for i in range(2)]
    images = small_splits.samples(2)
    start = time.monotonic()
    with Session(bed.folder, bed.addresses, bed.secret) as session:
        answers = list(session.run(images))
        totals = session.end()
    taken = time.monotonic() - start
    whole = small_splits.answer(bed.network, images[1])["y"]
    np.testing.assert_allclose(answers[1].outputs["y"], whole, rtol=1e-4, atol=1e-4)
    for one in totals:
        assert one["paced_seconds"] == pytest.approx(5 * one["computing_seconds"])
        assert one["paced_seconds"] < taken + 1
    assert [ended(process)[0] for process in processes] == [0, 0]


def test_nothing_is_listened_to_but_the_stated_address(bed: Bed) -> None:
    process = bed.started(0)
    port = int(bed.addresses[0].rpartition(":")[2])
    listening = [
        line.split()[1]
        for line in Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    ]
    assert listening == [f"0100007F:{port:04X}"]
