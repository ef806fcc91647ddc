"""Both renderers on the same small tables: what is drawn, in which units, and under which names."""

from pathlib import Path

import pandas as pd
import pytest

from forerun.plots import page, paper
from forerun.plots.colours import PAGE

HOSTILE = "</script><b>$x$</b>"


@pytest.fixture
def rows() -> pd.DataFrame:
    measured = [1.0, 2.0, 4.0, 9.0]
    made = pd.DataFrame({"measured": measured, "predicted": [1.1, 1.9, 4.2, 6.0]})
    made["low"], made["high"] = made["predicted"] * 0.8, made["predicted"] * 1.25
    made["inside"] = made["measured"].between(made["low"], made["high"])
    made["ratio"] = made["measured"] / made["predicted"]
    return made


@pytest.fixture
def points() -> pd.DataFrame:
    return pd.DataFrame({HOSTILE: [8, 16, 32, 64], "act": ["relu", "<i>", "relu", "<i>"]})


@pytest.fixture
def curve() -> pd.DataFrame:
    made = pd.DataFrame({"value": [1.0, 2.0, 4.0, 8.0], "predicted": [8.0, 5.0, 4.0, 6.0]})
    made["low"], made["high"] = made["predicted"] * 0.8, made["predicted"] * 1.25
    made["formula"] = made["predicted"] * 1.02
    made["beyond"] = made["value"] > 4
    made["lowest"] = made["predicted"] == 4.0
    return made


@pytest.fixture
def runs() -> pd.DataFrame:
    return pd.DataFrame({"value": [1.0, 2.0, 4.0], "moved": [8.1, 4.9, 4.2], "measured": [9, 5, 4]})


@pytest.fixture
def shares() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "factor": ["workers", HOSTILE],
            "scope": ["extrinsic", "intrinsic"],
            "contribution": [0.9, 0.1],
        }
    )


def test_measured_against_predicted(rows: pd.DataFrame, points: pd.DataFrame) -> None:
    figure = page.measured_figure(rows, points, "seconds")
    _, held, outside = figure.data
    assert list(held.x) == [1.1, 1.9, 4.2]
    assert list(outside.y) == [9.0]
    assert figure.layout.xaxis.title.text == "predicted run time (s)"
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert "&lt;/script&gt;&lt;b&gt;$x$&lt;/b&gt; = 8" in held.customdata[0]


def test_a_scaling_curve_is_dashed_where_nothing_was_measured(
    curve: pd.DataFrame, runs: pd.DataFrame
) -> None:
    figure = page.scaling_figure(curve, runs, "workers", "seconds", mark_lowest=True)
    solid, dashed = (t for t in figure.data if t.name == "prediction")
    assert list(solid.x) == [1, 2, 4]
    assert list(dashed.x) == [4, 8]
    (lowest,) = (t for t in figure.data if t.name == "lowest")
    assert (lowest.x[0], lowest.y[0]) == (4, 4)
    assert figure.layout.xaxis.ticktext == ("1", "2", "4", "8")


def test_contributions_and_residuals(
    shares: pd.DataFrame, rows: pd.DataFrame, points: pd.DataFrame
) -> None:
    bars = page.contributions_figure(shares)
    assert list(bars.layout.yaxis.categoryarray)[-1] == "workers"
    assert "<b>" not in bars.to_json()
    ratios = page.residuals_figure(rows, points, "seconds")
    assert list(ratios.data[0].y) == rows["ratio"].tolist()
    boxes = page.factor_residuals_figure(rows, points["act"], numeric=False)
    assert [box.name for box in boxes.data] == ["relu", "&lt;i&gt;"]


def test_the_page_has_css_variables_for_colours(shares: pd.DataFrame) -> None:
    text = page.contributions_figure(shares, PAGE).to_json()
    assert "var(--accent)" in text
    assert "#2b5fc7" not in text


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_figures_for_papers_are_files_that_stay_the_same(
    tmp_path: Path,
    suffix: str,
    rows: pd.DataFrame,
    curve: pd.DataFrame,
    runs: pd.DataFrame,
    shares: pd.DataFrame,
) -> None:
    def draw(where: Path) -> list[bytes]:
        where.mkdir()
        figures = [
            paper.measured_figure(rows, "seconds"),
            paper.scaling_figure(curve, runs, HOSTILE, "seconds", mark_lowest=True),
            paper.contributions_figure(shares),
            paper.residuals_figure(rows, "memory_bytes"),
        ]
        files = [paper.save(f, where / f"{i}.{suffix}") for i, f in enumerate(figures)]
        return [file.read_bytes() for file in files]

    drawn = draw(tmp_path / "first")
    assert drawn == draw(tmp_path / "second")
    start = {"png": b"\x89PNG", "pdf": b"%PDF"}[suffix]
    assert all(content.startswith(start) for content in drawn)


def test_a_figure_for_a_paper_is_one_column_wide(rows: pd.DataFrame) -> None:
    figure = paper.measured_figure(rows, "seconds")
    assert figure.get_figwidth() == paper.WIDTH
    (axes,) = figure.axes
    assert axes.get_xlabel() == "predicted run time (s)"
    assert axes.get_xscale() == "log"
