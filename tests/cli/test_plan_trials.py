"""`forerun plan --trial`: whose runs the trials are."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun, Unstalled

CLUSTER = """
name: pair
partitions:
  cpu:
    nodes: 2
    processors: {microarchitecture: x86_64, cores: 2}
    memory: 8 GiB
    price: {node: 0.0036}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unstalled: Unstalled) -> Path:
    unstalled(lambda _: 0.3)  # two seconds of trials are enough for several runs
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "request.yaml").write_text(
        "name: toy\n"
        f"application: {{command: '{sys.executable} -c \"import time; time.sleep({{nap}})\"'}}\n"
        "free: {nap: '0.02,0.1'}\n"
    )
    return tmp_path


def test_trials_of_this_machine_that_are_taken_for_another_ones(
    forerun: Forerun, folder: Path
) -> None:
    plan = ("plan", "request.yaml", "--on", "cluster.yaml", "--trial", "2")
    done = forerun(*plan)
    assert done.code == 0
    told = f"the trials ran on {platform.node()}, and are taken for runs on cpu of pair"
    assert told in " ".join(done.err.split())
    assert "0.00 EUR" not in done.out  # a run of a tenth of a second costs something
    with (folder / "request.yaml").open("a") as file:
        file.write("measured_on: cpu\n")
    assert "the trials ran on" not in forerun(*plan).err


def test_each_candidate_is_explained_with_its_own_cautions(forerun: Forerun, folder: Path) -> None:
    assert forerun("plan", "request.yaml", "--trial", "2").code == 0
    text = (folder / "request.yaml").read_text()
    (folder / "request.yaml").write_text(text.replace("0.02,0.1", "0.02,0.1,0.5"))
    plan = ("plan", "request.yaml", "--explain")
    assert "nap = 0.5 is outside what was measured" in " ".join(forerun(*plan, "3").err.split())
    assert "outside what was measured" not in forerun(*plan, "1").err
