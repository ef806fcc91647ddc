from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from forerun.factors import Factor, Point, Space
from forerun.modelling.kept import model_of
from forerun.study import Run, Study

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun

POINT: dict[str, int | str] = {
    "kernel": 3,
    "filters": 16,
    "activation": "relu",
    "optimiser": "adam",
    "batch": 64,
    "samples": 2048,
    "workers": 1,
}


def options(**changed: object) -> list[str]:
    return [w for name, v in {**POINT, **changed}.items() for w in ("-f", f"{name}={v}")]


def test_one_configuration(forerun: Forerun, fitted_study: Study) -> None:
    done = forerun("predict", fitted_study.path, *options())
    assert done.code == 0
    assert "90 % of such runs: " in done.out
    assert " s to " in done.out
    assert "formula alone: " in done.out
    assert done.err == ""


def test_it_is_what_the_model_predicts(forerun: Forerun, fitted_study: Study) -> None:
    done = forerun("predict", fitted_study.path, *options(), "--coverage", "0.5", "--json")
    document = done.document
    (answer,) = document["points"]
    model = model_of(fitted_study).model
    points = fitted_study.table().drop(columns="seconds").iloc[[0]].assign(**POINT)
    assert answer["point"] == POINT
    assert answer["predicted"] == pytest.approx(float(model.predict(points)[0]))
    assert answer["low"] < answer["predicted"] < answer["high"]
    assert document["coverage"] == 0.5
    assert document["unit"] == "s"


def test_lists_and_ranges_give_a_table(forerun: Forerun, fitted_study: Study) -> None:
    done = forerun("predict", fitted_study.path, *options(batch="16..256", activation="relu,tanh"))
    assert done.code == 0
    assert done.out.count("relu") == done.out.count("tanh") == 5
    document = forerun("predict", fitted_study.path, *options(batch="16,32"), "--json").document
    assert [answer["point"]["batch"] for answer in document["points"]] == [16, 32]


def test_a_point_outside_is_predicted_with_a_warning(forerun: Forerun, fitted_study: Study) -> None:
    done = forerun("predict", fitted_study.path, *options(samples=65536))
    assert done.code == 0
    assert "forerun: warning: " in done.err
    assert "samples" in done.err
    answers = forerun("predict", fitted_study.path, *options(samples="2048,65536"), "--json")
    near, far = answers.document["points"]
    assert near["cautions"] == []
    assert far["cautions"]
    assert far["high"] / far["low"] > near["high"] / near["low"]


def test_missing_factors_are_named_with_what_was_measured(
    forerun: Forerun, fitted_study: Study
) -> None:
    done = forerun("predict", fitted_study.path, "-f", "batch=64", "-f", "kernel=3")
    assert done.code == 2
    assert "filters (4 to 32)" in done.err
    assert "activation (relu, sigmoid, tanh)" in done.err
    assert "batch" not in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["-f", "batchh=64"], "found batchh, expected one of kernel"),
        (["-f", "batch"], "found batch, expected NAME=VALUES"),
        ([*options(), "-f", "batch=32"], "found batch twice"),
        (options(batch="many"), "found many, expected a number"),
        (options(activation="gelu"), "gelu"),
        (
            options(batch="1..2000:1", samples="1000..1020:1"),
            "combinations, expected at most 10000",
        ),
        ([*options(), "--coverage", "1"], "--coverage"),
        (options(batch=0), "batch"),
    ],
)
def test_wrong_input_is_refused_in_one_line(
    forerun: Forerun, fitted_study: Study, words: list[str], found: str
) -> None:
    done = forerun("predict", fitted_study.path, *words)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("forerun: error: ")
    assert found in done.err
    assert done.err.count("\n") == 1


def test_a_study_without_a_model_is_fitted_first(forerun: Forerun, fitted_study: Study) -> None:
    fresh = Study.create(fitted_study.path.with_name("fresh.db"), fitted_study.space)
    fresh.add_all(fitted_study.runs())
    done = forerun("predict", fresh.path, *options())
    assert done.code == 0
    assert "no model yet: fitting seconds first" in done.err
    assert fresh.model_document() is not None
    assert forerun("predict", fresh.path, *options()).err == ""


def test_what_ran_out_of_memory_is_a_caution(forerun: Forerun, fitted_study: Study) -> None:
    point = fitted_study.space.point({**POINT, "batch": 4096})
    fitted_study.add(Run(point, status="out_of_memory"))
    caution = "runs like this one ran out of memory: it may not run at all"
    one = forerun("predict", fitted_study.path, *options(batch=4096))
    assert f"forerun: warning: {caution}\n" in one.err
    near, far = forerun("predict", fitted_study.path, *options(batch="64,4096"), "--json").document[
        "points"
    ]
    assert (near["feasible"], near["cautions"]) == (True, [])
    assert (far["feasible"], far["cautions"][0]) == (False, caution)
    rows = forerun("predict", fitted_study.path, *options(batch="64,4096"))
    assert rows.out.count("may run") == 1
    assert rows.err.count(caution) == 1


def test_a_factor_that_never_varied_takes_its_own_value(forerun: Forerun, tmp_path: Path) -> None:
    study = Study.create(
        tmp_path / "runs.db", Space([Factor("batch"), Factor("host", "categorical")])
    )
    study.add_all(Run(Point({"batch": 2**i, "host": "a"}), {"seconds": 2.0**i}) for i in range(8))
    words = ("predict", study.path, "-f", "batch=16", "--json")
    given, left = forerun(*words, "-f", "host=a"), forerun(*words)
    assert given.document == left.document
    assert given.document["points"][0]["point"] == {"batch": 16, "host": "a"}
