from dataclasses import replace

import pytest

from forerun.cli.tables import effect, error, formula_lines, span, words, wrapped
from forerun.factors import Factor
from forerun.modelling.explain import FactorEffect


def test_a_short_formula_stays_on_its_line() -> None:
    assert formula_lines("seconds = 2·batch + 1", 80).plain == "  seconds = 2·batch + 1"


def test_a_long_formula_breaks_between_its_terms_and_not_inside_brackets() -> None:
    lines = formula_lines("seconds = 0.1·(kernel + filters)·batch + 2.5 + 3·workers", 40).plain
    assert lines.splitlines() == [
        "  seconds =",
        "      0.1·(kernel + filters)·batch",
        "    + 2.5",
        "    + 3·workers",
    ]


def test_a_long_term_breaks_between_its_factors() -> None:
    term = "1.5·kernel^0.5·[act: relu 1·2, tanh 2]·batch"
    assert wrapped(term, 16).splitlines() == [
        "1.5·kernel^0.5·",
        "[act: relu 1·2,",
        "tanh 2]·",
        "batch",
    ]


def test_what_was_measured_of_a_factor() -> None:
    assert span(Factor("batch", unit="images"), [16, 256, 32]) == "16 to 256 images"
    assert span(Factor("act", "categorical"), ["tanh", "relu", "tanh"]) == "relu, tanh"
    many = [f"level{i}" for i in range(20)]
    assert span(Factor("act", "categorical"), many).endswith(" and 12 more")


def test_the_effect_of_a_factor() -> None:
    doubled = FactorEffect("batch", "numeric", "extrinsic", 0.5, -1.0, None, None, None)
    assert effect(doubled) == "twice as much: × 0.5"
    levels = {"relu": 1.0, "tanh": 1.25, "gelu": 0.5}
    each = FactorEffect("act", "categorical", "intrinsic", 0.5, None, None, None, levels)
    assert effect(each) == "gelu × 0.5, relu × 1, tanh × 1.25"
    many = replace(each, levels={name: float(i) for i, name in enumerate("abcdef", start=1)})
    assert effect(many) == "a × 1, b × 2, …, e × 5, f × 6"


def test_a_point_in_words() -> None:
    assert words({"batch": 64, "activation": "relu"}) == "batch 64, activation relu"


@pytest.mark.parametrize(("share", "text"), [(0.061, "6.1 %"), (None, "–")])
def test_an_error_that_could_not_be_measured(share: float | None, text: str) -> None:
    assert error(share) == text
