"""How a rule of what fits is judged, and the numbers of the network that was measured."""

import pytest
from memory import QUANTILES, lenet, report, shares

POINT = {
    "kernel": 5,
    "pool": 2,
    "filters": 6,
    "padding": "valid",
    "stride": 1,
    "dataset": "mnist",
    "optimiser": "sgd",
}


def test_what_is_called_feasible_and_runs_out_is_counted() -> None:
    measured = [float(x) for x in range(1, 11)]
    right = {"measured": measured, "upper": {"0.9": measured}}
    assert shares([right], 0.9)[:2] == (0.0, 0.0)
    refusing = {"measured": measured, "upper": {"0.9": [100.0] * 10}}
    assert shares([refusing], 0.9) == (0.0, 1.0, 0)
    hopeful = {"measured": measured, "upper": {"0.9": [0.0] * 10}}
    wrong, refused, called = shares([hopeful], 0.9)
    assert (refused, called) == (0.0, 10 * len(QUANTILES))
    # Room for 1, 3, 5, 7 and 9 of ten.
    assert wrong == pytest.approx(25 / 50)


def test_the_goal_is_kept_or_missed(capsys: pytest.CaptureFixture[str]) -> None:
    from memory import COVERAGES

    measured = [float(x) for x in range(1, 11)]
    for upper, kept in ((measured, True), ([0.0] * 10, False)):
        one = {"measured": measured, "upper": {str(c): upper for c in COVERAGES}}
        assert report({"pytorch": [one]}) is kept
        assert ("kept" if kept else "missed") in capsys.readouterr().out


def test_the_network_in_numbers() -> None:
    found = lenet(POINT)
    convolutions = 6 * 26 + 12 * (6 * 25 + 1)
    dense = 120 * (12 * 16 + 1) + 84 * 121 + 10 * 85
    assert found.parameters == convolutions + dense
    images = 6 * (2 * 24**2 + 12**2) + 12 * (2 * 8**2 + 4**2)
    assert found.activation_bytes == 4 * (images + 3 * 120 + 2 * 84 + 10)
