"""The stated error: what models think of themselves, put right by runs at random points."""

import pytest

from forerun.measuring.stated import BIAS, DOUBTS, Surprise, state


def test_before_any_random_run_a_model_is_thought_too_sure_of_itself() -> None:
    stated = state([0.1], [])
    assert stated.mape == pytest.approx(BIAS * 0.1)
    assert stated.low < stated.mape < stated.high
    assert stated.runs == 0


def test_the_least_sure_of_the_last_models_counts() -> None:
    assert state([0.02, 0.1], []) == state([0.1], [])


def test_many_random_runs_outweigh_the_models() -> None:
    twice = [Surprise(0.2, 0.1)] * 1000
    assert state([0.1], twice).mape == pytest.approx(0.2, rel=0.01)


def test_as_many_random_runs_as_doubts_count_half() -> None:
    right = [Surprise(0.1, 0.1)] * int(DOUBTS)
    assert state([0.1], right).mape == pytest.approx(BIAS**0.5 * 0.1)
    assert state([0.1], right).high < state([0.1], []).high


def test_runs_that_were_predicted_exactly_are_no_error() -> None:
    assert state([0.1], [Surprise(0.0, 0.0)]).mape > 0
