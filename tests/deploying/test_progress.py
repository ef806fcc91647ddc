"""How far a job is."""

import math
from pathlib import Path
from statistics import NormalDist

import pytest

from forerun.deploying.progress import Pattern, Steps, Tail, by_prediction
from forerun.deploying.record import Predicted
from forerun.errors import InputError

SAID = Predicted(seconds=100, low=80, high=125, run=100)


def test_at_first_what_was_predicted_is_left() -> None:
    left = by_prediction(SAID, 0.0)
    found = [left.seconds, left.low, left.high]
    assert found == pytest.approx([100, 80, 125], rel=1e-3)
    assert left.share == 0


def test_later_what_went_by_is_taken_from_it() -> None:
    left = by_prediction(SAID, 40.0)
    assert left.seconds == pytest.approx(60, rel=1e-3)
    assert [left.low, left.high] == pytest.approx([40, 85], rel=0.02)
    assert left.share == pytest.approx(0.4, rel=1e-3)


def test_beyond_the_prediction_there_is_still_something_left() -> None:
    left = by_prediction(SAID, 120.0)
    normal = NormalDist(math.log(100), math.log(125 / 80) / (2 * 1.6449))
    gone = normal.cdf(math.log(120))
    median = math.exp(normal.inv_cdf(gone + (1 - gone) / 2))
    assert left.seconds == pytest.approx(median - 120, rel=1e-3)
    assert 0 < left.low < left.seconds < left.high
    assert by_prediction(SAID, 1e6).seconds >= 0


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        ("epoch {n}", "Epoch 12 of 90: loss 0.3", (12, 90)),
        ("epoch {n}/{of}", "epoch 3/7", (3, 7)),
        ("[{n}/{of}]", "x [4/10] y", (4, 10)),
        ("epoch {n}", "nothing", None),
        ("{n}%", "37% done", (37, 90)),
    ],
)
def test_a_line_tells_a_step(pattern: str, line: str, found: object) -> None:
    assert Pattern(pattern, 90).search(line) == found


@pytest.mark.parametrize(("pattern", "total"), [("epoch", 3), ("{n}{n}", 3), ("{n}", 0)])
def test_what_tells_nothing_is_refused(pattern: str, total: int) -> None:
    with pytest.raises(InputError):
        Pattern(pattern, total)


def test_the_pace_of_steps_tells_what_is_left() -> None:
    steps = Steps(Pattern("epoch {n}/{of}"))
    assert steps.left(0.0) is None
    for epoch, when in ((1, 10.0), (2, 12.0), (3, 14.1), (4, 15.9)):
        steps.take(f"epoch {epoch}/10\nloss 3\n", when)
    left = steps.left(15.9)
    assert left is not None
    assert left.seconds == pytest.approx(6 * 5.9 / 3)
    assert left.low < left.seconds < left.high
    assert (left.share, left.source) == (0.4, "output")
    assert not steps.are_all
    later = steps.left(16.9)
    assert later is not None
    assert later.seconds == pytest.approx(left.seconds - 1)
    steps.take("epoch 10/10", 30.0)
    assert steps.are_all


def test_lines_that_came_together_are_one_look() -> None:
    steps = Steps(Pattern("epoch {n}", 9), total=9)
    steps.take("epoch 1\nepoch 2\nepoch 3\n", 5.0)
    assert (steps.seen, steps.last) == ([(5.0, 3)], 3)
    assert steps.left(5.0) is None


def test_a_file_is_read_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    assert tail.read() == ""
    path.write_text("one\ntw")
    assert tail.read() == "one\n"
    with path.open("a") as file:
        file.write("o\n50 %\r60 %")
    assert tail.read() == "two\n50 %\r"
    assert tail.rest() == "60 %"
    path.write_text("new\n")  # cut and written anew
    assert tail.read() == "new\n"
    assert tail.read() == ""
