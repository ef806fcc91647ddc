"""Ranges whose numbers are too large or too small to count with."""

import re

import pytest

from forerun._ranges import listed
from forerun.errors import FactorError


@pytest.mark.parametrize(
    "text",
    [
        "1e-301..1",
        "0..1:1e-400",
        "-1e-999999999..1",
        "1..1e301",
        "1..1e9999999999999999999",
        "1e-9999999999999999999..1",
        "0..1:1e-9999999999999999999",
        "0..1e999999999999999999",
    ],
)
def test_sizes_that_no_float_holds_are_refused(text: str) -> None:
    with pytest.raises(FactorError) as caught:
        listed("n", text)
    assert str(caught.value) == (
        f"factor n: found {text}, expected finite numbers, 0 or between 1e-300 and 1e300 in size"
    )


def test_the_largest_and_smallest_sizes() -> None:
    assert listed("n", "0..1e-299:5e-300") == [0, 5e-300, 1e-299]
    assert listed("n", "1e299..1e300:9e299") == [1e299, 1e300]
    assert listed("n", "0..0") == [0]


def test_a_tiny_step_is_too_many_values() -> None:
    with pytest.raises(FactorError, match="expected a step that gives up to 100000"):
        listed("n", "0..1e300:1e-300")


@pytest.mark.parametrize(("text", "meant"), [("16-256", "16..256"), ("16...256", "16..256")])
def test_ranges_as_others_write_them_are_put_right(text: str, meant: str) -> None:
    with pytest.raises(FactorError, match=re.escape(meant)):
        listed("batch", text)


def test_a_level_may_have_a_dash_where_there_are_others() -> None:
    assert listed("layers", "2-4,4-8") == ["2-4", "4-8"]
