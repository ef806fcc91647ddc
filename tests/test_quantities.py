import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.quantities import (
    amount,
    between,
    large,
    money,
    number,
    percent,
    scale_of,
    seconds,
    unit_of,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8.5e-7, "850 ns"),
        (0.0012, "1.2 ms"),
        (0.99996, "1 s"),
        (3.4, "3.4 s"),
        (59.94, "59.9 s"),
        (59.97, "1 min"),
        (125, "2 min 5 s"),
        (3599.7, "1 h"),
        (12_000, "3 h 20 min"),
        (86_390, "1 d"),
        (190_000, "2 d 5 h"),
        (0, "0 s"),
        (math.inf, "inf s"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "target", "text"),
    [
        (512, "memory_bytes", "512 B"),
        (1.4e9, "memory_bytes", "1.3 GiB"),
        (12_345, "joules", "12.3 kJ"),
        (0.25, "loss", "0.25"),
        (7.5, "seconds", "7.5 s"),
        (90.0, "user_seconds", "1 min 30 s"),
    ],
)
def test_amount(value: float, target: str, text: str) -> None:
    assert amount(value, target) == text


def test_amount_of_an_unknown_column_takes_the_given_unit() -> None:
    assert amount(3.0, "power", "W") == "3 W"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (950, "950"), (12_345, "12.3 k"), (4.09e9, "4.09 G")]
)
def test_large(count: float, text: str) -> None:
    assert large(count) == text


def test_between() -> None:
    assert between(0.9, 1.2) == "900 ms to 1.2 s"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (0.0003, "< 0.1 %"),
        (0.0037, "0.4 %"),
        (0.09, "9.0 %"),
        (0.123, "12 %"),
        (0.997, "99.7 %"),
        (1.0, "100 %"),
        (1.4, "140 %"),
    ],
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


def test_units() -> None:
    assert [unit_of(t) for t in ("seconds", "memory_bytes", "joules", "loss")] == [
        "s",
        "B",
        "J",
        "",
    ]


@pytest.mark.parametrize(
    ("value", "scale"),
    [(0.02, (1e-3, "ms")), (250, (1.0, "s")), (500, (60.0, "min")), (20_000, (3600.0, "h"))],
)
def test_the_unit_of_an_axis(value: float, scale: tuple[float, str]) -> None:
    assert scale_of(value, "seconds") == scale


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_number_is_right_to_three_digits(value: float) -> None:
    assert float(number(value)) == pytest.approx(value, rel=0.006)


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_a_duration_says_what_it_is_worth(value: float) -> None:
    worth = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400}
    words = seconds(value).split()
    total = sum(float(n) * worth[u] for n, u in zip(words[::2], words[1::2], strict=True))
    assert total == pytest.approx(value, rel=0.03)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.00123456, "0.00123"), (0.5, "0.5"), (0.996, "1.00"), (12.346, "12.35")],
)
def test_money_of_less_than_a_cent_is_not_nothing(value: float, text: str) -> None:
    assert money(value, "EUR") == f"{text} EUR"
