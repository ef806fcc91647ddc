import pytest

from forerun.plots.mathml import mathml


def test_a_product_with_negative_exponents_is_a_fraction() -> None:
    made = mathml("seconds = 2.0 * samples**0.7 * batch**-0.3", "seconds")
    assert "<mfrac>" in made
    above, below = made.split("<mfrac>")[1].split("</mfrac>")[0].split("</mrow><mrow>")
    assert "samples" in above
    assert "batch" in below
    assert "-" not in below


def test_each_term_has_its_own_row() -> None:
    made = mathml("seconds = 1.5 * batch + 2.0 / workers + 0.1", "seconds")
    assert made.count("<span></span>") == 2


def test_a_function_is_read_too() -> None:
    made = mathml('def seconds(x):\n    "doc"\n    return 2 * x["batch size"]', "seconds")
    assert ">batch size</mi>" in made


def test_small_numbers_are_powers_of_ten() -> None:
    assert "<msup><mn>10</mn><mn>-6</mn></msup>" in mathml("y = 3.1e-06 * x", "y")


def test_a_sum_inside_a_product_keeps_its_brackets() -> None:
    assert mathml("y = (a + b) * c", "y").count("<mo>(</mo>") == 1


def test_names_are_escaped() -> None:
    made = mathml('y = 2 * x["<script>alert(1)</script>"]', "<b>")
    assert "<script>" not in made
    assert "<b>" not in made
    assert "&lt;script&gt;" in made


@pytest.mark.parametrize("text", ["", "not a formula (", "y = [1, 2]", "y = lambda: 0", "y = None"])
def test_what_is_no_formula_gives_nothing(text: str) -> None:
    assert mathml(text, "y") == ""
