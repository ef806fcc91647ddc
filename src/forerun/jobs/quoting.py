"""Text that a shell reads: every value goes through one of these, or `script` refuses it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_VARIABLE = re.compile(r"(\$\{[A-Za-z_][A-Za-z0-9_]*\})", re.ASCII)
_IN_DOUBLE_QUOTES = re.compile(r'([\\"$`])')
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]+", re.ASCII)
_KEYWORDS = frozenset(
    {
        *("case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function"),
        *("if", "in", "select", "then", "time", "until", "while"),
    }
)


class Shell(str):
    """Text as it stands in a script: quoted, or known to need no quoting."""

    __slots__ = ()


def quote(text: str) -> Shell:
    """One word that the shell takes as it is."""
    return Shell(shlex.quote(text))


def word(text: str, expand: bool) -> Shell:
    """One word; where it is wished, `${NAME}` in it is a variable, and nothing else is special."""
    if not expand or not _VARIABLE.search(text):
        return quote(text)
    parts = _VARIABLE.split(text)
    # Every second part is a variable.
    literal = [_IN_DOUBLE_QUOTES.sub(r"\\\1", part) for part in parts[::2]]
    found = [*parts[1::2], ""]
    return Shell('"' + "".join(a + b for a, b in zip(literal, found, strict=True)) + '"')


def words(texts: Sequence[str], expand: bool) -> Shell:
    """Several words."""
    return Shell(" ".join(word(text, expand) for text in texts))


def command(texts: Sequence[str], expand: bool) -> Shell:
    """A command. What stands first is a program, whatever the shell would take it for."""
    first, *rest = texts
    plain = _PROGRAM.fullmatch(first) and first not in _KEYWORDS
    forced = Shell("'" + first.replace("'", "'\"'\"'") + "'")
    start = first if plain else word(first, expand) if _VARIABLE.search(first) else forced
    return Shell(" ".join((start, *(word(text, expand) for text in rest))))
