"""`forerun plan`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from forerun.factors import Factor, Space
from forerun.study import Run, Study

if TYPE_CHECKING:
    from forerun.jobs import Command
    from tests.cli.conftest import Forerun, Unstalled

REQUEST = """
name: toy
application: {command: "python3 train.py {batch} {workers}"}
study: toy.db
fixed: {batch: 64}
"""
CLUSTER = """
name: pair
currency: USD
partitions:
  cpu:
    nodes: 2
    processors: {microarchitecture: x86_64, cores: 2}
    memory: 8 GiB
    price: {node: 3.6}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")  # reasons of one line
    (tmp_path / "request.yaml").write_text(REQUEST)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    space = Space([Factor.parse("batch=16,32,64"), Factor.parse("workers=1,2,4,8")])
    with Study.create(tmp_path / "toy.db", space) as study:
        for point in space.grid():
            study.add(Run(point, {"seconds": 1 + float(point["batch"]) / float(point["workers"])}))
    return tmp_path


def test_the_table_says_what_was_chosen_and_why(forerun: Forerun, folder: Path) -> None:
    done = forerun("plan", "request.yaml", "--on", "cluster.yaml", "-o", "plan.json")
    assert done.code == 0
    assert "toy on pair" in done.out
    assert "4 candidates; model of 12 runs" in done.out
    chosen = next(line for line in done.out.splitlines() if "chosen" in line)
    assert "fastest, by" in chosen
    assert "USD" in chosen
    assert "workers 2 instead of 4:" in done.out
    assert "1 candidate left out: 4 nodes, more than the 2 of cpu" in done.out
    assert json.loads((folder / "plan.json").read_text())["candidates"][0]["point"]["workers"] == 4


def test_one_candidate_is_explained(forerun: Forerun, folder: Path) -> None:
    assert folder.exists()
    done = forerun("plan", "request.yaml", "--on", "cluster.yaml", "--explain", "2")
    assert done.code == 0
    for words in ("time to the result", "90 % interval", "cost", "parallel efficiency"):
        assert words in done.out
    assert forerun("plan", "request.yaml", "--on", "cluster.yaml", "--explain", "9").code == 2


def test_as_json(forerun: Forerun, folder: Path) -> None:
    assert folder.exists()
    document = forerun("plan", "request.yaml", "--on", "cluster.yaml", "--json").document
    assert document["considered"] == 4
    assert document["chosen"] == 0
    assert document["candidates"][0]["cost"] > 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            ("fixed: {batch: 64}", "constraints: {budget: 0.001}\nfixed: {batch: 64}"),
            "the cheapest",
        ),
        (("toy.db", "none.db"), "none.db"),
        (("fixed: {batch: 64}", "fixed: {}"), "neither fixed nor free"),
        (("name: toy", "nmae: toy"), "request.yaml: nmae: found a field of that name"),
        (("fixed: {batch: 64}", "fixed: {batch: 64}\ntarget: {partition: gpu}"), "found gpu"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    forerun: Forerun, folder: Path, change: tuple[str, str], told: str
) -> None:
    (folder / "request.yaml").write_text(REQUEST.replace(*change, 1))
    done = forerun("plan", "request.yaml", "--on", "cluster.yaml")
    assert done.code == 2
    assert told in done.err
    assert len([line for line in done.err.splitlines() if "error" in line]) == 1


def test_trials_of_levers(forerun: Forerun, folder: Path, unstalled: Unstalled) -> None:
    """A real program, of which each thread takes its share; a bound one takes longer."""

    def most(command: Command) -> float:
        bound = command.environment["OMP_PROC_BIND"] != "false"
        return (0.4 + 0.2 * bound) / int(command.environment["OMP_NUM_THREADS"]) + 0.05

    unstalled(most)
    (folder / "train.py").write_text(
        "import os, time\n"
        "bound = os.environ['OMP_PROC_BIND'] != 'false'\n"
        "time.sleep((0.4 + 0.2 * bound) / int(os.environ['OMP_NUM_THREADS']))\n"
    )
    (folder / "request.yaml").write_text(
        "name: toy\n"
        f"application: {{command: '{sys.executable} train.py'}}\n"
        "free: {threads: '1,2', affinity: 'none,close'}\n"
    )
    done = forerun("plan", "request.yaml", "--on", "cluster.yaml", "--trial", "15", "--json")
    assert done.code == 0
    best = done.document["candidates"][0]
    assert best["point"] == {"threads": 2, "affinity": "none"}
    assert done.document["considered"] == 4
    with Study.open(folder / "request.db") as study:
        assert study.note("programs")[""]["levers"] == ["threads", "affinity"]  # type: ignore[index]


