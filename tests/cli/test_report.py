from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun


def test_report_writes_a_page_beside_the_study(forerun: Forerun, fitted_study: Study) -> None:
    done = forerun("report", fitted_study.path)
    page = fitted_study.path.with_suffix(".html")
    assert done.code == 0
    assert done.out == f"{page}\n"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_figures_for_a_paper(forerun: Forerun, fitted_study: Study, tmp_path: Path) -> None:
    words = ("-o", tmp_path / "page.html", "--figures", tmp_path / "out", "--figure-format", "pdf")
    document = forerun("report", fitted_study.path, *words, "--json").document
    assert document["page"] == str(tmp_path / "page.html")
    names = {Path(file).name for file in document["figures"]}
    assert {"measured.pdf", "contributions.pdf", "residuals.pdf"} < names
    assert all(Path(file).read_bytes().startswith(b"%PDF") for file in document["figures"])


def test_a_page_that_cannot_be_written_is_refused(forerun: Forerun, fitted_study: Study) -> None:
    done = forerun("report", fitted_study.path, "-o", fitted_study.path / "page.html")
    assert done.code == 2
    assert done.err.count("\n") == 1
