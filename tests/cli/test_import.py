"""`forerun import` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import optuna
import pytest

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


def test_every_format_arrives(forerun: Forerun, tmp_path: Path) -> None:
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
