"""`forerun report`: one HTML page, and the same figures as files for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from forerun.cli.common import (
    Json,
    StudyPath,
    Target,
    fittable,
    print_json,
    results,
    shown,
    working,
)
from forerun.errors import InputError


def report(
    study: StudyPath,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The page.", show_default="STUDY with .html"
        ),
    ] = None,
    target: Target = "seconds",
    split: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="STUDY",
            help="Also report what `forerun split bench` measured into this study.",
            show_default=False,
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write each figure here.", show_default=False),
    ] = None,
    figure_format: Annotated[
        Literal["png", "pdf"], typer.Option("--figure-format", help="The format of those figures.")
    ] = "png",
    json: Json = False,
) -> None:
    """Write one self-contained HTML page about a study's model; it needs no network.

    Measured against predicted, scaling curves with their intervals, the contribution of each
    factor, residuals, the formula and how far to trust it; and networks that were split, if any.
    """
    from forerun._outputs import check_page
    from forerun.study import Study

    with Study.open(study) as opened:
        column = fittable(opened, target)
        page = output or _beside(study)
        check_page(page, study)  # at once, not after the fit
        if page.suffix.lower() not in ("", ".html", ".htm"):
            expected = "a name that ends in .html (--figures DIR writes figures as PNG or PDF)"
            raise InputError("--output", page, expected)
        from forerun.report import gather, write_figures, write_page  # late: it takes its time

        with working("drawing the report"):
            findings = gather(opened, column, [Study.open(path) for path in split or []])
            write_page(findings, page)
            files = write_figures(findings, figures, figure_format) if figures else []
    if json:
        print_json(
            {
                "study": str(study),
                "target": column,
                "page": str(page),
                "figures": [str(file) for file in files],
            }
        )
        return
    to = results()
    to.print(shown(page), soft_wrap=True)
    for file in files:
        to.print(shown(file), soft_wrap=True)


def _beside(study: Path) -> Path:
    """The page's name where none is given; a study may itself be called `runs.html`."""
    return study.with_suffix(".report.html" if study.suffix.lower() == ".html" else ".html")
