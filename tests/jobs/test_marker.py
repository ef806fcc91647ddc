"""Seconds from what a program prints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.errors import InputError
from forerun.jobs import marker as marker_module
from forerun.jobs.marker import Marker, Printed


def printed(*lines: tuple[str, float]) -> Printed:
    """Lines, each of which came by itself, and when."""
    text, offsets = b"", []
    for line, _ in lines:
        text += line.encode() + b"\n"
        offsets.append(len(text))
    return Printed(text, offsets, [now for _, now in lines])


TRAINING = printed(
    ("loading", 0.5),
    ("epoch 1: loss 2.1, 1.25 s", 2.0),
    ("saved", 2.5),
    ("epoch 2: loss 1.9, 1.5e0 s", 3.0),
    ("epoch 3: loss 1.8, 1.75 s", 5.0),
    ("done in 9 s", 9.0),
)


@pytest.mark.parametrize(
    ("pattern", "seconds"),
    [
        ("^epoch", 1.5),  # three matches, 2 s to 5 s
        ("loading|saved", 2.0),  # two: from the first to the last
        ("epoch (?:1|3)", 3.0),
        (r", (\S+) s", 1.75),
        (r"in (\d+) s", 9.0),
        (r"loading|epoch 2.*, (\S+) s|saved", 1.5),  # the last that was captured
        (r"loss(?=.*1\.9.*?, (\S+))", 1.5),
    ],
)
def test_times_between_lines_and_numbers_in_them(pattern: str, seconds: float) -> None:
    assert Marker(pattern).seconds(TRAINING) == seconds


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("none", "found no matches in the output, expected two or more of none"),
        ("epoch 2", "found 1 match in the output, expected two or more of epoch 2"),
        ("none (.*)", "found no match in the output, expected a match of none (.*)"),
        (r"(\w+) in 9", "found done, expected a number of seconds above 0"),
        (r"do(ne)? in 9", "found ne, expected a number of seconds above 0"),
    ],
)
def test_an_output_that_tells_no_time(pattern: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Marker(pattern).seconds(TRAINING)
    assert str(caught.value) == f"marker: {message}"


@pytest.mark.parametrize("number", ["0", "-1", "nan", "inf", "1.2.3", ""])
def test_a_number_that_is_no_time(number: str) -> None:
    with pytest.raises(InputError, match="expected a number of seconds above 0"):
        Marker("took (.*) s").seconds(Printed(f"took {number} s\n".encode()))


def test_lines_that_come_at_once_are_held_back_by_the_program() -> None:
    buffered = Printed(b"epoch 1\nepoch 2\nepoch 3\n", [24], [7.0])
    with pytest.raises(InputError, match="found 3 matches that came at once"):
        Marker("epoch").seconds(buffered)


def test_a_progress_bar_and_a_last_line_without_its_end() -> None:
    bar = Printed(b"10 %\r50 %\r90 %", [5, 10], [1.0, 2.5])
    assert Marker("%").seconds(bar) == 0.75
    assert Marker(r"(\d+) %").seconds(bar) == 90


def test_bytes_that_are_no_text() -> None:
    assert Marker("µ=(.*)").seconds(Printed(b"\xff\xfe \xc2\xb5=2\n")) == 2.0


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("(", "a regular expression: missing )"),
        ("*", "a regular expression: "),
        ("(a)(b)", "one capture group at most"),
        ("(?R)?a", "a pattern that does not call itself"),
        ("(a(?1)?)", "a pattern that does not call itself"),
        ("(?P<n>a(?&n)?)", "a pattern that does not call itself"),
        ("(?:" * 3000 + ")" * 3000, "a regular expression: "),
    ],
)
def test_a_bad_pattern_is_told_at_once(pattern: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        Marker(pattern)
    assert str(caught.value).startswith("marker: found ")
    assert expected in str(caught.value)


def test_a_bracket_and_a_question_mark_are_no_call() -> None:
    assert Marker(r"done \(?R").pattern == r"done \(?R"


def test_the_time_limit_holds_for_many_short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_module, "LIMIT", 0.0)
    with pytest.raises(InputError, match="expected a pattern that is matched within 0 s"):
        Marker("a").seconds(printed(("a", 1.0), ("a", 2.0)))


def test_matching_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_module, "LIMIT", 0.2)
    slow = printed(*((f"{'a' * 60}b", float(i)) for i in range(1000)))
    with pytest.raises(InputError, match=r"expected a pattern that is matched within 0\.2 s"):
        Marker(r"^(?:a|aa|a{3})+$").seconds(slow)


@given(
    gaps=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30),
    noise=st.lists(st.text(max_size=5).filter(lambda text: "epoch" not in text), max_size=3),
)
def test_the_mean_time_between_matches(gaps: list[float], noise: list[str]) -> None:
    now, lines = 0.0, [("epoch", 0.0)]
    for gap in gaps:
        lines += [(text, now) for text in noise]
        now += gap
        lines.append(("epoch", now))
    assert Marker("epoch").seconds(printed(*lines)) == pytest.approx(now / len(gaps))
