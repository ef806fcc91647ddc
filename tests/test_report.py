import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from forerun import Factor, Point, Run, Space, Study
from forerun.modelling.kept import kept
from forerun.plots.deployments import Deployed
from forerun.report import Findings, gather, page, write_figures, write_report
from forerun.splitting.measured import DeviceShare, Measured, Timed, open_study, store

HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def findings(fitted_file: Path) -> Findings:
    return gather(Study.open(fitted_file))


@pytest.fixture(scope="module")
def text(findings: Findings) -> str:
    return page(findings)


class Parsed(HTMLParser):
    """The page as a browser reads it: each element, and the content of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts.append((self.elements[-1][1], data))

    def figures(self) -> dict[str, Any]:
        (found,) = (data for attributes, data in self.scripts if "id" in attributes)
        made = json.loads(found)
        assert isinstance(made, dict)
        return made


def test_the_page_asks_no_network(text: str) -> None:
    for tag, attributes in Parsed(text).elements:
        assert tag not in {"link", "iframe", "img", "object", "base"}
        assert not {"src", "href", "onload", "onclick"} & set(attributes)
    assert "default-src 'none'" in text


def test_the_policy_allows_exactly_the_scripts_that_are_there(text: str) -> None:
    policy = next(str(a["content"]) for tag, a in Parsed(text).elements if "http-equiv" in a)
    allowed = re.findall(r"'sha256-([^']+)'", policy)
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    assert [base64.b64encode(digest).decode() for digest in digests] == allowed
    assert len(allowed) == 2


def test_every_figure_has_its_place(text: str, findings: Findings) -> None:
    parsed = Parsed(text)
    places = {a["id"] for tag, a in parsed.elements if tag == "div" and a.get("class") == "plot"}
    assert places == {f"plot-{name}" for name in parsed.figures()}
    numeric = len(findings.space.numeric)
    assert sum("scaling" in str(place) for place in places) == numeric


def test_every_section_is_there(text: str) -> None:
    sections = re.findall(r"<h2>(.*?)</h2>", text)
    assert sections == [
        "The formula",
        "How far to trust it",
        "Scaling",
        "What matters",
        "Residuals",
        "Constants",
        "Cautions and notes",
        "How to repeat this",
    ]


def test_the_page_says_what_the_model_says(text: str, findings: Findings) -> None:
    for row in findings.fitted.held_out:
        assert f"<td>{row.name}</td>" in text
    inside = int(findings.rows["inside"].sum())
    assert f"Of {len(findings.rows)} runs" in text
    assert f" {inside} (" in text
    assert f"forerun report {findings.path}" in text
    assert "<math " in text


def test_names_from_outside_are_harmless(tmp_path: Path) -> None:
    space = Space(
        [
            Factor(HOSTILE, role="workers"),
            Factor("<svg/onload:alert(1)>", "categorical", "intrinsic"),
            Factor("measured"),
        ]
    )
    study = Study.create(tmp_path / "<b>study.db", space)
    study.add_all(
        Run(
            Point({HOSTILE: n, "<svg/onload:alert(1)>": level, "measured": m}),
            {"seconds": (2.0 + m / n) * (1.5 if level == "<i>" else 1.0)},
        )
        for n in (1, 2, 4, 8)
        for m in (1, 3, 9)
        for level in ("<i>", "%{x} $y$")
    )
    out = write_report(study, tmp_path / "page.html").read_text(encoding="utf-8")
    assert out.count("<script") == out.count("</script>") == 3
    for hostile in (HOSTILE, "<svg/", "<i>", "<b>study"):
        assert hostile not in out
    names = json.dumps(Parsed(out).figures())
    assert "<i>" not in names
    assert "&lt;i&gt;" in names


def test_the_report_is_about_the_studys_model(findings: Findings) -> None:
    before = kept(Study.open(findings.path))
    assert before is not None
    assert findings.fitted.settings == before.settings
    assert findings.fitted.held_out == before.held_out
    assert not findings.fitted.new


def test_of_many_levels_the_page_lists_both_ends(findings: Findings) -> None:
    many = {f"level{n}": 1.0 + n for n in range(40)}
    first = findings.explanation.factors[0]
    effect = replace(first, name="card", levels=many, elasticity=None)
    explanation = replace(findings.explanation, factors=(effect,))
    text = page(replace(findings, explanation=explanation))
    assert "<td>level0</td>" in text
    assert "<td>level39</td>" in text
    assert "<td>level20</td>" not in text
    assert "… 16 more …" in text


def test_deployed_jobs_have_a_section(findings: Findings, text: str) -> None:
    point = Point({"kernel": 3, HOSTILE: 1})
    job = Deployed(point, "n1", measured=2.0, predicted=1.5, low=1.4, high=1.6)
    made = page(replace(findings, deployed=(job,)))
    assert "<h2>Deployed jobs</h2>" not in text
    assert "<h2>Deployed jobs</h2>" in made
    assert "<td>n1</td>" in made
    assert "1.4 s to 1.6 s</td><td>outside</td>" in made
    assert HOSTILE not in made


def test_networks_that_were_split_have_a_section(findings: Findings, text: str) -> None:
    shares = [
        DeviceShare(device=n, macs=10**6, weights_bytes=64, activations_bytes=64, sent_bytes=64)
        for n in range(2)
    ]
    split = Measured(
        network=HOSTILE,
        layout="rows",
        devices=2,
        samples=10,
        p50=0.001,
        p99=0.002,
        per_second=900.0,
        difference=1e-7,
        same_class=10,
        shares=tuple(shares),
    )
    title = "The network on several devices"
    assert title not in text
    made = page(replace(findings, splits=(split,)))
    assert f"<h2>{title}</h2>" in made
    assert "the class is the same for all 10 samples" in made
    assert made.count('<i class="bar" style="width: 50.0%">') == 2
    assert HOSTILE not in made
    assert set(Parsed(made).figures()) == set(Parsed(text).figures())


def test_splits_come_from_the_study_itself_and_from_those_beside_it(tmp_path: Path) -> None:
    share = DeviceShare(device=0, macs=1, weights_bytes=1, activations_bytes=1, sent_bytes=1)
    timed = Timed(1.8e9, (0.1,), (0.1,))
    split = Measured(
        network="lenet",
        layout="whole",
        devices=1,
        samples=1,
        p50=0.1,
        p99=0.1,
        per_second=10.0,
        shares=(share,),
    )
    beside, own = open_study(tmp_path / "beside.db"), open_study(tmp_path / "own.db")
    store(beside, split, timed)
    settings = [split.model_copy(update={"in_flight": n, "p50": 0.1 / n}) for n in (1, 2, 3, 4)]
    for one in settings:
        store(own, one, Timed(1.8e9, (one.p50,), (one.p50,)))
    assert gather(own, beside=[beside]).splits == (*settings, split)


def test_too_few_points_are_refused(findings: Findings, tmp_path: Path) -> None:
    few = Study.create(tmp_path / "few.db", findings.space)
    few.add_all(Study.open(findings.path).runs()[:3])
    with pytest.raises(ValueError, match="found 3 different points, expected at least 4"):
        gather(few)


def test_a_page_that_fails_leaves_the_old_one(
    findings: Findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forerun import report

    old = tmp_path / "page.html"
    old.write_text("<!doctype html>old")

    def fail(_: Findings) -> str:
        raise RuntimeError("no page")

    monkeypatch.setattr(report, "page", fail)
    with pytest.raises(RuntimeError, match="no page"):
        report.write_page(findings, old)
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert old.read_text() == "<!doctype html>old"


def test_figures_have_safe_names(findings: Findings, tmp_path: Path) -> None:
    files = write_figures(findings, tmp_path / "figures")
    assert [file.name for file in files] == [
        "measured.png",
        "contributions.png",
        "residuals.png",
        "scaling-1-kernel.png",
        "scaling-2-filters.png",
        "scaling-3-batch.png",
        "scaling-4-samples.png",
        "scaling-5-workers.png",
    ]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
