"""Devices elsewhere: here processes of this machine that somebody else has started."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from device_beds import BOARDS, free_ports
from patience import LONG

from forerun.splitting.running import new_secret
from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun


SPARE = """
  spare: {{count: 1, processors: {{microarchitecture: cortex_a72, cores: 4}}, memory: 1 GiB,
          link: {{bandwidth: 100 Mbit/s}}}}
"""
WITH_SPARE = BOARDS.replace("boards:", f"boards:{SPARE}", 1)  # whose first board is not asked for


@contextmanager
def waiting(split: Path, folder: Path, *options: str) -> Iterator[tuple[object, ...]]:
    """Two devices that wait; the options of those who ask them."""
    folder.mkdir(exist_ok=True)
    new_secret(folder / "secret")
    places = [f"127.0.0.1:{port}" for port in free_ports(2)]
    (folder / "boards.yaml").write_text(WITH_SPARE.format(*places))
    at = [word for n, place in enumerate(places) for word in ("--at", f"{n}={place}")]
    secret = ["--secret-file", str(folder / "secret")]
    device = [sys.executable, "-m", "forerun", "split", "device", "--timeout", str(LONG)]
    started = [
        subprocess.Popen(
            [*device, str(split / f"device-{n}"), *at, *secret, *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(2)
    ]
    try:
        for n, one in enumerate(started):
            assert one.stdout is not None
            assert json.loads(one.stdout.readline())["ready"]["device"] == n
        yield "--on", folder / "boards.yaml", "--boards", "fast,slow", *secret
    finally:
        for one in started:
            one.terminate()
        ends = [json.loads(one.communicate()[0].splitlines()[-1]) for one in started]
    assert [one.returncode for one in started] == [0, 0]
    assert all(end["samples"] > 0 for end in ends)


def test_boards_that_wait_get_samples(
    forerun: Forerun, halves: Path, cnn: Path, digits: Path, tmp_path: Path
) -> None:
    with waiting(halves, tmp_path, "--in-flight", "2") as on:
        done = forerun("split", "run", halves, *on, "--input", digits, "--against", cnn, "--json")
        assert done.document["agreement"]["same_class"] == 6
        timed = forerun("split", "bench", halves, *on, "--samples", 4, "--json")
        assert timed.code == 0, timed.err
        (setting,) = timed.document["settings"]
        assert (setting["where"], setting["in_flight"]) == ("boards", 2)


def test_boards_say_what_their_wire_loses_if_they_were_told_to(
    forerun: Forerun, halves: Path, digits: Path, tmp_path: Path
) -> None:
    words = ("split", "run", halves, "--input", digits, "--report-error", "--json")
    with waiting(halves, tmp_path / "told", "--wire", "float16", "--report-error") as on:
        assert forerun(*words, *on).document["wire_error"]["difference"] > 0
    with waiting(halves, tmp_path / "not", "--wire", "float16") as on:
        refused = forerun(*words, *on)  # before anything is computed
        assert forerun("split", "run", halves, "--input", digits, "--json", *on).code == 0
    assert (refused.code, refused.out) == (2, "")
    (line,) = refused.errors
    said = (
        "device 0: found no errors of its wire, expected one that was started with --report-error"
    )
    assert line.endswith(said)


def test_what_boards_have_on_the_wire_is_stored(
    forerun: Forerun, halves: Path, tmp_path: Path
) -> None:
    study = tmp_path / "splits.db"
    with waiting(halves, tmp_path, "--wire", "float16") as on:
        words = ("split", "bench", halves, *on, "--samples", 2, "-o", study)
        refused = forerun(*words, "--wire", "float32")
        assert (refused.code, refused.out) == (2, "")
        (line,) = refused.errors
        assert line.endswith("--wire: found float32, expected float16, as the devices were started")
        assert len(Study.open(study)) == 0
        assert forerun(*words).code == 0
        assert forerun(*words, "--wire", "float16").code == 0
    assert [run.point["wire"] for run in Study.open(study).runs("ok")] == ["float16"] * 4


def test_a_device_whose_package_is_wrong_says_so(forerun: Forerun, tmp_path: Path) -> None:
    new_secret(tmp_path / "secret")
    words = ("--at", "0=127.0.0.1:1", "--secret-file", tmp_path / "secret")
    done = forerun("split", "device", tmp_path, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "package.json" in done.err


def test_a_device_waits_for_its_first_host_as_long_as_it_is_told(
    halves: Path, tmp_path: Path
) -> None:
    new_secret(tmp_path / "secret")
    (port,) = free_ports(1)
    words = ["--at", f"0=127.0.0.1:{port}", "--secret-file", str(tmp_path / "secret")]
    words += ["--start-within", "0.5", "--timeout", str(LONG)]
    device = [sys.executable, "-m", "forerun", "split", "device", str(halves / "device-0")]
    done = subprocess.run([*device, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "forerun device: the host has not answered for 0.5 s\n"


def test_push_brings_each_board_its_package(
    forerun: Forerun,
    halves: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    described: Described,
) -> None:
    """A stand-in for ssh: what it is asked to run on a board is run in a folder of that name."""
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(
        f"#!/bin/sh\nwhile [ $1 != -- ]; do shift; done\n"
        f'mkdir -p {tmp_path}/$2 && cd {tmp_path}/$2 && sh -c "$3"\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:/usr/bin:/bin")
    (tmp_path / "boards.yaml").write_text(BOARDS.format("10.0.0.2", "10.0.0.3:7000"))
    done = forerun("split", "push", halves, "--on", tmp_path / "boards.yaml", "--json")
    assert done.code == 0, done.err
    assert set(done.document) == described("split push")
    assert done.err == f"a new secret for the devices: {halves}.secret\n"
    for n, (host, row) in enumerate(zip(("2", "3"), done.document["boards"], strict=True)):
        there = tmp_path / f"10.0.0.{host}" / "forerun"
        assert (there / f"device-{n}" / "package.json").is_file()
        assert (there / "device" / "__main__.py").is_file()
        assert (there / "secret").read_bytes() == Path(f"{halves}.secret").read_bytes()
        assert (there / "secret").stat().st_mode & 0o777 == 0o600
        words = shlex.split(row["start"])
        assert words[:3] == ["python3", "forerun/device", f"forerun/device-{n}"]
        assert "0=10.0.0.2:7100" in words
        assert "1=10.0.0.3:7000" in words
        assert words[words.index("--threads") :] == ["--threads", "1", "--timeout", "60.0"]
    options = ("--threads", 4, "--timeout", 5, "--start-within", 3600)
    asked = forerun("split", "push", halves, "--on", tmp_path / "boards.yaml", *options, "--json")
    for row in asked.document["boards"]:
        told = "--threads 4 --timeout 5.0 --start-within 3600.0"
        assert row["start"].endswith(f" {told}")
    chosen = ("--on", tmp_path / "boards.yaml", "--boards", "slow,fast")
    swapped = forerun("split", "push", halves, *chosen, "--report-error", "--json").document[
        "boards"
    ]
    assert all(shlex.split(row["start"])[-1] == "--report-error" for row in swapped)
    assert [(row["device"], row["board"]) for row in swapped] == [(0, "slow"), (1, "fast")]
    assert (tmp_path / "10.0.0.3" / "forerun" / "device-0").is_dir()
    assert "0=10.0.0.3:7000" in shlex.split(swapped[1]["start"])
    assert "--on BOARDS.yaml --boards slow,fast " in forerun("split", "push", halves, *chosen).out
    again = forerun("split", "push", halves, "--on", tmp_path / "boards.yaml")
    assert (again.code, again.err) == (0, "")
    assert "$ python3 forerun/device forerun/device-1 --secret-file forerun/secret" in again.out
    assert f"--secret-file {halves}.secret" in again.out


@pytest.mark.parametrize("verb", ["run", "bench", "push"])
def test_a_board_of_another_name_is_one_line(
    forerun: Forerun, halves: Path, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "boards.yaml").write_text(BOARDS.format("10.0.0.2", "10.0.0.3"))
    new_secret(tmp_path / "secret")
    words = ("--on", tmp_path / "boards.yaml", "--secret-file", tmp_path / "secret")
    done = forerun("split", verb, halves, *words, "--boards", "fast,quick")
    assert (done.code, done.out) == (2, "")
    (line,) = done.errors
    assert line.endswith("--boards: found quick, expected one of fast, slow")


def test_a_board_that_cannot_be_reached_is_one_line(
    forerun: Forerun, halves: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text("#!/bin/sh\necho 'ssh: no route to host' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:/usr/bin:/bin")
    (tmp_path / "boards.yaml").write_text(BOARDS.format("10.0.0.2", "10.0.0.3"))
    new_secret(tmp_path / "secret")
    words = ("--on", tmp_path / "boards.yaml", "--secret-file", tmp_path / "secret")
    done = forerun("split", "push", halves, *words)
    assert (done.code, done.out) == (2, "")
    assert done.err == "forerun: error: 10.0.0.2:: ssh: no route to host\n"
    (tmp_path / "secret").chmod(0o644)
    done = forerun("split", "push", halves, *words)
    assert "found mode 0644, expected 0600" in done.err
