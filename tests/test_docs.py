import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from forerun.cli import VERBS

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_command_line_is_up_to_date(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLUMNS", "NO_COLOR", "TERM"):
        monkeypatch.setenv(name, "")  # so that the change is undone after the test
    written = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    assert written == generate.cli_page(), "run `make docs`"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_documented(verb: str) -> None:
    for page in ("cli.md", "json.md"):
        assert f"\n## forerun {verb}\n" in (DOCS / "reference" / page).read_text(encoding="utf-8")


def test_every_line_of_the_tutorial_runs(generate: ModuleType, tmp_path: Path) -> None:
    lines = generate.commands((DOCS / "tutorial.md").read_text(encoding="utf-8"))
    verbs = [line.split()[1] for line in lines if line.startswith("forerun ")]
    assert verbs == ["import", "show", "fit", "predict", "predict", "report", "suggest"]
    for line in lines:
        generate.typed(line, tmp_path)
    assert (tmp_path / "runs.html").exists()
