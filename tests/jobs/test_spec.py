"""What a job may be, before any scheduler sees it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hostile import STRINGS
from job_specs import FULL, PLAIN

from forerun.errors import InputError
from forerun.jobs.spec import Container, Staging, commands


def test_a_job_with_every_option_is_taken() -> None:
    assert FULL.walltime == 90061.5
    assert FULL.staging == Staging("/archive/images", "/scratch/images")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"words": ()}, "command"),
        ({"words": ("",)}, "command"),
        ({"uid": "0123"}, "uid"),
        ({"uid": "G" * 32}, "uid"),
        ({"folder": "jobs"}, "folder"),
        ({"folder": ""}, "folder"),
        ({"directory": "here"}, "directory"),
        ({"nodes": 0}, "nodes"),
        ({"nodes": True}, "nodes"),
        ({"processes": 0}, "processes"),
        ({"cores": 0}, "cores"),
        ({"accelerators": -1}, "accelerators"),
        ({"memory": 0}, "memory"),
        ({"walltime": 0.0}, "walltime"),
        ({"walltime": math.nan}, "walltime"),
        ({"walltime": math.inf}, "walltime"),
        ({"warning": -1.0}, "warning"),
        ({"requeues": 4}, "requeues"),
        ({"array": ",".join(["0-9999999:1000"] * 200)}, "array"),
        ({"environment": {"A B": "x"}}, "variable"),
        ({"environment": {"": "x"}}, "variable"),
        ({"variables": ("A=b",)}, "variable"),
        ({"name": "a b"}, "name"),
        ({"queue": "a;b"}, "queue"),
        ({"features": ("a b",)}, "features"),
        ({"hosts": ("n[1-3]",)}, "hosts"),
        ({"output": "a%j"}, "output"),
        ({"array": "1-"}, "array"),
        ({"array": "1;2"}, "array"),
        ({"after": "x"}, "after"),
        ({"begin": "now"}, "begin"),
        ({"mail_to": "somebody"}, "mail_to"),
        ({"account": "a b"}, "account"),
    ],
)
def test_what_no_scheduler_takes_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as refused:
        replace(PLAIN, **changes)
    assert field in refused.value.where


@pytest.mark.parametrize(
    "changes",
    [
        {"words": ("a", "b\nc")},
        {"environment": {"A": "b\x00"}},
        {"made_by": ("a\u2028b",)},
        {"prologue": (("a", "b\r"),)},
        {"container": Container("docker", "a\tb")},
        {"container": Container("docker", "a", ("/b\x85",))},
        {"staging": Staging("/a", "/b\x1b")},
        {"source": "https://example.org/\ud800"},
    ],
)
def test_what_is_not_one_printable_line_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no control characters"):
        replace(PLAIN, **changes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("module load cuda\nexport A='b c'\n", (("module", "load", "cuda"), ("export", "A=b c"))),
        ("a \\\n b", (("a", "b"),)),
        ("\n\n a \n", (("a",),)),
        ("echo 'a;b' \"c|d\"", (("echo", "a;b", "c|d"),)),
    ],
)
def test_a_text_of_commands(text: str, expected: tuple[tuple[str, ...], ...]) -> None:
    assert commands("prologue", text) == expected


@pytest.mark.parametrize("text", ["a; b", "a && b", "a | b", "a > b", "(a)", "a &", "a 'b"])
def test_more_than_plain_commands_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        commands("prologue", text)


def test_the_corpus_breaks_nothing_but_what_says_so() -> None:
    for text in STRINGS:
        try:
            found = commands("build", text)
        except InputError:
            continue
        assert all(isinstance(word, str) for words in found for word in words)
