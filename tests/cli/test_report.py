from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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


@pytest.mark.parametrize("name", ["lenet.db", "hard.html"])
def test_the_study_is_never_overwritten(forerun: Forerun, fitted_study: Study, name: str) -> None:
    path, before = fitted_study.path, fitted_study.path.read_bytes()
    os.link(path, path.with_name("hard.html"))
    done = forerun("report", path, "-o", path.with_name(name))
    found = f"{path.with_name(name)}: found the study itself, expected another file for the page"
    assert done == (2, "", f"forerun: error: {found}\n")
    assert path.read_bytes() == before


def test_a_page_is_not_given_another_kinds_name(forerun: Forerun, fitted_study: Study) -> None:
    done = forerun("report", fitted_study.path, "-o", "x.pdf")
    assert done.code == 2
    assert "--output: found x.pdf, expected a name that ends in .html" in done.err


def test_only_an_earlier_page_is_overwritten(forerun: Forerun, fitted_study: Study) -> None:
    page = fitted_study.path.with_name("notes.html")
    page.write_text("Dear diary", encoding="utf-8")
    done = forerun("report", fitted_study.path, "-o", page)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "found a file that is no HTML page, expected a new file or an earlier page" in done.err
    assert page.read_text(encoding="utf-8") == "Dear diary"
    page.write_text("<!DOCTYPE HTML><p>earlier", encoding="utf-8")
    assert forerun("report", fitted_study.path, "-o", page).code == 0
    assert "<p>earlier" not in page.read_text(encoding="utf-8")
    assert not list(page.parent.glob(".*.part"))


def test_a_study_called_html_gets_a_page_of_another_name(
    forerun: Forerun, fitted_study: Study
) -> None:
    study = fitted_study.path.rename(fitted_study.path.with_name("runs.html"))
    page = study.with_name("runs.report.html")
    assert forerun("report", study).out == f"{page}\n"
    assert study.read_bytes().startswith(b"SQLite format 3\0")
    assert page.read_bytes().startswith(b"<!doctype html>")
