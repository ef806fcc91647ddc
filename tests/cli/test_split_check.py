from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from forerun.splitting import check as checking

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun


def test_every_layout_with_a_name_is_right(forerun: Forerun, cnn: Path) -> None:
    done = forerun("split", "check", cnn, "--devices", "2,3", "--inputs", 2)
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines() if line.startswith(" small")]
    names = ("rows", "fused", "outputs", "inputs", "pipeline", "whole")
    assert [row[1:3] for row in rows] == [[name, n] for name in names for n in "23"]
    assert {row[-1] for row in rows} == {"right"}
    assert all(float(row[3]) < 1e-5 for row in rows)
    assert done.out.splitlines()[-1] == "12 checks: all are right"
    assert "small: groups on 2 is left out: " in done.err


@pytest.mark.usefixtures("patient_devices")
def test_check_as_json(forerun: Forerun, cnn: Path, described: Described) -> None:
    words = ("--layouts", "rows", "--devices", 2, "--inputs", 3, "--processes", "--json")
    document = forerun("split", "check", cnn, *words).document
    assert set(document) == described("split check")
    (row,) = document["rows"]
    assert (row["network"], row["layout"], row["devices"], row["inputs"]) == ("small", "rows", 2, 3)
    assert row["difference"] < 1e-5
    assert row["answers"] < 1e-5
    assert 0.9 < row["share"] <= 1.1
    assert (row["problem"], document["failed"]) == (None, 0)


def test_what_differs_fails(forerun: Forerun, cnn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "CLOSE", 1e-9)
    done = forerun("split", "check", cnn, "--layouts", "rows", "--devices", 2, "--inputs", 2)
    assert done.code == 1
    assert "small, rows on 2: " in done.out
    assert ", more than 1e-09" in done.out
    assert done.out.splitlines()[-1] == "1 of 1 check failed"


def test_a_layout_that_was_asked_for_must_be_possible(forerun: Forerun, cnn: Path) -> None:
    done = forerun("split", "check", cnn, "--layouts", "groups", "--devices", 2, "--inputs", 2)
    assert done.code == 1
    assert "small, groups on 2: layout groups: found" in done.out


def test_what_was_checked_is_kept(
    forerun: Forerun, cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = tmp_path / "checks.json"
    words = ("--inputs", 2, "--devices", 2, "--keep", keep)
    assert forerun("split", "check", cnn, "--layouts", "rows", *words).code == 0
    first = json.loads(keep.read_text())
    real = checking.check

    def interrupted(*given: object, **more: object) -> object:
        if given[1][0].name == "inputs":  # type: ignore[index]
            raise KeyboardInterrupt
        assert given[1][0].name != "rows"  # type: ignore[index]
        return real(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(checking, "check", interrupted)
    done = forerun("split", "check", cnn, "--layouts", "rows,outputs,inputs", *words)
    assert done.code == 130
    assert "2 checks: all are right" in done.out
    assert f"the same command goes on: {keep} has what was checked" in done.err
    assert len(json.loads(keep.read_text())["checks"]) == 2
    assert json.loads(keep.read_text())["checks"][0] == first["checks"][0]


def test_where_nothing_was_checked_nothing_is_said_to_be_right(
    forerun: Forerun, cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(checking, "check", interrupted)
    done = forerun("split", "check", cnn, "--layouts", "rows", "--keep", tmp_path / "k.json")
    assert done.code == 130
    assert done.out == ""
    assert "nothing is checked yet" in done.err


def test_a_check_of_another_version_or_tolerance_is_made_again(
    forerun: Forerun, cnn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--layouts", "rows", "--inputs", 1, "--devices", 2, "--keep", tmp_path / "k.json")
    assert forerun("split", "check", cnn, *words).code == 0
    monkeypatch.setattr("forerun.cli.split_check.__version__", "0.0.1")
    assert forerun("split", "check", cnn, *words).code == 0
    monkeypatch.setattr(checking, "CLOSE", 1e-12)
    assert forerun("split", "check", cnn, *words).code == 1
    kept = json.loads((tmp_path / "k.json").read_text())["checks"]
    assert [one["key"]["tolerance"] for one in kept] == [1e-4, 1e-4, 1e-12]
    assert len({one["key"]["forerun"] for one in kept}) == 2


def test_a_file_of_something_else_is_left_alone(
    forerun: Forerun, cnn: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.json").write_text('{"diary": 1}')
    done = forerun("split", "check", cnn, "--keep", tmp_path / "mine.json")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "mine.json: found something else, expected a new file" in done.err
    assert (tmp_path / "mine.json").read_text() == '{"diary": 1}'


def test_a_network_by_name_is_built(forerun: Forerun) -> None:
    words = ("--layouts", "groups", "--devices", 2, "--inputs", 1, "--json")
    done = forerun("split", "check", "resnet-8:x1.5", *words)
    assert done.code == 0
    assert done.err == "resnet-8:x1.5: built here, with random weights\n"
    (row,) = done.document["rows"]
    assert row["network"] == "resnet-8:x1.5"
    assert row["difference"] < 1e-4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--layouts", "rows,diagonals"), "--layouts: found diagonals, expected one of rows"),
        (("--devices", "2,x"), "--devices: found 2,x, expected whole numbers from 1"),
    ],
)
def test_words_that_are_none(
    forerun: Forerun, cnn: Path, words: tuple[str, ...], said: str
) -> None:
    done = forerun("split", "check", cnn, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


@pytest.mark.parametrize("width", ["1.7.5", "0", "."])
def test_widths_that_are_none(forerun: Forerun, width: str) -> None:
    done = forerun("split", "check", f"resnet-50:x{width}")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"resnet-50:x{width}: width: found " in done.err
