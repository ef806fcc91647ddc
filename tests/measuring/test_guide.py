"""What docs/guides/measure.md shows works as it stands there."""

import re
import shlex
from pathlib import Path

import pytest

from forerun.cli import main
from forerun.measuring.studyfile import read_study_file
from forerun.study import Study

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "measure.md").read_text(encoding="utf-8")
# In place of a training: the options that the guide gives to its own.
TRAINING = """
import argparse, time
parser = argparse.ArgumentParser()
for name in ("batch", "workers", "filters"):
    parser.add_argument("--" + name, type=int, required=True)
o = parser.parse_args()
time.sleep(0.1 * o.filters / o.batch / o.workers)
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAINING)


def fenced(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_first_command() -> None:
    command = re.search(r"^    (forerun measure 'python .*?)\n\n", GUIDE, re.DOTALL | re.MULTILINE)
    assert command is not None
    words = shlex.split(command[1].replace("\\\n", " ").replace("'python ", "'python3 "))
    assert main([*words[1:], "--runs", "3"]) == 0
    with Study.open("lenet.db") as study:
        assert study.space.intrinsic == ("filters",)
        assert len(study.table()) == 3


def test_the_study_file() -> None:
    Path("study.toml").write_text(fenced("toml"))
    asked = read_study_file(Path("study.toml"))
    assert asked.study == Path("lenet.db")
    assert list(asked.commands or {}) == ["eager", "compiled"]


def test_the_lines_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(fenced("python"), "measure.md", "exec"), {})
    assert (
        capsys.readouterr().out
        == "18 runs; every point has been run as often as the design wants\n"
    )
