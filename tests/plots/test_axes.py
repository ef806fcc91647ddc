from hypothesis import given
from hypothesis import strategies as st

from forerun.plots.axes import factor_axis, ratio_axis, target_axis


def test_a_factor_with_few_values_has_them_as_ticks() -> None:
    axis = factor_axis([16, 32, 64, 128], "batch", "images")
    assert axis.labels == ("16", "32", "64", "128")
    assert axis.log
    assert axis.title == "batch (images)"


def test_a_factor_that_can_be_zero_is_linear() -> None:
    axis = factor_axis([0.0, 0.1, 0.5], "dropout")
    assert not axis.log
    assert axis.ticks == (0.0, 0.1, 0.5)


def test_a_target_has_one_unit() -> None:
    axis = target_axis([400.0, 1000.0, 1500.0], "seconds")
    assert axis.title == "run time (min)"
    assert axis.low == 0
    assert axis.ticks[axis.labels.index("10")] == 600


def test_a_target_over_decades_is_logarithmic() -> None:
    axis = target_axis([0.01, 1.0, 100.0], "seconds")
    assert axis.log
    assert axis.labels == ("0.01", "0.1", "1", "10", "100")


def test_a_ratio_is_even_on_both_sides_of_one() -> None:
    axis = ratio_axis([0.8, 1.0, 1.2])
    assert axis.low * axis.high == 1
    assert axis.labels == ("÷ 1.25", "÷ 1.1", "1", "× 1.1", "× 1.25")


@given(st.lists(st.floats(min_value=1e-12, max_value=1e12), min_size=1, max_size=30))
def test_ticks_lie_within_the_axis_and_are_few(values: list[float]) -> None:
    for axis in (target_axis(values, "seconds"), factor_axis(values, "x"), ratio_axis(values)):
        assert 1 <= len(axis.ticks) == len(axis.labels) <= 12
        assert list(axis.ticks) == sorted(axis.ticks)
        slack = 1e-9 * abs(axis.high)
        assert all(axis.low - slack <= tick <= axis.high + slack for tick in axis.ticks)
