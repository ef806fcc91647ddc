"""The containers' pure parts: which blocks, what they print, and how they are judged."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import cast

import containers_images
import containers_runs
import containers_table
import numpy as np
import pytest
import rows as rows_of
from containers_images import HERE, PLAIN, SCRIPTS, WORKLOADS, Setting
from containers_runs import PLACES, ROUNDS, SETTINGS, SWEEPS, WAYS, Live, Round, Timed

from forerun.errors import InputError
from forerun.factors import VARIANT, Point
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate
from forerun.planning.request import Request
from forerun.planning.trials import trial_of


@pytest.fixture
def here() -> Infrastructure:
    processors = {"microarchitecture": "x86_64_v3", "cores": 2}
    partition = {"nodes": 1, "processors": processors, "memory": "4 GiB"}
    return Infrastructure.model_validate({"name": "here", "partitions": {"cpu": partition}})


@pytest.fixture
def application(tmp_path: Path) -> Path:
    for name in SCRIPTS:
        shutil.copy(HERE / name, tmp_path)
    for workload in WORKLOADS:
        shutil.copy(HERE / "containers" / f"{workload}.yaml", tmp_path)
    return tmp_path


def test_every_workload_has_its_rounds_by_turns() -> None:
    every = containers_runs.rounds()
    assert len(every) == len(set(every)) == ROUNDS * len(WORKLOADS)
    assert [one.workload for one in every[:4]] == [*WORKLOADS, *WORKLOADS]
    assert containers_runs.rounds(2) == every[:4]


TRAINING = """\
import sys
print("with python 3.11.2, torch 2.13.0+cpu; 2 threads", flush=True)
for turn, steps in enumerate(map(int, sys.stdin), 1):
    assert turn < 3, "ended"
    print(f"epoch {turn}: loss 2.3026, {turn}.2500 s, {steps}.4000 s of processors", flush=True)
