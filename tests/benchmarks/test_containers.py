"""The containers' pure parts: which blocks, what they print, and how they are judged."""

import json
import shutil
from collections import Counter
from pathlib import Path

import containers_images
import containers_runs
import containers_table
import numpy as np
import pytest
import rows
from containers_images import HERE, PLAIN, SCRIPTS, WORKLOADS, Setting
from containers_runs import ROUNDS, Block, Printed, Timed

from forerun.errors import InputError
from forerun.factors import VARIANT, Point
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate
from forerun.planning.request import Request
from forerun.planning.trials import trial_of

PRINTED = """\
with python 3.11.2, torch 2.13.0+cpu, numpy 2.4.6, libc 2.36; 2 threads
epoch 1 of 3: loss 2.3026, 3.5000 s
epoch 2 of 3: loss 2.3000, 1.2500 s
epoch 3 of 3: loss 2.2900, 1.2600 s
processor time: 9.51 s user, 0.42 s system
"""


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


def test_a_round_has_each_block_once_and_not_always_in_the_same_order() -> None:
    every = containers_runs.blocks()
    assert len(every) == ROUNDS * len(WORKLOADS) * 4 == 240
    assert set(Counter(every).values()) == {1}
    assert [block.round for block in every] == sorted(block.round for block in every)
    first = {(b.setting, b.place) for b in every[::4]}
    assert len(first) == 4
    assert containers_runs.blocks(2) == every[:16]


def test_what_a_block_prints() -> None:
    found = Printed.parse(PRINTED)
    assert found.versions == "python 3.11.2, torch 2.13.0+cpu, numpy 2.4.6, libc 2.36"
    assert found.threads == 2
    assert found.epochs == (3.5, 1.25, 1.26)
    assert (found.user, found.system) == (9.51, 0.42)
    with pytest.raises(InputError, match="found killed, expected at least two epochs"):
        Printed.parse("with python 3; 2 threads\nkilled")


def test_the_script_says_it_so() -> None:
    text = (HERE / "containers_train.py").read_text()
    assert "set_num_threads" not in text
    assert "forerun" not in text


def test_processors_that_others_keep_busy(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 20 30 4000 50 6 7 8 0 0\ncpu0 1 1\n")
    busy, stolen = containers_runs.processors(tmp_path / "stat")
    assert (busy, stolen) == pytest.approx((1.63, 0.08))


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
    assert " ".join(plain.words).endswith("--batch 8 --steps 1 --epochs 6")

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
    """Blocks whose epochs take 1 s, times a factor, times what all of a round share."""
    drawn = np.random.default_rng(1)
    drift = drawn.lognormal(0, 0.05, rounds)
    for block in containers_runs.blocks(rounds):
        taken = factors.get((block.workload, block.setting, block.place), 1.0) * drift[block.round]
        epochs = (5.0, *(taken * drawn.lognormal(0, 0.01, 7)))
        printed = Printed("torch 2", 2, epochs, 1.0, 0.5)
        timed = Timed(printed, sum(epochs) + 2, 0.1, 0.0, "2026-11-16T00:00:00+00:00")
        path = folder / "containers.csv"
        rows.append(path, containers_runs.COLUMNS, [timed.row(block)])


FASTER = {("mnist-cnn", "forerun", place): 0.8 for place in containers_runs.PLACES}


def test_planted_ratios_are_found(tmp_path: Path) -> None:
    write(tmp_path, {**FASTER, ("resnet-50", "plain", "container"): 1.1})
    found = {one.workload: one for one in containers_table.measured(tmp_path)}
    quick = found["mnist-cnn"].faster
    assert quick.low < 1.25 < quick.high
    assert quick.high - quick.low < 0.06
    assert found["mnist-cnn"].cost("plain").middle == pytest.approx(1, abs=0.02)
    assert found["resnet-50"].cost("plain").middle == pytest.approx(1.1, abs=0.02)


def test_the_first_epoch_is_left_out_and_a_round_is_used_when_it_is_whole(tmp_path: Path) -> None:
    write(tmp_path, {}, rounds=3)
    lines = (tmp_path / "containers.csv").read_text().splitlines(keepends=True)
    (tmp_path / "containers.csv").write_text("".join(lines[:-1]))
    found = containers_table.measured(tmp_path)
    assert sorted(len(one.epoch) for one in found) == [2, 3]
    assert max(one.epoch.to_numpy().max() for one in found) < 2


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


def test_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, {}, rounds=1)
    made = (
        tuple(row[k] for k in containers_runs.KEY)
        for row in rows.recorded(tmp_path / "containers.csv")
    )

    def key(block: Block) -> tuple[str, ...]:
        return (block.workload, str(block.round), block.setting, block.place)

    left = list(rows.missing(containers_runs.blocks(), made, key))
    assert left == containers_runs.blocks()[8:]
