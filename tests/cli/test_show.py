"""`forerun show`: counts, ranges, noise and failures of a small study with known numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from forerun.factors import Factor, Point, Space
from forerun.study import Run, Study

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun


@pytest.fixture
def study(tmp_path: Path) -> Study:
    space = Space(
        [
            Factor("batch", scope="intrinsic", unit="images"),
            Factor("act", "categorical", values=("", "relu")),
        ]
    )
    made = Study.create(tmp_path / "small.db", space, {"": "train.py"})
    for batch, act, seconds in [(16, "relu", 3.0), (16, "relu", 5.0), (32, "", 1.0), (64, "", 0.5)]:
        made.add(
            Run(Point({"batch": batch, "act": act}), {"seconds": seconds, "memory_bytes": 2**20})
        )
    for status in ("out_of_memory", "out_of_memory", "failed"):
        made.add(Run(Point({"batch": 4096, "act": "relu"}), status=status))
    return made


def test_the_document(forerun: Forerun, study: Study) -> None:
    found = forerun("show", study.path, "--json").document
    assert (found["runs"], found["status"]) == (7, {"ok": 4, "out_of_memory": 2, "failed": 1})
    assert found["commands"] == {"": "train.py"}
    batch, act = found["factors"]
    assert (batch["low"], batch["high"], batch["distinct"], batch["unit"]) == (
        16,
        4096,
        4,
        "images",
    )
    assert act["levels"] == ["", "relu"]
    seconds, memory = found["measures"]
    assert seconds == {
        "name": "seconds", "unit": "s", "runs": 4, "median": 2.0, "low": 0.5, "high": 5.0,
    }  # fmt: skip
    assert (memory["name"], memory["unit"], memory["median"]) == ("memory_bytes", "B", 2**20)
    # Two repeats, 3 s and 5 s: the standard deviation of the logarithms.
    assert found["noise"] == {
        "points": 3,
        "repeated": 1,
        "spread": pytest.approx(math.log(5 / 3) / 2**0.5),
        "high": pytest.approx(math.log(5 / 3) / 2**0.5),
    }
    assert found["fastest"][0] == {"point": {"batch": 64, "act": ""}, "seconds": 0.5}
    assert found["slowest"][0] == {"point": {"batch": 16, "act": "relu"}, "seconds": 4.0}
    assert found["failures"] == [
        {"point": {"batch": 4096, "act": "relu"}, "status": "out_of_memory", "runs": 2},
        {"point": {"batch": 4096, "act": "relu"}, "status": "failed", "runs": 1},
    ]
    assert found["models"][0] == {"target": "seconds", "fitted": None, "current": False}


def test_the_text(forerun: Forerun, study: Study) -> None:
    lines = [" ".join(line.split()) for line in forerun("show", study.path).out.splitlines()]
    assert lines[0] == f"{study.path}: 7 runs (4 ok, 2 out of memory, 1 failed)"
    assert "batch numeric intrinsic 16 to 4096 images (4 values)" in lines
    assert "act categorical extrinsic (empty), relu" in lines
    assert "seconds 4 2 s 500 ms to 5 s" in lines
    assert "memory_bytes 4 1 MiB 1 MiB to 1 MiB" in lines
    assert any(
        line.startswith("noise: repeats of a point spread by 36 % (over the 1 of 3 points")
        for line in lines
    )
    assert "500 ms batch 64, act (empty)" in lines
    assert "out of memory 2 batch 4096, act relu" in lines
    assert f"model of seconds: none yet (forerun fit {study.path})" in " ".join(lines)


def test_a_model_is_out_of_date_after_another_run(forerun: Forerun, study: Study) -> None:
    study.save_model("seconds", {"any": "thing"}, study.digest("seconds"))
    assert forerun("show", study.path, "--json").document["models"][0]["current"] is True
    assert "up to date" in forerun("show", study.path).out
    study.add(Run(Point({"batch": 16, "act": "relu"}), {"seconds": 4.0}))
    assert forerun("show", study.path, "--json").document["models"][0]["current"] is False
    assert "out of date" in forerun("show", study.path).out


def test_a_study_without_runs_or_without_good_ones(forerun: Forerun, tmp_path: Path) -> None:
    empty = Study.create(tmp_path / "empty.db", Space([Factor("batch")]))
    assert forerun("show", empty.path).out.endswith("nothing measured yet\n")
    empty.add(Run(Point({"batch": 1}), status="failed"))
    found = forerun("show", empty.path, "--json").document
    assert (found["status"], found["noise"], found["fastest"]) == ({"ok": 0, "failed": 1}, None, [])
    assert found["failures"] == [{"point": {"batch": 1}, "status": "failed", "runs": 1}]


def test_one_factor_without_repeats(forerun: Forerun, tmp_path: Path) -> None:
    study = Study.create(tmp_path / "one.db", Space([Factor("batch")]))
    study.add_all([Run(Point({"batch": n}), {"seconds": 1 / n}) for n in (1, 2)])
    assert "noise: unknown, none of the 2 points was run twice" in forerun("show", study.path).out


def test_no_factor_at_all(forerun: Forerun, tmp_path: Path) -> None:
    study = Study.create(tmp_path / "none.db", Space(), {"": "true"})
    study.add_all([Run(Point({}), {"seconds": n}) for n in (1.0, 2.0)])
    study.add(Run(Point({}), status="failed"))
    found = forerun("show", study.path, "--json").document
    assert found["noise"]["spread"] == pytest.approx(math.log(2) / 2**0.5)
    assert found["fastest"] == [{"point": {}, "seconds": 1.5}]
    assert found["failures"] == [{"point": {}, "status": "failed", "runs": 1}]


def test_a_file_that_is_no_study(forerun: Forerun, tmp_path: Path) -> None:
    printed = forerun("show", tmp_path / "none.db")
    assert printed.code == 2
    assert (
        printed.err
        == f"forerun: error: {tmp_path}/none.db: found no such file, expected a forerun study\n"
    )
