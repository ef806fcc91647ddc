"""A package goes to a board by a real ssh, and runs there."""

import getpass
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import small_splits
from conftest import program
from device_beds import free_ports, patient
from patience import LONG, wait_for

from forerun.errors import InputError
from forerun.splitting.push import push
from forerun.splitting.running import Session, device_command, new_secret


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boards, and the way to them, may take long."""
    patient(monkeypatch)
    monkeypatch.setattr("forerun.splitting.push._CONNECTING", round(LONG))


class Board(NamedTuple):
    """A real sshd on loopback, which knows one key."""

    config: Path  # for ssh: the key, and the host's
    port: int
    folder: Path


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    sshd, keygen = program("sshd"), program("ssh-keygen")
    place = tmp_path / "sshd"
    place.mkdir()
    for name in ("host", "user"):
        words = [keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)]
        subprocess.run(words, check=True)
    (port,) = free_ports(1)
    public = (place / "host.pub").read_text().split()[:2]
    (place / "known").write_text(f"[127.0.0.1]:{port} {' '.join(public)}\n")
    (place / "allowed").write_bytes((place / "user.pub").read_bytes())
    server = {
        "ListenAddress": "127.0.0.1",
        "Port": port,
        "HostKey": place / "host",
        "AuthorizedKeysFile": place / "allowed",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        "StrictModes": "no",
        "PidFile": "none",
        "UsePAM": "no",
    }
    (place / "sshd_config").write_text("".join(f"{a} {b}\n" for a, b in server.items()))
    client = {
        "IdentityFile": place / "user",
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": place / "known",
    }
    (place / "ssh_config").write_text("".join(f"{a} {b}\n" for a, b in client.items()))
    Path("/run/sshd").mkdir(exist_ok=True)  # where sshd leaves its privileges behind
    with (place / "log").open("w") as log:
        words = [sshd, "-D", "-e", "-f", str(place / "sshd_config")]
        running = subprocess.Popen(words, stderr=log)
    started = "Server listening"
    wait_for(lambda: started in (place / "log").read_text() or running.poll() is not None)
    assert running.poll() is None, (place / "log").read_text()
    yield Board(place / "ssh_config", port, tmp_path / "on-the-board")
    running.terminate()
    running.wait()


def test_a_split_is_pushed_and_answers(board: Board, tmp_path: Path) -> None:
    network = small_splits.rows(tmp_path / "split", 2)
    secret = new_secret(tmp_path / "secret")
    target = f"{getpass.getuser()}@127.0.0.1:{board.folder}"
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    ssh = [program("ssh"), "-F", str(board.config), "-p", str(board.port), "127.0.0.1"]
    processes = []
    try:
        for i in range(2):
            pushed = push(
                tmp_path / "split" / f"device-{i}",
                target,
                port=board.port,
                config=board.config,
                secret=tmp_path / "secret",
            )
            assert pushed.secret is not None
            words = device_command(
                pushed.package,
                addresses,
                pushed.secret,
                python=[sys.executable],
                program=pushed.program,
                timeout=LONG,
            )
            # The lifeline goes through ssh: the device ends with the connection.
            process = subprocess.Popen(
                [*ssh, *words, "--lifeline"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            processes.append(process)
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["ready"]["device"] == i
        image = small_splits.samples(1)[0]
        with Session(tmp_path / "split", addresses, secret) as session:
            (answer,) = session.run([image])
            whole = small_splits.answer(network, image)["logits"]
            np.testing.assert_allclose(answer.outputs["logits"], whole, rtol=1e-4, atol=1e-5)
        found = {path.name for path in board.folder.iterdir()}
        assert found == {"device", "device-0", "device-1", "secret"}
    finally:
        for process in processes:
            process.communicate()  # closes their lifelines
    assert [process.returncode for process in processes] == [0, 0]


def test_a_board_that_does_not_know_us_is_told(board: Board, tmp_path: Path) -> None:
    small_splits.rows(tmp_path / "split", 2)
    (board.config.parent / "allowed").write_text("")
    target = f"127.0.0.1:{board.folder}"
    with pytest.raises(InputError, match=r"Permission denied \(publickey\)"):
        push(tmp_path / "split" / "device-0", target, port=board.port, config=board.config)
    (board.config.parent / "known").write_text("")
    with pytest.raises(InputError, match=r"Host key verification failed"):
        push(tmp_path / "split" / "device-0", target, port=board.port, config=board.config)
