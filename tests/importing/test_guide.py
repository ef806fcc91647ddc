"""What docs/guides/import.md shows works as it stands there."""

import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest

from forerun.cli import main
from forerun.study import Study

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "import.md").read_text(encoding="utf-8")


def block(first: str) -> str:
    """The indented block that begins with these words."""
    found = re.search(rf"^    {re.escape(first)}.*(?:\n    .*)*", GUIDE, re.MULTILINE)
    assert found is not None
    return dedent(found[0])


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs.csv").write_text(block("framework,gpus") + "\n")


def test_the_command_for_a_table() -> None:
    words = shlex.split(block("forerun import runs.csv").replace("\\\n", " "))
    assert main(words[1:]) == 0
    with Study.open("runs.db") as study:
        assert study.space.names == ("gpus", "batch_per_gpu")
        assert study.table()["seconds"].tolist() == [0.3105, 0.342]
        assert study.table("memory_bytes")["memory_bytes"].tolist() == [5120 * 2**20, 5130 * 2**20]
        assert study.failures()["status"].tolist() == ["out_of_memory"]


def test_the_lines_of_python() -> None:
    code = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert code is not None
    Path("runs.csv").write_text("gpus,batch_per_gpu,step_ms\n1,64,310.5\n8,64,342\n")
    exec(compile(code[1], "import.md", "exec"), {})
    with Study.open("runs.db") as study:
        assert study.table()["seconds"].tolist() == [0.3105, 0.342]
