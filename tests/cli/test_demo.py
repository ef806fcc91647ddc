from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from forerun.cli.demo import FACTORS, shipped_runs, split

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun


def test_the_demo_goes_the_whole_way(forerun: Forerun, tmp_path: Path) -> None:
    done = forerun("demo", "-o", tmp_path)
    assert done.code == 0
    typed = [line.split()[2] for line in done.out.splitlines() if line.startswith("$ forerun ")]
    assert typed == ["import", "fit", "explain", "predict", "report"]
    assert "Measured: " in done.out
    assert (tmp_path / "report.html").stat().st_size > 1_000_000
    assert "forerun import runs.csv -o runs.db" in done.out

    again = forerun("demo", "-o", tmp_path, "--json").document
    unseen = pd.read_csv(tmp_path / "unseen.csv")
    assert again["unseen_runs"] == len(unseen)
    assert again["measured"] == unseen["seconds"].iloc[0]
    assert again["unseen_error"] < 0.25


def test_no_point_is_both_learnt_and_unseen() -> None:
    runs = shipped_runs()
    learnt, unseen = split(runs)
    assert len(learnt) + len(unseen) == len(runs)
    assert len(learnt[list(FACTORS)].merge(unseen[list(FACTORS)])) == 0
