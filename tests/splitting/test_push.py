"""Packages go to boards by ssh; here another program of that name unpacks them."""

import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import small_splits
from device_beds import free_ports
from patience import LONG

from forerun.errors import InputError
from forerun.splitting.push import Pushed, Target, push
from forerun.splitting.running import Session, device_command, new_secret

pytestmark = pytest.mark.usefixtures("patient_devices")

# Keeps its words, and does on this machine what the board's shell would.
SSH = """#!/bin/sh
printf '%s\\n' "$@" >"$BOARD/words"
for last; do :; done
cd "$BOARD" && exec sh -c "$last"
"""


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs, place = tmp_path / "bin", tmp_path / "board"
    for folder in (programs, place):
        folder.mkdir()
    (programs / "ssh").write_text(SSH)
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("BOARD", str(place))
    return place


@pytest.fixture
def split(tmp_path: Path) -> Path:
    small_splits.rows(tmp_path / "split", 2)
    return tmp_path / "split"


def test_a_package_and_what_runs_it_arrive(board: Path, split: Path) -> None:
    pushed = push(split / "device-1", "user@board:some/place", port=2222)
    assert pushed == Pushed("some/place", "some/place/device", "some/place/device-1", None)
    words = (board / "words").read_text().splitlines()
    assert words[-3:-1] == ["--", "user@board"]
    assert words[-1].startswith("umask 077 && mkdir -p some/place && if test -O some/place && ")
    assert "; then tar -x -f - -C some/place; else " in words[-1]
    assert words[words.index("-p") + 1] == "2222"
    assert "BatchMode=yes" in words
    for file in (split / "device-1").iterdir():
        assert (board / pushed.package / file.name).read_bytes() == file.read_bytes()
    assert (board / pushed.program / "__main__.py").is_file()
    assert not list((board / pushed.program).glob("__pycache__"))


def test_what_was_pushed_runs(board: Path, split: Path, tmp_path: Path) -> None:
    secret = new_secret(tmp_path / "secret")
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = []
    try:
        for i in range(2):
            pushed = push(split / f"device-{i}", "board:", secret=tmp_path / "secret")
            assert pushed.folder == "forerun"
            assert pushed.secret is not None
            assert stat.S_IMODE((board / pushed.secret).stat().st_mode) == 0o600
            words = device_command(
                pushed.package,
                addresses,
                pushed.secret,
                python=[sys.executable],
                program=pushed.program,
                timeout=LONG,
            )
            process = subprocess.Popen(words, cwd=board, stdout=subprocess.PIPE, text=True)
            processes.append(process)
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["ready"]["device"] == i
        with Session(split, addresses, secret) as session:
            assert len(list(session.run(small_splits.samples(2)))) == 2
            session.end()
        assert [process.wait(LONG) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_pushing_again_replaces_what_is_there(board: Path, split: Path) -> None:
    pushed = push(split / "device-0", "board:")
    (board / pushed.package / "package.json").write_text("old")
    push(split / "device-0", "board:")
    assert (board / pushed.package / "package.json").read_text().startswith('{"format"')


def test_the_folder_on_the_board_is_the_users_alone(
    board: Path, split: Path, tmp_path: Path
) -> None:
    push(split / "device-0", "board:nets")
    assert stat.S_IMODE((board / "nets").stat().st_mode) == 0o700
    told = "board:nets: nets: found a link, or what others have or may change, expected mode 0700"
    for mode in (0o770, 0o702):
        (board / "nets").chmod(mode)
        with pytest.raises(InputError, match=f"^{told}$"):
            push(split / "device-0", "board:nets")
    (board / "nets").chmod(0o755)
    push(split / "device-0", "board:nets")
    (board / "nets").rename(tmp_path / "elsewhere")
    (board / "nets").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=f"^{told}$"):
        push(split / "device-0", "board:nets")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_folder_of_somebody_else_is_refused(board: Path, split: Path) -> None:
    (board / "forerun").mkdir(mode=0o700)
    os.chown(board / "forerun", 12345, -1)
    with pytest.raises(InputError, match="found a link, or what others have or may change"):
        push(split / "device-0", "board:")
    assert list((board / "forerun").iterdir()) == []


def test_a_package_with_weights_elsewhere_does_not_go(board: Path, split: Path) -> None:
    segment, package = (split / "device-0" / name for name in ("segment-001.onnx", "package.json"))
    model = onnx.load(segment)
    onnx.external_data_helper.set_external_data(model.graph.initializer[0], "/etc/passwd")
    segment.write_bytes(model.SerializeToString())
    content = json.loads(package.read_text())
    content["segments"][1]["sha256"] = hashlib.sha256(segment.read_bytes()).hexdigest()
    package.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"segment-001\.onnx: found external data, expected all"):
        push(split / "device-0", "board:")
    assert list(board.iterdir()) == []


def test_what_the_board_says_is_told(board: Path, split: Path, tmp_path: Path) -> None:
    (board / "forerun").write_text("a file")
    with pytest.raises(InputError, match=r"^board:: mkdir: .*File exists"):
        push(split / "device-0", "board:")
    (tmp_path / "bin" / "ssh").write_text("#!/bin/sh\necho 'No route to host' >&2\nexit 255\n")
    with pytest.raises(InputError, match=r"^board:x: No route to host"):
        push(split / "device-0", "board:x")


def test_a_damaged_package_does_not_go(board: Path, split: Path) -> None:
    (split / "device-0" / "segment-001.onnx").write_bytes(b"")
    with pytest.raises(InputError, match=r"segment-001\.onnx: damaged"):
        push(split / "device-0", "board:")
    assert list(board.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "host", "folder"),
    [
        ("board:", "board", "forerun"),
        ("pi@board-1.local:nets/a", "pi@board-1.local", "nets/a"),
        ("pi@10.0.0.1:/opt/nets/", "pi@10.0.0.1", "/opt/nets"),
        ("pi@[fe80::1]:~/nets", "pi@fe80::1", "nets"),
    ],
)
def test_targets_are_read(text: str, host: str, folder: str) -> None:
    assert Target.of(text) == (host, folder)


@pytest.mark.parametrize(
    "text",
    [
        "board",
        "-oProxyCommand=x:",
        "board:-rf",
        "board:a b",
        "board:$(reboot)",
        "board:a;reboot",
        "board:a\nreboot",
        "board:../other",
        "board:a/../../b",
        "board:'a'",
        "a b@board:",
        "@board:",
        "user@:x",
        "board:a`b`",
    ],
)
def test_targets_that_a_shell_might_misread_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected user@board:folder"):
        Target.of(text)


@pytest.mark.usefixtures("board")
def test_a_port_that_is_none_is_refused(split: Path) -> None:
    with pytest.raises(InputError, match="port: found 0, expected 1 to 65535"):
        push(split / "device-0", "board:", port=0)
