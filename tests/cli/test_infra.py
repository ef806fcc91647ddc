"""`forerun infra`."""

import json
from pathlib import Path

import pytest

from forerun.cli import main


def test_detect_writes_a_file_that_show_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["infra", "detect", "--local"]) == 0
    file = tmp_path / "here.yaml"
    file.write_text(capsys.readouterr().out)
    assert main(["infra", "show", str(file)]) == 0
    assert "(default)" in capsys.readouterr().out


def test_profiles_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["infra", "profiles", "--json"]) == 0
    names = json.loads(capsys.readouterr().out)["profiles"]
    for name in names:
        assert main(["infra", "show", name]) == 0
        assert name in capsys.readouterr().out
        assert main(["infra", "show", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["name"] == name


def test_a_wrong_file_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("name: x\npartitions: {a: {nodes: none}}\n")
    assert main(["infra", "show", str(file)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"{file}: partitions.a.nodes: found none, expected a whole number" in told
