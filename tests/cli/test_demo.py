from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from patience import LONG

from forerun.cli import demo_live, demo_split
from forerun.cli.demo_recorded import FACTORS, shipped_runs, split
from forerun.errors import InputError
from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun, Printed, Unstalled

# In place of the training script, which needs PyTorch: the same options, times like its own, and a
# network beside it that it exports.
TRAINING = """
import argparse, pathlib, shutil, time
parser = argparse.ArgumentParser()
parser.add_argument("--export")
for name in ("filters", "batch", "chunks", "workers"):
    parser.add_argument("--" + name, type=int, default=1)
o = parser.parse_known_args()[0]
time.sleep(0.01 + 1e-4 * o.chunks * o.filters / o.workers + 0.05 / o.batch)
if o.export:
    shutil.copy(pathlib.Path(__file__).with_name("small.onnx"), o.export)
    print("exported to", o.export)
"""


@pytest.fixture
def training(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    cnn: Path,
    monkeypatch: pytest.MonkeyPatch,
    unstalled: Unstalled,
) -> Path:
    """A program that the demo measures in place of the real one; it logs nothing."""
    assert cnn.parent == tmp_path
    request.getfixturevalue("patient_devices")
    unstalled(lambda _: 0.2)  # a budget of two seconds is enough for ten runs
    monkeypatch.setattr("forerun.jobs.local._STARTING", LONG)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("FORERUN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    script = tmp_path / "train {script}.py"
    script.write_text(TRAINING)
    monkeypatch.setattr(demo_live, "trainer", lambda: [sys.executable, "-I", "-S", str(script)])
    return tmp_path / "demo"


def typed(done: Printed) -> list[str]:
    return [line.split()[2] for line in done.out.splitlines() if line.startswith("$ forerun ")]


def test_the_demo_measures_and_then_runs_what_it_predicted(
    forerun: Forerun, training: Path
) -> None:
    done = forerun("demo", "-o", training, "--budget", "2")
    assert done.code == 0
    first = ["measure", "fit", "explain", "predict", "measure"]
    last = ["plan", "deploy", "plan", *["split"] * 4, "report"]
    assert typed(done) == [*first, *last]
    assert "Predicted: " in done.out
    assert "Measured:  " in done.out
    assert "the interval" in done.out
    page = (training / "report.html").read_text()
    assert "Deployed jobs" in page
    assert "The network on several devices" in page
    assert "the class is the same for all 100 samples" in page
    assert "297 of 297" in done.out  # the classes of the two devices are those of one
    with Study.open(training / "lenet.db") as study:
        runs = study.runs("ok")
        assert study.space.intrinsic == ("filters",)
    assert len(runs) > 9
    *_, predicted, deployed = runs
    assert [run.point for run in runs].count(predicted.point) == 1  # it had not been run before
    assert deployed.source.startswith("deployment ")
    assert (deployed.point["filters"], deployed.point["chunks"]) == (32, 4)
    counts = [line for line in done.out.splitlines() if "model of" in line]
    assert [f"model of {len(runs) - 1} runs" in counts[0], f"of {len(runs)} runs" in counts[1]] == [
        True,
        True,
    ]

    again = forerun("demo", "-o", training, "--budget", "2", "--json").document
    assert again["runs"] == len(runs) + 2  # the budget is spent: another one, and another job
    assert again["point"] != dict(predicted.point)
    assert again["job"].endswith("job-2")
    assert again["low"] <= again["predicted"] <= again["high"]
    assert again["measured"] > 0
    assert again["digits"] == 297
    assert 0 < again["recognised"] < 100  # its weights are random


def test_without_onnxruntime_no_network_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert demo_split.can_split()
    monkeypatch.setattr(demo_split, "_NEEDED", ("onnx", "onnx_of_another_name"))
    assert not demo_split.can_split()
    assert capsys.readouterr().err == (
        "onnx_of_another_name cannot be imported, so no network is cut over devices:"
        " pip install 'forerun[split]'\n"
    )


def test_a_training_that_fails_ends_the_demo(training: Path) -> None:
    (training.parent / "small.onnx").unlink()
    script = str(training.parent / "train {script}.py")
    training.mkdir()
    with pytest.raises(InputError, match=r"the training of the network: found FileNotFoundError"):
        demo_split.split(training, [sys.executable, "-I", "-S", script])


def test_a_demo_that_cannot_measure_says_how_to_go_on(forerun: Forerun, training: Path) -> None:
    (training.parent / "train {script}.py").write_text("raise SystemExit('no luck')")
    done = forerun("demo", "-o", training, "--budget", "2")
    assert done.code == 2
    assert "no luck" in done.out
    assert "start it again to go on" in done.err
    assert typed(done) == ["measure"]


def test_a_demo_whose_last_run_fails_says_so(
    forerun: Forerun, training: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def predicted(*_: object) -> dict[str, float]:
        (training.parent / "train {script}.py").write_text("raise SystemExit('no luck')")
        return {"predicted": 1.0, "low": 0.5, "high": 2.0}

    monkeypatch.setattr(demo_live, "_predicted", predicted)
    done = forerun("demo", "-o", training, "--budget", "2")
    assert done.code == 2
    assert typed(done)[-1] == "measure"
    last = done.err.splitlines()[-1]
    assert last.startswith("forerun: error: the run at filters ")
    assert last.endswith(
        ": found failed, expected a run that ends well: start the demo again to try another"
    )


def test_without_pytorch_the_demo_shows_recorded_runs(
    forerun: Forerun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> list[str]:
        raise InputError("pytorch, installing torch", "no network", "success")

    monkeypatch.setattr(demo_live, "trainer", nowhere)
    done = forerun("demo", "-o", tmp_path)
    assert done.code == 0
    told = [line for line in done.err.splitlines() if "PyTorch cannot be had here" in line]
    assert len(told) == 1
    assert "no network" in told[0]
    assert typed(done)[0] == "import"


def test_the_demo_on_recorded_runs(forerun: Forerun, tmp_path: Path) -> None:
    done = forerun("demo", "--recorded", "-o", tmp_path)
    assert done.code == 0
    assert typed(done) == ["import", "fit", "explain", "predict", "report"]
    assert "Measured: " in done.out
    assert (tmp_path / "report.html").stat().st_size > 1_000_000

    again = forerun("demo", "--recorded", "-o", tmp_path, "--json").document
    unseen = pd.read_csv(tmp_path / "unseen.csv")
    assert again["unseen_runs"] == len(unseen)
    assert again["measured"] == unseen["seconds"].iloc[0]
    assert again["unseen_error"] < 0.25


@pytest.mark.parametrize("name", ["lenet.csv", "unseen.csv"])
def test_the_demo_writes_over_nothing(forerun: Forerun, tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "demo").mkdir()
    place = tmp_path / "demo" / name
    for there in (place.symlink_to, place.hardlink_to):
        there(precious)
        done = forerun("demo", "--recorded", "-o", tmp_path / "demo")
        assert done.code == 2
        assert "expected another directory for the demonstration" in done.err
        assert precious.read_text() == "mine"
        place.unlink()


def test_no_point_is_both_learnt_and_unseen() -> None:
    runs = shipped_runs()
    learnt, unseen = split(runs)
    assert len(learnt) + len(unseen) == len(runs)
    assert len(learnt[list(FACTORS)].merge(unseen[list(FACTORS)])) == 0


def test_a_budget_that_is_none(forerun: Forerun, tmp_path: Path) -> None:
    done = forerun("demo", "-o", tmp_path, "--budget", "soon")
    assert done.code == 2
    assert "--budget: found soon" in done.err


def test_an_environment_is_asked_for_only_where_this_python_has_no_pytorch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert demo_live.trainer()[0] == sys.executable
