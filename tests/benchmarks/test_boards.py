"""Boards on this machine, as far as nobody has to be root for it."""

import json
import subprocess
import sys

import pytest
from boards import CORE, DILATION, MEGABITS, RATE, SPEED, end, next_line, triangle
from hosts import bucket
from patience import ENDLESS, LONG


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may take long to end."""
    monkeypatch.setattr("boards.ENDING", LONG)


def test_time_is_dilated_throughout() -> None:
    assert SPEED / CORE == pytest.approx(RATE / MEGABITS) == pytest.approx(DILATION)


def test_a_swing_has_the_mean_of_its_ends() -> None:
    rate = triangle(10, 100, 2.0)
    assert (rate(0), rate(1), rate(2), rate(2.5)) == (100, 10, 100, 55)
    many = [rate(step / 1000) for step in range(4000)]
    assert sum(many) / len(many) == pytest.approx(55, rel=1e-3)
    assert min(many) >= 10


def test_a_bucket_holds_no_more_than_5_kb_and_pays_for_headers() -> None:
    words = bucket("eth0", 350, 1.0)
    told = dict(zip(words[4::2], words[5::2], strict=True))
    assert told["burst"] == "5kb"
    bits = int(told["rate"].removesuffix("bit"))
    assert bits == pytest.approx(350e6 * (3948 + 66 + 33) / 3948, rel=1e-6)


def program(source: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)


def test_a_line_is_waited_for() -> None:
    ready = "print('{\"ready\": true}', flush=True)"
    waiting = program(f"{ready}; import time; time.sleep({ENDLESS})")
    assert next_line(waiting, LONG) == {"ready": True}
    assert next_line(waiting, 0.05) is None
    end(waiting)
    assert waiting.returncode == -15
    assert waiting.stdout is not None
    waiting.stdout.close()


def test_a_program_that_has_ended_says_nothing() -> None:
    ended = program("raise SystemExit(3)")
    assert next_line(ended, LONG) is None
    end(ended)
    assert ended.returncode == 3
    assert ended.stdout is not None
    ended.stdout.close()


def test_lines_are_json() -> None:
    wrong = program("print('not json', flush=True)")
    with pytest.raises(json.JSONDecodeError):
        next_line(wrong, LONG)
    end(wrong)
    assert wrong.stdout is not None
    wrong.stdout.close()
