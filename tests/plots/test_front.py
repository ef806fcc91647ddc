"""The figure of a plan: its table, both renderers, and the files."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forerun.errors import InputError
from forerun.factors import Point
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate
from forerun.planning.estimates import Estimate
from forerun.planning.planner import Plan
from forerun.planning.reasons import Considered
from forerun.planning.request import Request
from forerun.plots import page, paper
from forerun.plots.document import check, write_front
from forerun.plots.front import Front, front

HOSTILE = "</script><b>$x$</b>"
# Workers, seconds, cost; the third is beaten by the second in both.
TAKEN = [(8, 100.0, 4.0), (4, 150.0, 3.0), (2, 160.0, 3.5), (1, 400.0, 2.0)]


def planned(costs: bool = True, joules: float | None = None) -> Plan:
    considered = tuple(
        Considered(
            Candidate(Point({"batch": 64, "workers": workers, "act": HOSTILE}), "cpu", workers),
            Estimate(
                seconds,
                seconds * 0.9,
                seconds * 1.2,
                {"run": seconds},
                cost if costs else None,
                joules and joules * cost,
            ),
            reason=f"reason of {workers}",
        )
        for workers, seconds, cost in TAKEN
    )
    cluster: dict[str, Any] = {
        "name": "c",
        "currency": "USD",
        "partitions": {
            "cpu": {
                "nodes": 8,
                "processors": {"microarchitecture": "zen3", "cores": 4},
                "memory": "1 GiB",
            }
        },
    }
    request = Request.model_validate({"application": {"command": "train"}})
    return Plan(request, Infrastructure.model_validate(cluster), considered, {})


@pytest.fixture
def found() -> Front:
    return front(planned())


def test_the_table_has_the_front_and_what_tells_candidates_apart(found: Front) -> None:
    assert found.rows["seconds"].tolist() == [100, 150, 160, 400]
    assert found.rows["taken"].tolist() == [4.0, 3.0, 3.5, 2.0]
    assert found.rows["high"].tolist() == pytest.approx([120, 180, 192, 480])
    assert found.rows["front"].tolist() == [True, True, False, True]
    assert found.rows["chosen"].tolist() == [True, False, False, False]
    assert found.rows["setting"][1] == "nodes 4, workers 4"
    assert found.rows["reason"][2] == "reason of 2"
    assert found.others.index.tolist() == [2]
    assert (found.x.title, found.y.title) == ("cost (USD)", "time to the result (s)")


def test_without_a_price_it_is_energy_or_nodes() -> None:
    by_energy = front(planned(costs=False, joules=1e6))
    assert by_energy.rows["taken"].tolist() == [4e6, 3e6, 3.5e6, 2e6]
    assert by_energy.x.title == "energy (MJ)"
    by_nodes = front(planned(costs=False))
    assert by_nodes.rows["taken"].tolist() == [8, 4, 2, 1]
    assert by_nodes.rows["front"].tolist() == [True] * 4
    assert (by_nodes.x.title, by_nodes.x.labels) == ("nodes", ("1", "2", "4", "8"))


def test_the_page_marks_the_front_and_the_chosen_and_says_why(found: Front) -> None:
    figure = page.front_figure(found)
    others, line, chosen = figure.data
    assert list(others.x) == [3.5]
    assert list(line.x) == [2.0, 3.0, 4.0]
    assert list(chosen.y) == [100.0]
    assert list(line.error_y.array) == pytest.approx([80, 30, 20])
    assert "reason of 4" in line.customdata[1]
    assert "2 min 30 s (2 min 15 s to 3 min), 3 USD" in line.customdata[1]
    assert figure.layout.xaxis.title.text == "cost (USD)"


def test_figures_are_files_that_stay_the_same(found: Front, tmp_path: Path) -> None:
    starts = {".html": b"<!doctype html", ".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    for suffix, start in starts.items():
        path = tmp_path / f"plan{suffix}"
        check(path, tmp_path / "study.db")
        write_front(found, HOSTILE, path)
        first = path.read_bytes()
        assert first.startswith(start)
        check(path, tmp_path / "study.db")  # it may be written again
        write_front(found, HOSTILE, path)
        assert path.read_bytes() == first
    text = (tmp_path / "plan.html").read_text()
    assert "<h1>&lt;/script&gt;&lt;b&gt;" in text
    assert "http://" not in text.partition("<script>")[0]


def test_one_candidate_and_a_price_of_nothing(tmp_path: Path) -> None:
    rows = front(planned()).rows.head(1).assign(taken=0.0)
    both = pd.concat([rows, rows.assign(taken=1.0, seconds=50.0)], ignore_index=True)
    for made in (rows.assign(taken=3.0), both):
        paper.save(paper.front_figure(Front(made, "cost", "EUR")), tmp_path / "one.png")
    assert not Front(both, "cost", "EUR").x.log


@pytest.mark.parametrize(
    ("name", "told"),
    [("plan.gif", "a name that ends in .html"), ("none/plan.png", "no such directory")],
)
def test_a_file_that_cannot_be_drawn(tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        check(tmp_path / name, tmp_path / "study.db")
