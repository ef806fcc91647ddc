"""`forerun plan` for a network on boards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from onnx_networks import decoupled, plain, saved

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun

REQUEST = """
name: shelf
task: inference
network: plain.onnx
decoupled: [grouped.onnx]
"""
BOARDS = """
name: pair
boards:
  pi:
    count: 2
    processors: {microarchitecture: cortex_a72, cores: 4}
    memory: 1 GiB
    link: {bandwidth: 1 Gbit/s, latency: 100us}
    speed: 0.05
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "request.yaml").write_text(REQUEST)
    (tmp_path / "boards.yaml").write_text(BOARDS)
    saved(plain(24, 16), tmp_path / "plain.onnx")
    saved(decoupled(24, 16), tmp_path / "grouped.onnx")
    return tmp_path


def test_one_table_has_every_way_and_its_reason(
    forerun: Forerun, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = forerun("plan", "request.yaml", "--on", "boards.yaml", "--rows", "40", "-o", "plan.json")
    assert done.code == 0
    assert "shelf on pair" in done.out
    chosen = next(line for line in done.out.splitlines() if "chosen" in line)
    assert "MiB" in chosen
    for way in ("alone", "replicas", "pipeline", "rows", "groups"):
        assert way in done.out
    trained = "grouped.onnx must be trained first: python -m forerun.splitting.train"
    assert trained in done.out
    assert "no layers were timed" in done.err
    assert json.loads((folder / "plan.json").read_text())["task"] == "inference"


def test_all_of_one_candidate(forerun: Forerun) -> None:
    done = forerun("plan", "request.yaml", "--on", "boards.yaml", "--json")
    found = json.loads(done.out)
    untrained = [one["training"] is not None for one in found["refused_candidates"]]
    number = len(found["candidates"]) + untrained.index(True) + 1
    done = forerun("plan", "request.yaml", "--on", "boards.yaml", "--explain", str(number))
    assert "must be trained first" in done.out
    assert "application:" in done.out
    assert "memory of a device, estimated" in done.out


def test_layers_are_timed_first(forerun: Forerun, folder: Path) -> None:
    options = ("--layers", "layers.db", "--trial", "1", "--plot", "plan.svg")
    done = forerun("plan", "request.yaml", "--on", "boards.yaml", *options)
    assert done.code == 0
    assert "layers of this machine" in done.err
    assert "that were timed (layers.db)" in done.err
    assert (folder / "plan.svg").read_text().count("<svg") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--trial", "soon"), "--trial: found soon, expected seconds above 0"),
        (("--layers", "none.db"), "none.db"),
        (("--explain", "99"), "--explain: found 99, expected a number from 1 to"),
        (("-o", "plain.onnx"), "plain.onnx: found a file that is needed"),
        (("-o", "a.json", "--plot", "a.json"), "--plot: found a.json"),
    ],
)
def test_bad_options(forerun: Forerun, options: tuple[str, ...], told: str) -> None:
    done = forerun("plan", "request.yaml", "--on", "boards.yaml", *options)
    assert done.code == 2
    assert told in done.err
    assert done.err.count("\n") == 1
