import pytest

from forerun.modelling.kept import fit_kept, kept, model_of
from forerun.study import Run, Study


def test_a_model_is_found_again_with_equal_predictions(fitted_study: Study) -> None:
    points = fitted_study.table().drop(columns="seconds")
    first = fit_kept(fitted_study, compare=False, refit=True)
    again = kept(fitted_study)
    assert first.new
    assert again is not None
    assert not again.new
    assert again.model.predict(points).tolist() == first.model.predict(points).tolist()


def test_what_is_compared_later_is_kept_too(fitted_study: Study) -> None:
    fit_kept(fitted_study, compare=False, refit=True)
    compared = fit_kept(fitted_study)
    assert not compared.new
    assert [row.name for row in compared.held_out] == [
        "forerun",
        "formula alone",
        "log-log straight line",
        "random forest",
    ]
    found = kept(fitted_study)
    assert found is not None
    assert found.held_out == compared.held_out


def test_another_run_or_other_settings_ask_for_another_fit(fitted_study: Study) -> None:
    generic = fit_kept(fitted_study, compare=False, expression="generic", strength=0.01)
    assert generic.new
    assert model_of(fitted_study).settings == generic.settings
    run = fitted_study.runs()[0]
    fitted_study.add(Run(run.point, {"seconds": 5.0}))
    assert kept(fitted_study) is None


def test_a_document_that_cannot_be_read_counts_as_none(fitted_study: Study) -> None:
    fitted_study.save_model("seconds", {"model": {"format": 999}}, fitted_study.digest())
    assert kept(fitted_study) is None
    assert fit_kept(fitted_study, compare=False).new


def test_a_study_without_good_runs_is_refused(fitted_study: Study) -> None:
    empty = Study.create(fitted_study.path.with_name("empty.db"), fitted_study.space)
    with pytest.raises(ValueError, match="no run that ended well has seconds"):
        fit_kept(empty)
