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
# Variables that mean something to bash. It runs what is assigned to some of them, quoted or not:
# RANDOM, OPTIND and others are numbers, so their values are arithmetic, in which `a[$(command)]` is
# an element of a. Others cannot be set, change how the script is read, or say where it runs. What
# a job may need is none of them: HOME, PATH, SHELL, TERM, TMPDIR, LANG, LC_*, COLUMNS and LINES.
_OF_THE_SHELL = frozenset(
    {
        *("_", "auto_resume", "histchars", "CDPATH", "CHILD_MAX", "COMPREPLY", "COPROC"),
        *("COMP_CWORD", "COMP_KEY", "COMP_LINE", "COMP_POINT", "COMP_TYPE", "COMP_WORDBREAKS"),
        *("COMP_WORDS", "DIRSTACK", "EMACS", "ENV", "EPOCHREALTIME", "EPOCHSECONDS", "EUID"),
        *("EXECIGNORE", "FCEDIT", "FIGNORE", "FUNCNAME", "FUNCNEST", "GLOBIGNORE", "GLOBSORT"),
        *("GROUPS", "HISTCMD", "HISTCONTROL", "HISTFILE", "HISTFILESIZE", "HISTIGNORE"),
        *("HISTSIZE", "HISTTIMEFORMAT", "HOSTFILE", "HOSTNAME", "HOSTTYPE", "IFS", "IGNOREEOF"),
        *("INPUTRC", "INSIDE_EMACS", "LINENO", "MACHTYPE", "MAIL", "MAILCHECK", "MAILPATH"),
        *("MAPFILE", "OLDPWD", "OPTARG", "OPTERR", "OPTIND", "OSTYPE", "PIPESTATUS"),
        *("POSIXLY_CORRECT", "POSIX_PEDANTIC", "PPID", "PROMPT_COMMAND", "PROMPT_DIRTRIM", "PS0"),
        *("PS1", "PS2", "PS3", "PS4", "PWD", "RANDOM", "READLINE_ARGUMENT", "READLINE_LINE"),
        *("READLINE_MARK", "READLINE_POINT", "REPLY", "SECONDS", "SHELLOPTS", "SHLVL", "SRANDOM"),
        *("TEXTDOMAIN", "TEXTDOMAINDIR", "TIMEFORMAT", "TMOUT", "UID"),
    }
)


class Shell(str):
    """Text as it stands in a script: quoted, or known to need no quoting."""

    __slots__ = ()


def of_the_shell(name: str) -> bool:
    """Whether a variable means something to bash, so that a job cannot set it as it likes."""
    return name in _OF_THE_SHELL or name.startswith("BASH")


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
