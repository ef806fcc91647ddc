"""Text that a shell reads, by a shell."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.jobs.quoting import command, quote, word, words

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=50)


def echoed(shell: str) -> list[str]:
    """The words that bash makes of a text."""
    script = f"A='v  \"*'; printf '%s\\0' {shell}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


@settings(max_examples=30, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=8))
def test_words_come_out_as_they_went_in(texts: list[str]) -> None:
    assert echoed(words(texts, expand=False)) == texts


@settings(max_examples=30, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5))
def test_a_variable_among_any_text_is_all_that_is_expanded(texts: list[str]) -> None:
    text = "${A}".join(part.replace("${", "$ {") for part in texts)
    assert echoed(word(text, expand=True)) == [text.replace("${A}", 'v  "*')]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a b", "'a b'"),
        ("", "''"),
        ("${A}", '"${A}"'),
        ("${A}/x y", '"${A}/x y"'),
        ('"${A}$B`', '"\\"${A}\\$B\\`"'),
        ("${A:-b}", "'${A:-b}'"),
        ("$A", "'$A'"),
    ],
)
def test_how_words_are_written(text: str, expected: str) -> None:
    assert word(text, expand=True) == expected
    assert word(text, expand=False) == quote(text)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("make", "-j", "4"), "make -j 4"),
        (("./run.sh", "a b"), "./run.sh 'a b'"),
        (("if", "x"), "'if' x"),
        (("A=b", "x"), "'A=b' x"),
        (("it's",), "'it'\"'\"'s'"),
    ],
)
def test_what_stands_first_is_a_program(texts: tuple[str, ...], expected: str) -> None:
    assert command(texts, expand=False) == expected
