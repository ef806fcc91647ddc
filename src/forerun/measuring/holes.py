"""A command with holes, `python train.py --batch {batch}`, and the words that a point makes of it.

Without a shell a value is one part of one argument, whatever it holds. With a shell it is quoted;
where quotes would not help (inside other quotes, say) only a value that needs none is let in.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath

from forerun import levers
from forerun._values import Value, printable
from forerun.errors import InputError
from forerun.factors import VARIANT, Role, Space

# Programs with an option that a script for a shell follows, or is joined to; between the two there
# may be more options, of which those that end in o have a value.
_SHELLS = {
    *("ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"),
    *("flock", "runuser", "script", "su"),
}
_SCRIPT = re.compile(r"-[a-zA-Z]*c|--(?:session-)?command")
_VALUED = re.compile(r"[-+][a-zA-Z]*[oO]")
_READERS = {"rsh", "sbatch", "ssh"}  # programs that give their arguments to a shell
# What stands before the first word of a command in a shell's text.
_BEGIN = re.compile(
    r"[;&|()]+|[{!]|if|then|elif|else|while|until|do|time|command|builtin|\w+=.*", re.DOTALL
)
_PIECE = re.compile(r"(\{\{)|(\}\})|\{([^{}]*)\}|([{}])|[^{}]+")
# What only a shell understands, where it is a word of its own.
_SHELL_SIGNS = frozenset({">", ">>", "<", "|", "||", "&&", "&", ";", "2>", "2>&1", "&>"})
_BRACES = "{name} with the name of a factor, or {{ and }} for braces"


@dataclass(frozen=True, slots=True)
class Hole:
    """Where a factor's value goes; `bare` where a shell would honour quotes around it."""

    name: str
    bare: bool = True


@dataclass(frozen=True)
class Template:
    """A command with holes: words without a shell, or one text for a shell."""

    text: str
    shell: bool = False

    @classmethod
    def parse(cls, text: str, shell: bool = False) -> Template:
        """The template of a text as typed; InputError if its quotes or braces are not closed."""
        printable("command", text, InputError)
        template = cls(text, shell)
        if not text.strip():
            raise InputError("command", text, "a program and its arguments")
        _ = template._words  # refused now, not when the first run starts
        return template

    @cached_property
    def _words(self) -> tuple[tuple[str | Hole, ...], ...]:
        if self.shell:
            return (_in_shell(self.text),)
        try:
            words = shlex.split(self.text)
        except ValueError:
            raise InputError("command", self.text, "closed quotes") from None
        if not words or not words[0]:
            raise InputError("command", self.text, "a program and its arguments")
        for sign in _SHELL_SIGNS & set(words) & set(self.text.split()):  # not in quotes
            raise InputError("command", sign, "quotes around it, or --shell to give it a meaning")
        return tuple(_guarded(words, place) for place in range(len(words)))

    @property
    def holes(self) -> tuple[str, ...]:
        """The names in the holes, each once, in order."""
        names = (part.name for word in self._words for part in word if isinstance(part, Hole))
        return tuple(dict.fromkeys(names))

    def fill(self, point: Mapping[str, Value]) -> tuple[str, ...]:
        """The program and its arguments at a point."""
        filled = tuple("".join(self._filled(part, point) for part in word) for word in self._words)
        return ("/bin/sh", "-c", *filled) if self.shell else filled

    def _filled(self, part: str | Hole, point: Mapping[str, Value]) -> str:
        if isinstance(part, str):
            return part
        value = written(point[part.name])
        quoted = shlex.quote(value)
        if quoted == value:
            return value
        if not part.bare:
            expected = "a value that a shell reads as it stands, or a hole outside quotes"
            raise InputError(f"command, {{{part.name}}}", value, expected)
        return quoted if self.shell else value


@dataclass(frozen=True)
class Text:
    """A text with holes that is one word whatever it holds, such as a variable's value."""

    text: str

    @cached_property
    def _parts(self) -> tuple[str | Hole, ...]:
        printable("text", self.text, InputError)
        return tuple(_pieces(self.text))

    @property
    def holes(self) -> tuple[str, ...]:
        """The names in the holes, each once, in order."""
        return tuple(dict.fromkeys(part.name for part in self._parts if isinstance(part, Hole)))

    def fill(self, point: Mapping[str, Value]) -> str:
        """The text at a point."""
        return "".join(p if isinstance(p, str) else written(point[p.name]) for p in self._parts)


def written(value: Value) -> str:
    """A factor's value as a program reads it: 16, 0.001, relu."""
    return value if isinstance(value, str) else repr(value)


