from __future__ import annotations

from typing import TYPE_CHECKING

from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun


def test_explain_says_what_drives_the_time(forerun: Forerun, fitted_study: Study) -> None:
    done = forerun("explain", fitted_study.path)
    assert done.code == 0
    assert "seconds =" in done.out
    assert "The formula alone carries" in done.out
    assert "the most measured" in done.out
    for factor in fitted_study.space.names:
        assert factor in done.out


def test_as_json(forerun: Forerun, fitted_study: Study) -> None:
    document = forerun("explain", fitted_study.path, "--json").document
    shares = [factor["contribution"] for factor in document["factors"]]
    assert {factor["name"] for factor in document["factors"]} == set(fitted_study.space.names)
    assert shares == sorted(shares, reverse=True)
    assert 0 < document["formula_share"] <= 1
    assert document["workers"]["name"] == "workers"