"""


def test_a_training_waits_for_its_turn(tmp_path: Path) -> None:
    one = Live([sys.executable, "-c", TRAINING], os.environ, tmp_path)
    assert (one.versions, one.threads) == ("python 3.11.2, torch 2.13.0+cpu", 2)
    assert one.start > 0
    assert [one.block(3), one.block(4)] == [(1.25, 3.4), (2.25, 4.4)]
    with pytest.raises(InputError, match="expected epoch"):
        one.block(3)
    one.close()


def test_a_training_that_says_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found no torch, expected with"):
        Live([sys.executable, "-c", "print('no torch', end='')"], os.environ, tmp_path)


class Pretended:
    """Trainings that take no time."""

    def live(self, workload: str, setting: str, place: str) -> "Pretended":
        assert (workload, setting in SETTINGS, place in PLACES) == ("mnist-cnn", True, True)
        return self

    start = 1.5

    def block(self) -> tuple[float, float]:
        return 0.75, 0.0

    def close(self) -> None: ...


def test_a_round_that_others_disturbed_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([0.0, 1e9, 0.0, 0.0, 0.0, 0.0])  # busy seconds before and after each try
    monkeypatch.setattr(containers_runs, "processors", lambda: (next(loads), 0.0))
    ground = cast(containers_runs.Ground, Pretended())
    made = containers_runs.undisturbed(ground, Round("mnist-cnn", 3), tries=3)
    assert made.other_load == 0
    assert len(list(loads)) == 2  # the third was not needed
    table = made.rows(Round("mnist-cnn", 3))
    assert [(row["setting"], row["place"]) for row in table] == list(WAYS)
    assert {(row["blocks"], row["start_seconds"]) for row in table} == {
        (" ".join(["0.7500"] * (SWEEPS["mnist-cnn"] + 1)), "1.500")
    }


def test_the_script_says_it_so() -> None:
    text = (HERE / "containers_train.py").read_text()
    assert "set_num_threads" not in text
    assert "forerun" not in text


def test_processors_that_others_keep_busy(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 20 30 4000 50 6 7 8 0 0\ncpu0 1 1\n")
    busy, stolen = containers_runs.processors(tmp_path / "stat")
    assert (busy, stolen) == pytest.approx((1.63, 0.08))


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_plan_has_levers_and_compiling_to_choose_from(workload: str, application: Path) -> None:
    path = application / f"{workload}.yaml"
    request = Request.load(path)
    tried = trial_of(request, path, 60.0).space
    assert tried is not None
    assert {name: tried[name].values for name in request.free} == {
        "threads": (1, 2),
        "affinity": ("none", "close"),
        "allocator": ("glibc", "jemalloc", "tcmalloc"),
    }
    assert list(request.application.named) == ["plain", "inductor"]
    assert "precision" not in {**request.free, **request.fixed}  # other training


def test_the_plain_image_pulls_no_lever_and_the_planned_one_those_of_the_plan(
    application: Path, here: Infrastructure
) -> None:
    request = Request.load(application / "resnet-50.yaml")
    plain = containers_images.plain_setting("resnet-50", request, here)
    spec = containers_images.image_spec(plain, here)
    assert spec.variables == {"LD_PRELOAD": "", "MALLOC_CONF": ""}
    assert spec.name == PLAIN
    assert spec.files == tuple(sorted(SCRIPTS))
    assert plain.variables == {}
    assert plain.levers == {VARIANT: "plain"}
    assert " ".join(plain.words).endswith("--batch 4 --steps 1 --epochs 12")

    point = Point(
        {"epochs": 8, VARIANT: "inductor", "threads": 2, "affinity": "none", "allocator": "glibc"}
    )
    ours = Setting("resnet-50", "forerun", Candidate(point, "cpu", 1), request)
    planned = containers_images.image_spec(ours, here)
    assert planned.variables["OMP_NUM_THREADS"] == "2"
    assert planned.variables["OMP_PROC_BIND"] == "false"
    assert "g++" in planned.system_packages
    assert planned.packages == spec.packages
    assert planned.name == "resnet-50"
    assert ours.words[-1] == "--compile"
    assert ours.variables["OMP_NUM_THREADS"] == "2"
    marks = {containers_images.fingerprint(one, application) for one in (spec, planned)}
    (application / "steps_networks.py").write_text("")
    assert containers_images.fingerprint(spec, application) not in marks
    assert len(marks) == 2


def write(folder: Path, factors: dict[tuple[str, str, str], float], rounds: int = ROUNDS) -> None:
    """Blocks that take 1 s, times a factor, times what all of a sweep share."""
    drawn = np.random.default_rng(1)
    for one in containers_runs.rounds(rounds):
        sweeps = SWEEPS[one.workload]
        drift = drawn.lognormal(0, 0.2, sweeps)
        blocks = {
            way: (5.0, *(factors.get((one.workload, *way), 1.0) * drift * noise))
            for way, noise in zip(WAYS, drawn.lognormal(0, 0.01, (len(WAYS), sweeps)), strict=True)
        }
        starts = dict.fromkeys(WAYS, 2.0)
        timed = Timed(blocks, starts, 0.1, 0.0, "2026-11-16T00:00:00+00:00")
        rows_of.append(folder / "containers.csv", containers_runs.COLUMNS, timed.rows(one))


FASTER = {("mnist-cnn", "forerun", place): 0.8 for place in containers_runs.PLACES}


def test_planted_ratios_are_found(tmp_path: Path) -> None:
    write(tmp_path, {**FASTER, ("resnet-50", "plain", "container"): 1.1})
    found = {one.workload: one for one in containers_table.measured(tmp_path)}
    quick = found["mnist-cnn"].faster
    assert quick.low < 1.25 < quick.high
    assert quick.high - quick.low < 0.02
    assert found["mnist-cnn"].cost("plain").middle == pytest.approx(1, abs=0.02)
    assert found["resnet-50"].cost("plain").middle == pytest.approx(1.1, abs=0.02)


def test_the_first_block_is_left_out_and_a_round_is_used_when_it_is_whole(tmp_path: Path) -> None:
    write(tmp_path, {}, rounds=3)
    lines = (tmp_path / "containers.csv").read_text().splitlines(keepends=True)
    (tmp_path / "containers.csv").write_text("".join(lines[:-1]))
    found = containers_table.measured(tmp_path)
    shapes = {one.workload: one.blocks["plain", "bare"].shape for one in found}
    assert shapes == {"mnist-cnn": (3, 24), "resnet-50": (2, 10)}
    assert max(blocks.max() for one in found for blocks in one.blocks.values()) < 3


def test_claims_hold_or_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, factors, code, rounds in (
        ("fast", FASTER, 0, ROUNDS),
        ("few", FASTER, 1, 5),
        ("same", {}, 1, ROUNDS),
        ("slow", {**FASTER, ("resnet-50", "forerun", "container"): 1.05}, 1, ROUNDS),
        ("dear", {**FASTER, ("resnet-50", "plain", "container"): 1.03}, 1, ROUNDS),
    ):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, factors, rounds)
        assert containers_table.show(folder) == code, name
        printed = capsys.readouterr().out
        assert (": does not hold" in printed) == (code == 1)


def test_a_table_says_what_was_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, FASTER)
    chosen = {"threads": 2, "allocator": "tcmalloc", "variant": "plain"}
    plan = {"chosen": chosen, "candidates": 24, "trials": 40}
    (tmp_path / "containers.json").write_text(json.dumps({"plans": {"mnist-cnn": plan}}))
    containers_table.show(tmp_path)
    printed = capsys.readouterr().out
    assert "threads 2, allocator tcmalloc, variant plain" in printed
    assert "plan of 24 candidates, 40 trials" in printed


def test_without_blocks_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        containers_table.measured(tmp_path)
