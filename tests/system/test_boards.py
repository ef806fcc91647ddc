"""Weak boards in network namespaces: slow links, lost frames, little memory, and right answers."""

import os
import select
import shutil
import socket
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from boards import Boards, boards, end, triangle
from calibrate_boards import calibrate
from device_beds import patient
from hosts import MEMORY, NAMESPACES, PREFIX
from onnx_networks import Network
from patience import LONG
from split_devices import Devices, devices
from split_prepared import Prepared

from forerun.splitting.cut import cut
from forerun.splitting.graph import Graph
from forerun.splitting.layout import layout

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0
    or not (MEMORY / "memory.limit_in_bytes").exists()
    or not all(map(shutil.which, ("ip", "tc", "nsenter", "iptables", "setpriv", "chrt"))),
    reason="boards need root, iproute2, iptables, util-linux and control groups of version 1",
)
SIZE = 24
SPEED = 0.5


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boards, and what runs on them, may take long."""
    patient(monkeypatch)
    for name in ("boards.ENDING", "hosts.PATIENCE", "split_devices.STARTING"):
        monkeypatch.setattr(name, LONG)
    monkeypatch.setattr("split_devices.TIMEOUT", LONG)


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    """A small network cut by rows for two boards."""
    network = Network(3, SIZE)
    x = network.block(network.conv("image", 3, 16), 16)
    path = tmp_path / "network.onnx"
    onnx.save(network.model(x, 16), path)
    graph = Graph.load(path)
    cut(graph, layout(graph, "rows", (1.0, 1.0)), tmp_path / "split", name="small")
    images = np.random.default_rng(0).standard_normal((4, 3, SIZE, SIZE)).astype(np.float32)
    np.save(tmp_path / "inputs.npy", images)
    return Prepared(path, tmp_path / "split", tmp_path / "inputs.npy")


def right(prepared: Prepared) -> np.ndarray:
    session = onnxruntime.InferenceSession(prepared.network, providers=["CPUExecutionProvider"])
    images = np.load(prepared.inputs)
    return np.stack([session.run(None, {"image": image[None]})[0] for image in images])


def halo(prepared: Prepared) -> int:
    """Bytes that the first device sends to the other for a sample, by its package."""
    (first, _) = prepared.descriptions()
    parts = [
        (part["box"], first["buffers"][part["buffer"]])
        for message in first["sends"]
        for part in message["parts"]
    ]
    return sum(
        4 * len(range(*box[0])) * (box[1][1] - box[1][0]) * (shape[3] if len(shape) > 2 else 1)
        for box, shape in parts
    )


def test_two_boards_answer_as_one_process(prepared: Prepared, tmp_path: Path) -> None:
    with boards(2) as made:
        made.limit_links(100)
        with devices(made, prepared, tmp_path, in_flight=3, speed=SPEED) as both:
            found = both.ask(8)
            busy = both.ask(12, in_flight=3)
            sent = both.send(np.load(prepared.inputs))
    for asked, count in ((found, 8), (busy, 12), (sent, 4)):
        assert len(asked.outputs) == count
        assert asked.error(right(prepared)) < 1e-5
    assert found.rows == [0, 1, 2, 3, 0, 1, 2, 3]
    # Besides the rows themselves a message has a head, and greetings come before.
    assert halo(prepared) < found.bytes_a_sample("sent_bytes")[0] < 1.3 * halo(prepared)
    assert 0 < found.waiting < 1


def test_answers_are_right_on_weak_links(prepared: Prepared, tmp_path: Path) -> None:
    with boards(2) as made:
        made.limit_links(100)
        with devices(made, prepared, tmp_path, in_flight=3, speed=SPEED) as both:
            with made.losing(0.03), made.swinging(triangle(10, 100, 0.5)):
                found = both.ask(40, in_flight=3)
            assert found.error(right(prepared)) < 1e-5
            assert both.ask(2).error(right(prepared)) < 1e-5  # when all is well again


def test_frames_are_lost_and_only_meanwhile() -> None:
    with boards(1) as made:
        with made.losing(0.5):
            assert 50 < arrived(made, 200) < 150
        assert arrived(made, 200) == 200


def arrived(made: Boards, count: int) -> int:
    """How many of so many datagrams come to the first board from the asking program."""
    with made.asking():
        sender = socket.socket(type=socket.SOCK_DGRAM)
    source = f"import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout({LONG})\n"
    source += f"s.bind(('{made.address(0)}', 5000)); print('{{}}', flush=True); n = 0\n"
    source += "while s.recv(10) != b'end': n += 1\nprint(n)"
    program = made.start(0, [sys.executable, "-c", source], Path(os.devnull))
    assert program.stdout is not None
    assert program.stdout.readline() == "{}\n"
    with sender:
        for _ in range(count):
            sender.sendto(b"x", (made.address(0), 5000))
        while not select.select([program.stdout], [], [], 0.1)[0]:  # of these too some are lost
            sender.sendto(b"end", (made.address(0), 5000))
    found = int(program.stdout.readline())
    program.stdout.close()
    end(program)
    return found


def test_a_board_has_no_more_memory_than_it_has() -> None:
    with boards(1) as made:
        greedy = [sys.executable, "-c", "print(len(bytearray(100_000_000)))"]
        for limit, output, killed in ((64_000_000, "", 1), (None, "100000000\n", 1)):
            made.limit_memory(limit)
            program = made.start(0, greedy, Path(os.devnull))
            assert program.communicate(timeout=LONG)[0] == output
            assert made.killed_for_memory(0) == killed


def test_boards_are_no_faster_than_they_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    # What had come before the clock was started is little of that.
    monkeypatch.setattr("calibrate_boards.SENDING", 3.0)
    with boards(2) as made:
        found = calibrate(made, 0.1, 100)
    assert len(found) == 4
    for check in found:  # on a busy machine they may be slower
        assert check.measured_ms > 0.95 * check.expected_ms


def test_nothing_is_left_behind(prepared: Prepared, tmp_path: Path) -> None:
    with boards(2) as made, devices(made, prepared, tmp_path) as both:
        assert isinstance(both, Devices)
        pattern = f"{PREFIX}{os.getpid()}-*"
        assert len(list(MEMORY.glob(pattern))) == 3  # one is the asking program's
        affinity = os.sched_getaffinity(0)
    assert not list(MEMORY.glob(pattern))
    assert not list(NAMESPACES.glob(pattern))
    assert affinity <= os.sched_getaffinity(0)