def check_holes(
    templates: Iterable[Template | Text], space: Space, placed: Collection[Role] = ()
) -> tuple[str, ...]:
    """The factors without a hole that are levers; InputError unless all others have one.

    Several texts (a command, what prepares it, its environment) belong to one program. Whoever
    runs it may see to factors of some roles: those are `placed`, and need no hole. The factor
    `variant` needs no hole: it says which command runs. Nor does an intrinsic factor of one value,
    which describes the program: its multiply-accumulates, say, beside those of other programs.
    """
    templates = tuple(templates)
    found = {name for template in templates for name in template.holes}
    factors = ", ".join(space) or "none"
    for template in templates:
        for name in template.holes:
            if name not in space:
                expected = f"a factor ({factors}), or {{{{…}}}} for braces that are no hole"
                raise InputError(f"command {template.text}", f"the hole {{{name}}}", expected)
    pulled = []
    for name, factor in space.items():
        describes = factor.scope == "intrinsic" and len(factor.values) == 1
        if name in found or name == VARIANT or describes or factor.role in placed:
            continue
        if not levers.is_lever(name):
            command = templates[0].text if templates else ""
            expected = f"a hole {{{name}}} in the command {command}"
            raise InputError(f"factor {name}", "no hole", expected)
        for value in factor.values:
            levers.variables(name, value)
        pulled.append(name)
    for template in templates:
        _check_values(template, space)
    return tuple(pulled)


def _check_values(template: Template | Text, space: Space) -> None:
    """Every value must fit into its hole, before the first run and not at the hundredth."""
    first: dict[str, Value] = {
        name: factor.values[0] if factor.values else 0 for name, factor in space.items()
    }
    for name in template.holes:
        for value in space[name].values:
            template.fill({**first, name: value})


def _pieces(text: str) -> list[str | Hole]:
    """Literal text and holes by turns."""
    pieces: list[str | Hole] = []
    for match in _PIECE.finditer(text):
        opened, closed, name, stray = match.groups()
        if stray or (name is not None and not name.strip()):
            raise InputError("command", text, _BRACES)
        literal = "{" if opened else "}" if closed else match.group()
        pieces.append(literal if name is None else Hole(name.strip()))
    return pieces


def _guarded(words: list[str], place: int) -> tuple[str | Hole, ...]:
    """A word's pieces; in `sh -c '… {name}'` no hole is bare, for that shell reads the value."""
    pieces = _pieces(words[place])
    if not _is_read(words[: place + 1]):
        return tuple(pieces)
    return tuple(Hole(p.name, bare=False) if isinstance(p, Hole) else p for p in pieces)


def _is_read(words: Sequence[str]) -> bool:
    """Whether the last of these words is, or may be, a script for a shell that the others start."""
    names = [PurePath(word).name for word in words[:-1]]
    if not _READERS.isdisjoint(names):
        return True
    return any(
        _SCRIPT.match(word)
        and not _SHELLS.isdisjoint(names[:place])
        and not _operands(words[place:])
        for place, word in enumerate(words)
    )


def _operands(words: Sequence[str]) -> list[str]:
    """What stands between the first of these words, an option, and the last, and is no option."""
    return [
        word
        for before, word in pairwise(words[:-1])
        if not word.startswith(("-", "+")) and not _VALUED.fullmatch(before)
    ]


def _in_shell(text: str) -> tuple[str | Hole, ...]:
    """The pieces of a shell's text, each hole with whether quotes count where it stands."""
    pieces: list[str | Hole] = []
    before = ""
    for piece in _pieces(text):
        if isinstance(piece, Hole):
            if before.endswith("$"):
                expected = f"{{{piece.name}}} for the factor, ${{{{{piece.name}}}}} for a variable"
                raise InputError(f"command {text}", f"${{{piece.name}}}", expected)
            pieces.append(Hole(piece.name, _is_bare(before)))
            before += "x"
        else:
            if pieces and isinstance(pieces[-1], Hole) and piece.startswith(("<", ">")):
                found = f"{{{pieces[-1].name}}}{piece[0]}"
                raise InputError(f"command {text}", found, "a space between: 2>x is no argument")
            pieces.append(piece)
            before += piece
    return tuple(pieces)


def _is_bare(before: str) -> bool:
    """Whether a quoted value would be read as one word, and by no other shell, after this text.

    Not inside quotes, nor after a backslash; and, to be on the safe side, nowhere after what makes
    quotes mean something else: a backquote, arithmetic, $'…', or an expansion inside quotes.
    """
    quote, escaped = "", False
    for place, sign in enumerate(before):
        pair = before[place : place + 2]
        if escaped:
            escaped = False
        elif sign == "\\" and quote != "'":
            escaped = True
        elif (pair in ("$(", "${") and quote == '"') or (pair == "$'" and not quote):
            return False
        elif quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
    odd = any(sign in before for sign in ("`", "((", "$["))
    return not (quote or escaped or odd or _is_read_again(before))


def _is_read_again(before: str) -> bool:
    """Whether the word after this text, of which all quotes are closed, goes to another shell."""
    split = shlex.shlex(f"{before}x", posix=True, punctuation_chars=True)
    split.whitespace_split, split.commenters = True, ""
    words = list(split)
    evaluated = any(
        word == "eval" and (place == 0 or _BEGIN.fullmatch(words[place - 1]))
        for place, word in enumerate(words[:-1])
    )
    return evaluated or _is_read(words)
