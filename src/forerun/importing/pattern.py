"""Factors out of names: a user's regular expression over many texts, within a time limit.

Python's `re` can take longer than the age of the universe on a pattern such as `(a+)+$`, however
short the text. So the search runs in a process of its own, which is stopped when its time is up.
This file is that process too: it then needs nothing but the standard library.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence

LONGEST_TEXT = 1000  # characters of each text that are looked at
LONGEST_SEARCH = 10.0  # seconds for all texts together


def groups_of(pattern: str) -> tuple[str, ...]:
    """The names of the groups of a pattern, which become factors."""
    from forerun.errors import InputError

    try:
        names = tuple(re.compile(pattern).groupindex)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError("--pattern", f"{pattern!r} ({error})", "a regular expression") from None
    if not names:
        raise InputError("--pattern", repr(pattern), r"named groups, for example b(?P<batch>\d+)")
    return names


def search(pattern: str, texts: Sequence[str]) -> list[dict[str, str] | None]:
    """The named groups of the first match in each text; None where there is no match."""
    from forerun.errors import InputError

    distinct = list(dict.fromkeys(texts))
    document = json.dumps({"pattern": pattern, "texts": distinct})
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", __file__],
            input=document.encode(),
            capture_output=True,
            timeout=LONGEST_SEARCH,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            "--pattern",
            f"{pattern!r}, still searching after {LONGEST_SEARCH:g} s",
            "a pattern without nested repeats such as (a+)+",
        ) from None
    found = dict(zip(distinct, json.loads(done.stdout), strict=True))
    return [found[text] for text in texts]


def _serve() -> None:
    document = json.load(sys.stdin)
    compiled = re.compile(document["pattern"])
    matches = (compiled.search(text[:LONGEST_TEXT]) for text in document["texts"])
    json.dump([match and match.groupdict(default="") for match in matches], sys.stdout)


if __name__ == "__main__":
    _serve()