def test_a_figure_is_drawn(forerun: Forerun, folder: Path) -> None:
    base = ("plan", "request.yaml", "--on", "cluster.yaml", "--plot")
    for name, start in (("p.html", b"<!doctype html"), ("p.png", b"\x89PNG"), ("p.svg", b"<?xml")):
        done = forerun(*base, name)
        assert done.code == 0
        assert f"{name}: time against what it takes" in done.err
        assert (folder / name).read_bytes().startswith(start)
    assert "cost (USD)" in (folder / "p.html").read_text()
    assert "expected a name that ends in .html, .png, .svg, .pdf" in forerun(*base, "p.gif").err
    assert forerun(*base, "toy.db").code == 2
    (folder / "request.yaml").write_text(REQUEST.replace("study: toy.db\n", ""))
    assert "nothing that was measured" in forerun(*base, "p.png").err


def test_it_says_after_how_many_steps_compiling_pays(forerun: Forerun, folder: Path) -> None:
    space = Space([Factor.parse("epochs=1,2,3"), Factor.parse("variant=eager,compiled")])
    with Study.create(folder / "steps.db", space) as study:
        for point in space.grid():
            start, each = (12.0, 3.0) if point["variant"] == "compiled" else (2.0, 4.0)
            for wobble in (0.999, 1.001):
                taken = wobble * (start + each * float(point["epochs"]))
                study.add(Run(point, {"seconds": taken}))
    changed = REQUEST.replace("toy.db", "steps.db").replace("batch: 64", "epochs: 100")
    (folder / "request.yaml").write_text(changed.replace("{batch} {workers}", "{epochs}"))
    told = "compiled pays after 1"
    plan = ("plan", "request.yaml", "--on", "cluster.yaml")
    for more in ((), ("--explain", "1")):
        done = forerun(*plan, *more)
        assert told in done.out
        assert "less each epoch" in done.out
    assert "pays after" not in forerun(*plan, "--explain", "2").out  # the plain one
    assert forerun(*plan, "--json").document["pays"][0]["after"] in (10, 11)


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "toy.db"),
        ("-o", "request.yaml"),
        ("-o", "cluster.yaml"),
        ("-o", "diary.txt"),
        ("-o", ""),
        ("-o", "none/plan.json"),
        ("-o", "p.svg", "--plot", "p.svg"),
        ("--plot", "diary.svg"),
        ("--plot", "x.exe"),
    ],
)
def test_nothing_but_an_earlier_plan_is_overwritten(
    forerun: Forerun, folder: Path, words: tuple[str, ...]
) -> None:
    """And that is told before the trials, which would take their time."""
    for name in ("diary.txt", "diary.svg"):
        (folder / name).write_text("dear diary")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = forerun("plan", "request.yaml", "--on", "cluster.yaml", "--trial", "1", *words)
    assert done.code == 2
    assert done.err.startswith("forerun: error: ")
    assert done.err.count("\n") == 1
    assert ".part" not in done.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    plan = ("plan", "request.yaml", "--on", "cluster.yaml", "-o", "plan.json")
    assert (forerun(*plan).code, forerun(*plan).code) == (0, 0)  # the second over the first


def test_a_plan_is_not_written_over_a_study_to_come(forerun: Forerun, folder: Path) -> None:
    (folder / "request.yaml").write_text(REQUEST.replace("study: toy.db\n", ""))
    done = forerun("plan", "request.yaml", "--trial", "1", "-o", "request.db")
    assert done.code == 2
    assert "request.db: found a file that is needed" in done.err
