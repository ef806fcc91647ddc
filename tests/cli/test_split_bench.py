from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from forerun.splitting.inputs import Samples
from forerun.splitting.measured import splits_of
from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Described, Forerun


def test_bench_stores_every_sample_as_a_run(
    forerun: Forerun, halves: Path, cnn: Path, tmp_path: Path
) -> None:
    assert forerun("split", "cut", cnn, "--devices", 1, "-o", tmp_path / "one").code == 0
    study = tmp_path / "splits.db"
    words = ("--samples", 5, "--wire", "float32,int8", "-o", study)
    done = forerun("split", "bench", tmp_path / "one", halves, *words)
    assert done.code == 0
    assert done.out.startswith("small: 5 samples of each setting, on this machine\n")
    rows = [line.split() for line in done.out.splitlines() if " on " in line[:20]]
    assert [row[:3] for row in rows] == [["whole", "on", "1"]] + [["rows", "on", "2"]] * 2
    assert "\nTheir answers differ from those of whole on 1 by at most " in done.out
    assert "the class is the same for all 10 samples" in done.out
    kept = {(one.devices, one.wire): one.reference for one in splits_of(Study.open(study))}
    assert kept == {(1, "float32"): None, (2, "float32"): "whole on 1", (2, "int8"): "whole on 1"}
    runs = Study.open(study).runs("ok")
    assert len(runs) == 15  # one device sends nothing to others: its wire is not varied
    assert {run.point["wire"] for run in runs if run.point["devices"] == 2} == {"float32", "int8"}
    assert {"seconds", "interval_seconds", "memory_bytes", "sent_bytes"} == set(runs[-1].measures)
    fitted = forerun("fit", study)
    assert fitted.code == 0
    report = forerun("report", study, "-o", tmp_path / "page.html")
    assert report.code == 2  # three settings are too few points for a report
    assert "found 3 different points, expected at least 4" in report.err


def test_bench_as_json(forerun: Forerun, halves: Path, cnn: Path, described: Described) -> None:
    words = ("--samples", 4, "--in-flight", 2, "--against", cnn, "--json")
    document = forerun("split", "bench", halves, *words).document
    assert set(document) == described("split bench")
    (setting,) = document["settings"]
    assert setting["difference"] < 1e-5
    assert setting["reference"] == "the whole network"
    assert setting["same_class"] == 4
    assert setting["in_flight"] == 2
    assert 0 < setting["p50"] <= setting["p99"]
    assert setting["memory_bytes"] > 10_000_000
    assert [share["device"] for share in setting["shares"]] == [0, 1]
    assert all(0 <= share["waiting"] <= 1 for share in setting["shares"])


def test_no_more_samples_are_read_than_are_timed(
    forerun: Forerun, halves: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, came = Samples.__iter__, []

    def counted(self: Samples) -> Iterator[NDArray[np.float32]]:
        for one in read(self):
            came.append(one)
            yield one

    monkeypatch.setattr(Samples, "__iter__", counted)
    assert forerun("split", "bench", halves, "--input", digits, "--samples", 2).code == 0
    assert len(came) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--wire", "int4"), "--wire: found int4, expected one of float32, float16, int8"),
        (("--in-flight", "1,0"), "--in-flight: found 1,0, expected whole numbers from 1"),
        (("--in-flight", "two"), "--in-flight: found two, expected whole numbers from 1"),
        (("--on", "boards", "--in-flight", "1,2"), "--on: found boards, expected one split in one"),
    ],
)
def test_settings_that_are_none(
    forerun: Forerun, halves: Path, words: tuple[str, ...], said: str
) -> None:
    done = forerun("split", "bench", halves, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
