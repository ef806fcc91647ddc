"""`forerun import` as a user types it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from patience import LONG

from forerun.errors import StudyError
from forerun.importing import read_runs
from forerun.importing.adding import Added, add_to_study
from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun

FIXTURES = Path(__file__).parents[1] / "importing" / "fixtures"
LENET = FIXTURES / "lenet.csv"
FACTORS = ("--factors", "batch,workers,activation", "--intrinsic", "activation")


def test_a_table_becomes_a_study(forerun: Forerun, tmp_path: Path) -> None:
    study = tmp_path / "lenet.db"
    printed = forerun(
        "import", LENET, "-o", study, *FACTORS, "--memory", "peak", "--unit", "memory=MiB"
    )
    assert printed.code == 0
    assert printed.out.splitlines()[:2] == [
        f"{study}: 10 runs added; 3 of the file's runs failed",
        "measured: seconds, memory_bytes",
    ]
    lines = [" ".join(line.split()) for line in printed.out.splitlines()]
    assert "batch numeric extrinsic batch 16 to 4096 (6 values)" in lines
    assert "activation categorical intrinsic (empty), relu, tanh" in lines
    assert lines[-1] == f"next: forerun fit {study}"
    with Study.open(study) as opened:
        assert len(opened) == 10
        assert opened.targets() == ["seconds", "memory_bytes"]
        assert opened.table().loc[0].to_dict() == {
            "batch": 16, "workers": 1, "activation": "relu", "seconds": 40.2,
        }  # fmt: skip
        assert opened.failures()["status"].tolist() == [
            "out_of_memory",
            "out_of_memory",
            "timed_out",
        ]


def test_the_same_file_twice_adds_nothing(forerun: Forerun, tmp_path: Path) -> None:
    study = tmp_path / "lenet.db"
    forerun("import", LENET, "-o", study, *FACTORS)
    # Without --factors the study says what is a factor.
    document = forerun("import", LENET, "-o", study, "--json").document
    assert (document["added"], document["already"], document["failed"]) == (0, 10, 3)
    assert [one["name"] for one in document["factors"]] == ["batch", "workers", "activation"]
    assert document["factors"][0] == {
        "name": "batch", "kind": "numeric", "scope": "extrinsic", "unit": "", "role": "batch",
        "distinct": 6, "low": 16, "high": 4096,
    }  # fmt: skip


def test_another_file_adds_its_runs_and_levels(forerun: Forerun, tmp_path: Path) -> None:
    study, more = tmp_path / "lenet.db", tmp_path / "more.csv"
    forerun("import", LENET, "-o", study, *FACTORS)
    more.write_text("workers,batch,activation,seconds\n8,16,gelu,9.5\n8,16,gelu,9.25\n")
    document = forerun("import", more, "-o", study, "--json").document
    assert (document["added"], document["already"]) == (2, 0)
    with Study.open(study) as opened:
        assert opened.space["workers"].values == (1, 2, 4, 8)
        assert opened.space["activation"].values == ("", "gelu", "relu", "tanh")
        assert len(opened) == 12


@pytest.mark.parametrize(
    ("content", "options", "line"),
    [
        (
            "batch,workers,seconds\n1,1,1\n",
            (),
            "more.csv: found no column activation, expected one of batch, workers, seconds"
            " (a factor of the study)",
        ),
        (
            "batch,workers,activation,seconds\n1,1,relu,1\n",
            ("--factors", "batch,workers"),
            "lenet.db: found factors batch, workers in the file,"
            " expected batch, workers, activation, the study's",
        ),
        (
            "batch,workers,activation,seconds\n1,1,relu,1\n",
            ("--intrinsic", "batch"),
            "lenet.db factor batch: found intrinsic in the file, expected extrinsic",
        ),
        (
            "batch,workers,activation,seconds\n1,1,relu,1\n2,1,relu,nan\n",
            (),
            "more.csv line 3 column seconds: found 'nan', expected a positive time",
        ),
    ],
)
def test_a_refusal_leaves_the_study_as_it_was(
    forerun: Forerun, tmp_path: Path, content: str, options: tuple[str, ...], line: str
) -> None:
    study, more = tmp_path / "lenet.db", tmp_path / "more.csv"
    forerun("import", LENET, "-o", study, *FACTORS)
    before = study.read_bytes()
    more.write_text(content)
    printed = forerun("import", more, "-o", study, *options)
    assert (printed.code, printed.out) == (2, "")
    assert printed.err.replace(f"{tmp_path}/", "") == f"forerun: error: {line}\n"
    assert study.read_bytes() == before


def added(forerun: Forerun, content: str, folder: Path) -> tuple[int, int]:
    """How many runs of a table were new, and how many were known."""
    (folder / "runs.csv").write_text(content)
    document = forerun("import", folder / "runs.csv", "-o", folder / "runs.db", "--json").document
    return document["added"], document["already"]


def test_only_what_is_new_is_added(forerun: Forerun, tmp_path: Path) -> None:
    head, rows = "n,mode,seconds\n", ["1,a,1.5\n", "1,a,1.5\n", "2,b,3\n", "4,b,5\n"]
    assert added(forerun, head + "".join(rows), tmp_path) == (4, 0)
    assert added(forerun, head + "".join(reversed(rows)), tmp_path) == (0, 4)
    assert added(forerun, head + "8,a,9\n" + "".join(rows), tmp_path) == (1, 4)
    edited = [*rows[:2], "2,b,3.25\n", rows[3]]
    assert added(forerun, head + "".join(edited), tmp_path) == (1, 3)
    table = Study.open(tmp_path / "runs.db").table()
    assert sorted(table["seconds"]) == [1.5, 1.5, 3, 3.25, 5, 9]


@pytest.mark.parametrize(
    ("options", "found", "stored"),
    [
        (("--seconds", "t", "--time-unit", "ms"), "seconds=0.0015", "seconds=1.5"),
        (("--seconds", "other"), "seconds=7.0", "seconds=1.5"),
        (("--seconds", "t", "--joules", "e"), "joules=9.0", "joules=(none)"),
        (
            ("--seconds", "t", "--status", "end"),
            "status=failed, seconds=(none)",
            "status=ok, seconds=1.5",
        ),
    ],
)
def test_the_same_runs_read_differently_are_refused(
    forerun: Forerun, tmp_path: Path, options: tuple[str, ...], found: str, stored: str
) -> None:
    file, study = tmp_path / "runs.csv", tmp_path / "runs.db"
    file.write_text("n,t,other,e,end\n1,1.5,7,9,1\n2,3,8,9,0\n")
    assert forerun("import", file, "-o", study, "--factors", "n", "--seconds", "t").code == 0
    before = study.read_bytes()
    printed = forerun("import", file, "-o", study, *options)
    assert printed.code == 2
    assert printed.err == (
        f"forerun: error: {file} line 2 and {study}: found {found}, expected {stored},"
        " as stored; another reading of the same runs needs a new study\n"
    )
    assert study.read_bytes() == before


def test_a_study_appears_with_all_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    add_all = Study.add_all

    def watched(study: Study, *words: Any, **options: Any) -> int:
        seen.append([one.suffix for one in tmp_path.iterdir()])
        return add_all(study, *words, **options)

    monkeypatch.setattr(Study, "add_all", watched)
    found = read_runs(LENET, factors="batch")
    assert add_to_study(tmp_path / "new.db", found) == Added(10, 0)
    assert seen == [[".forerun"]]
    assert [one.name for one in tmp_path.iterdir()] == ["new.db"]

    def broken(*_: object, **__: object) -> int:
        raise StudyError(f"{next(tmp_path.glob('.*'))}: found a full disk, expected space to write")

    monkeypatch.setattr(Study, "add_all", broken)
    with pytest.raises(StudyError) as caught:
        add_to_study(tmp_path / "other.db", found)
    assert str(caught.value) == f"{tmp_path}/other.db: found a full disk, expected space to write"
    assert [one.name for one in tmp_path.iterdir()] == ["new.db"]


def test_a_killed_import_leaves_no_study(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from forerun.importing import read_runs\n"
        "from forerun.importing.adding import add_to_study\n"
        "from forerun.importing.runs import ImportedTable\n"
        "def half(self, row, made=ImportedTable._run):\n"
        "    return made(self, row) if row < 5 else os.kill(os.getpid(), signal.SIGKILL)\n"
        f"found = read_runs({str(LENET)!r}, factors='batch')\n"
        "ImportedTable._run = half\n"
        f"add_to_study({str(tmp_path / 'new.db')!r}, found)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "new.db").exists()
    assert add_to_study(tmp_path / "new.db", read_runs(LENET, factors="batch")) == Added(10, 0)


def test_a_file_name_that_does_not_print_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "odd\nname.csv"
    path.write_text("n,seconds\n1,1\n2,2\n")
    add_to_study(tmp_path / "new.db", read_runs(path))
    assert Study.open(tmp_path / "new.db").runs()[0].source == "odd\\nname.csv line 2"


def test_a_refusal_makes_no_study(forerun: Forerun, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("a,seconds\n1,0\n")
    assert forerun("import", bad, "-o", tmp_path / "new.db").code == 2
    assert [one.name for one in tmp_path.iterdir()] == ["bad.csv"]


def test_notes_go_to_standard_error(forerun: Forerun, tmp_path: Path) -> None:
    printed = forerun(
        "import", LENET, "-o", tmp_path / "x.db", "--memory", "peak", "--where", "status=ok"
    )
    assert printed.err == "left out, one value in all runs: host (--factors)\n"


def test_every_format_arrives(
    forerun: Forerun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forerun.importing.pattern.LONGEST_SEARCH", LONG)
    storage = tmp_path / "trials.db"
    study = optuna.create_study(storage=f"sqlite:///{storage}")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    pattern = r"b(?P<batch>\d+)_w(?P<workers>\d+)"
    for number, (words, runs) in enumerate(
        [
            ((f"sqlite:///{storage}",), 3),
            ((FIXTURES / "steps.tsv", "--seconds", "step_ms", "--time-unit", "ms"), 4),
            ((FIXTURES / "sacct.txt", "--pattern", pattern), 6),
            ((FIXTURES / "hyperfine.json",), 24),
            ((FIXTURES / "extra_p.txt", "--region", "main"), 12),
            ((FIXTURES / "extra_p.jsonl", "--format", "extra-p"), 4),
        ]
    ):
        printed = forerun("import", *words, "-o", tmp_path / f"{number}.db", "--json")
        assert (printed.code, json.loads(printed.out)["added"]) == (0, runs), words


def test_a_pair_without_its_sign(forerun: Forerun, tmp_path: Path) -> None:
    printed = forerun("import", LENET, "-o", tmp_path / "x.db", "--where", "status")
    assert printed.code == 2
    assert printed.err == "forerun: error: --where: found status, expected NAME=VALUE\n"
