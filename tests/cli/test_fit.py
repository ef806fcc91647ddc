from __future__ import annotations

from typing import TYPE_CHECKING

from forerun.study import Run, Study

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun


def test_fit_says_the_formula_its_errors_and_what_matters(
    forerun: Forerun, fitted_study: Study
) -> None:
    done = forerun("fit", fitted_study.path)
    assert done.code == 0
    assert "seconds =" in done.out
    for name in ("forerun", "formula alone", "log-log straight line", "random forest"):
        assert name in done.out
    for factor in fitted_study.space.names:
        assert factor in done.out
    assert f"next: forerun predict {fitted_study.path} -f kernel=" in done.out


def test_a_model_that_is_up_to_date_is_not_fitted_again(
    forerun: Forerun, fitted_study: Study
) -> None:
    stored = fitted_study.model_document()
    done = forerun("fit", fitted_study.path, "--json")
    assert done.code == 0
    assert "up to date" in done.err
    assert "--refit" in done.err
    assert done.document["fitted_now"] is False
    assert fitted_study.model_document() == stored


def test_other_settings_are_fitted_and_kept(forerun: Forerun, fitted_study: Study) -> None:
    words = ("fit", fitted_study.path, "--expression", "generic", "--no-compare", "--json")
    done = forerun(*words, "--strength", "0.001", "--loss", "relative", "--seed", "7")
    assert done.code == 0
    document = done.document
    assert document["fitted_now"] is True
    assert document["held_out"] == []
    assert document["settings"] == {
        "expression": "generic",
        "loss": "relative",
        "strength": 0.001,
        "random_state": 7,
    }
    assert (
        forerun("fit", fitted_study.path, "--no-compare", "--json").document["fitted_now"] is True
    )


def test_a_new_run_makes_the_model_stale(forerun: Forerun, fitted_study: Study) -> None:
    run = fitted_study.runs()[0]
    fitted_study.add(Run(run.point, {"seconds": 5.0}))
    done = forerun("fit", fitted_study.path, "--no-compare", "--json")
    assert done.document["fitted_now"] is True
    assert done.document["runs"] == len(fitted_study.table())


def test_memory_is_fitted_too(forerun: Forerun, fitted_study: Study) -> None:
    done = forerun("fit", fitted_study.path, "--target", "memory", "--no-compare")
    assert done.code == 0
    assert "memory_bytes =" in done.out
    assert fitted_study.model_document("memory_bytes") is not None


def test_an_unknown_target_is_refused(forerun: Forerun, fitted_study: Study) -> None:
    done = forerun("fit", fitted_study.path, "--target", "joules")
    assert done.code == 2
    assert "found joules, expected one of seconds, memory_bytes" in done.err


def test_a_strength_that_is_no_number_is_refused(forerun: Forerun, fitted_study: Study) -> None:
    for text in ("much", "-1", "nan", "inf"):
        done = forerun("fit", fitted_study.path, "--strength", text)
        assert done.code == 2
        assert "--strength" in done.err


def test_one_run_is_refused(forerun: Forerun, fitted_study: Study) -> None:
    lonely = Study.create(fitted_study.path.with_name("one.db"), fitted_study.space)
    lonely.add(fitted_study.runs("ok")[0])
    done = forerun("fit", lonely.path)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert lonely.model_document() is None
