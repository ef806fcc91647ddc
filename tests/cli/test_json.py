"""The documents that `--json` prints are those that docs/reference/json.md describes."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from forerun.study import Study
    from tests.cli.conftest import Forerun

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
TABLE = str(files("forerun") / "data" / "lenet.csv")
POINT = {
    "kernel": 3,
    "filters": 8,
    "activation": "relu",
    "optimiser": "sgd",
    "batch": 32,
    "samples": 1024,
    "workers": 1,
}


def described(verb: str) -> set[str]:
    section = PAGE.read_text(encoding="utf-8").split(f"\n## forerun {verb}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE))


@pytest.mark.parametrize("verb", ["show", "fit", "explain", "predict", "suggest", "report"])
def test_a_verb_prints_the_fields_that_are_described(
    verb: str, forerun: Forerun, fitted_study: Study
) -> None:
    point = [word for name, value in POINT.items() for word in ("-f", f"{name}={value}")]
    more = point if verb == "predict" else []
    done = forerun(verb, fitted_study.path, *more, "--json")
    assert done.code == 0
    assert set(done.document) == described(verb)


def test_import_and_demo_too(forerun: Forerun, tmp_path: Path) -> None:
    imported = forerun("import", TABLE, "-o", tmp_path / "runs.db", "--json")
    assert set(imported.document) == described("import")
    recorded = forerun("demo", "--recorded", "-o", tmp_path, "--json").document
    section = PAGE.read_text(encoding="utf-8").split("\n## forerun demo\n")[1].split("\n## ")[0]
    assert set(recorded) <= set(re.findall(r"`(\w+)`", section))
