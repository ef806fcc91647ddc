"""What a run takes that reads its data from elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.planning.reading import Reading, cannot_have_read

SECONDS = st.floats(0, 1e6)


@pytest.mark.parametrize(
    ("overlap", "least", "most"),
    [(False, 110.0, 110.0), (True, 100.0, 100.0), (None, 100.0, 110.0)],
)
def test_slower_storage(overlap: bool | None, least: float, most: float) -> None:
    reading = Reading(here=100.0, there=10.0, overlap=overlap)
    assert reading.bounds(20.0) == (least, most)  # 10 s of it are computing, if nothing overlaps
    assert reading.likely(20.0) == (least + most) / 2


@pytest.mark.parametrize(
    ("overlap", "least", "most"),
    [(False, 40.0, 40.0), (True, 130.0, 130.0), (None, 40.0, 130.0)],
)
def test_faster_storage(overlap: bool | None, least: float, most: float) -> None:
    reading = Reading(here=10.0, there=100.0, overlap=overlap)
    assert reading.bounds(130.0) == (least, most)  # 30 s of computing, or 130 s that hide reading


def test_runs_that_waited_for_their_data_do_not_tell_what_computing_takes() -> None:
    reading = Reading(here=10.0, there=100.0, overlap=True)
    assert reading.bounds(100.0) == (10.0, 100.0)
    (told,) = reading.cautions(100.0)
    assert told == "the measured runs waited for their data: the run takes 10 s to 1 min 40 s"


def test_runs_too_quick_to_have_read_from_there() -> None:
    assert cannot_have_read([20.0, 95.0, 80.0], [100.0, 100.0, 100.0])  # not more than a tenth off
    assert not cannot_have_read([20.0, 95.0, 92.0], [100.0, 100.0, 100.0])
    reading = Reading(100.0, 0.0, False, cached="home")
    assert reading.bounds(20.0) == (120.0, 120.0)
    (told,) = reading.cautions(20.0)
    assert told.startswith("the runs were too quick to have read their data from home")


def test_what_is_not_known_is_said() -> None:
    (told,) = Reading(here=100.0, there=10.0).cautions(20.0)
    assert told.startswith("whether data is read while computing is not known (data.overlap)")
    assert Reading(here=100.0, there=10.0, overlap=True).cautions(20.0) == ()


@given(SECONDS, SECONDS, SECONDS, st.sampled_from([True, False, None]))
def test_bounds_hold_the_reading_and_what_nobody_knows_holds_both(
    run: float, here: float, there: float, overlap: bool | None
) -> None:
    least, most = Reading(here, there, overlap).bounds(run)
    assert here <= least <= most
    low, high = Reading(here, there, None).bounds(run)
    assert low <= least * (1 + 1e-12)  # but for rounding
    assert most <= high * (1 + 1e-12)


@given(SECONDS, SECONDS, SECONDS, SECONDS, st.sampled_from([True, False, None]))
def test_what_takes_longer_there_takes_no_less_here(
    run: float, more: float, here: float, there: float, overlap: bool | None
) -> None:
    reading = Reading(here, there, overlap)
    assert reading.likely(run + more) >= reading.likely(run) * (1 - 1e-12)


@given(SECONDS, SECONDS, st.sampled_from([True, False, None]))
def test_the_measured_storage_gives_what_was_measured(
    reading: float, computing: float, overlap: bool | None
) -> None:
    run = reading + computing
    assert Reading(reading, reading, overlap).bounds(run) == pytest.approx((run, run))
