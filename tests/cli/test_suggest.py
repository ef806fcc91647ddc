from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun


def test_suggest_lists_points_with_their_cost(forerun: Forerun, fitted_study: Study) -> None:
    done = forerun("suggest", fitted_study.path, "--runs", "3")
    assert done.code == 0
    assert done.out.count("activation ") == 3
    assert "3 runs, about " in done.out


def test_as_json_within_a_budget(forerun: Forerun, fitted_study: Study) -> None:
    words = ("suggest", fitted_study.path, "--runs", "4", "--budget", "20", "--json")
    document = forerun(*words).document
    assert 0 < len(document["suggestions"]) <= 4
    assert document["total_seconds"] <= 20
    for one in document["suggestions"]:
        assert set(one["point"]) == set(fitted_study.space.names)
        assert one["low"] <= one["seconds"] <= one["high"]


@pytest.mark.parametrize("words", [("--runs", "0"), ("--budget", "-5"), ("--budget", "nan")])
def test_wrong_input_is_refused(
    forerun: Forerun, fitted_study: Study, words: tuple[str, ...]
) -> None:
    done = forerun("suggest", fitted_study.path, *words)
    assert done.code == 2
    assert words[0] in done.err
