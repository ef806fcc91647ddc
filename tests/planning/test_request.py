"""Requests as files hold them."""

from pathlib import Path

import pytest

from forerun.errors import InputError
from forerun.planning.request import BatchEffect, Goal, Request

TEXT = """
name: lenet
application:
  command: python train.py --batch {batch} --workers {workers}
  framework: pytorch
study: runs/lenet.db
data: {size: 12 GB, at: home, passes: 90}
fixed: {batch: 64}
free: {workers: 1..8, precision: [float32, bfloat16]}
objective: {time: 3, cost: 1}
constraints: {deadline: 12h, budget: 40, memory: 16 GiB, efficiency: 70%}
"""


def load(tmp_path: Path, text: str) -> Request:
    file = tmp_path / "request.yaml"
    file.write_text(text)
    return Request.load(file)


def test_a_file_is_read_with_its_units(tmp_path: Path) -> None:
    found = load(tmp_path, TEXT)
    assert found.study == tmp_path / "runs" / "lenet.db"
    assert found.application.directory == str(tmp_path)
    assert found.application.named == {"": "python train.py --batch {batch} --workers {workers}"}
    assert found.constraints.deadline == 43200
    assert found.constraints.efficiency == 0.7
    assert found.data is not None
    assert (found.data.size, found.data.passes) == (12e9, 90)
    assert found.choices("batch") == (64,)
    assert found.choices("workers") == (1, 2, 3, 4, 5, 6, 7, 8)
    assert found.choices("precision") == ("float32", "bfloat16")
    assert found.choices("kernel") is None


def test_an_objective_may_be_one_word(tmp_path: Path) -> None:
    found = load(tmp_path, TEXT.replace("{time: 3, cost: 1}", "cost"))
    assert found.objective == {"cost": 1.0}


def test_a_score_weighs_what_is_wanted_against_the_best(tmp_path: Path) -> None:
    found = load(tmp_path, TEXT)
    best: dict[Goal, float] = {"time": 10.0, "cost": 2.0, "energy": 1.0}
    assert found.score({"time": 20.0, "cost": 2.0, "energy": 9.0}, best) == (3 * 2 + 1) / 4


def test_larger_batches_need_more_samples() -> None:
    effect = BatchEffect(reference=32, noise=1000)
    assert effect.samples(32) == 1
    assert effect.samples(2064) == pytest.approx(3064 / 1032)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("  command: python", "  comand: python"), "application.comand: found a field of that"),
        (("  command: python train.py --batch {batch} --workers {workers}\n", ""), "a command, or"),
        (("free: {workers: 1..8,", "free: {workers: 8..1,"), "free: factor workers"),
        (("fixed: {batch: 64}", "fixed: {workers: 2}"), "workers either fixed or free, not both"),
        (("{time: 3, cost: 1}", "{time: 0}"), "at least one weight above 0"),
        (("{time: 3, cost: 1}", "fun"), "objective.fun"),
        (("70%", "170%"), "constraints.efficiency: found 170%, expected a percentage"),
        (("budget: 40", "budget: -1"), "constraints.budget: found -1, expected more than 0"),
        (("12h", "12 parsecs"), "constraints.deadline: found 12 parsecs"),
        (("size: 12 GB", "size: 0"), "data.size: found 0, expected more than 0"),
        (("pytorch", "caffe"), "application.framework: found caffe"),
        (("name: lenet", 'name: "le\\nnet"'), "name: found le\\nnet, expected a text of one line"),
        (("  command: python", '  commands: {"": a}\n  source: python'), "application.commands"),
        (("runs/lenet.db", '"runs\\0.db"'), "study: found runs\\x00.db, expected a text of one"),
        (("study: runs", 'network: "a\\0.onnx"\nstudy: runs'), "network: found a\\x00.onnx"),
        (("{batch: 64}", "{batch: null}"), "fixed.batch: found NoneType, expected a text, a num"),
        (("{batch: 64}", "{batch: [64]}"), "fixed.batch: found list, expected a text, a number"),
        (("{batch: 64}", "{batch: '1,2'}"), "fixed.batch: found 1,2, expected one value"),
        (("{batch: 64}", "{batch: 1..4}"), "fixed.batch: found 1..4, expected one value"),
        (("{workers: 1..8,", "{workers: [1, null],"), "free.workers: found list, expected a text"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    assert change[0] in TEXT
    with pytest.raises(InputError) as refused:
        load(tmp_path, TEXT.replace(*change, 1))
    assert told in str(refused.value)
    assert "request.yaml" in str(refused.value)
    assert "\n" not in str(refused.value)
