"""One job, in no scheduler's words: what is run, on how much of what, and what surrounds it.

A spec is checked when it is made. What holds for every string in it: one line, nothing that cannot
be printed. What a directive of a scheduler cannot hold is refused as well, for there quoting does
not help; what goes into a shell is quoted there (see `script`).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from forerun.errors import InputError

Launcher = Literal["plain", "torchrun", "tensorflow", "mxnet", "mpi"]
Event = Literal["begin", "end", "fail"]
Runtime = Literal["apptainer", "singularity", "docker", "podman", "charliecloud"]
Accelerator = Literal["", "nvidia", "amd", "intel", "fpga", "tpu"]

UID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/=@+,~-]{0,254}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_ARRAY = re.compile(
    r"(?=.{1,1024}$)\d{1,7}(-\d{1,7}(:\d{1,7})?)?(,\d{1,7}(-\d{1,7}(:\d{1,7})?)?)*(%\d{1,7})?",
    re.ASCII,
)
_AFTER = re.compile(r"\d{1,12}(_\d{1,7})?(\.[A-Za-z0-9.-]{1,64})?(\[\])?", re.ASCII)
_BEGIN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?", re.ASCII)
_MAIL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@[A-Za-z0-9][A-Za-z0-9.-]{0,190}", re.ASCII)
_PATH = re.compile(r"[A-Za-z0-9_./@+,~=:-][A-Za-z0-9_./@+,~=: -]{0,1023}", re.ASCII)
_OPERATORS = frozenset("();<>|&")


@dataclass(frozen=True, slots=True)
class Container:
    """The image that a job runs in."""

    runtime: Runtime
    image: str  # a file, a directory or a name, as the runtime takes it
    binds: tuple[str, ...] = ()  # directories that the job sees inside under the same name


@dataclass(frozen=True, slots=True)
class Staging:
    """Data that is copied to faster storage before the run."""

    source: str
    target: str  # a directory; it is made, and is seen by the run as FORERUN_DATA


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job. Everything a script needs, and nothing of any one scheduler."""

    name: str
    words: tuple[str, ...]  # the program and its arguments
    folder: str  # absolute; all that is kept of the job: script, output, attempts
    uid: str  # of the job, and of nothing else: a second submission with it is the same job
    expand: bool = False  # whether `${NAME}` in a word is a variable of the job's shell
    directory: str = ""  # that the program runs in; the folder where it says nothing
    environment: Mapping[str, str] = field(default_factory=dict)
    launcher: Launcher = "plain"
    nodes: int = 1
    processes: int = 1  # on each node
    cores: int | None = None  # of each process
    accelerators: int = 0  # of each node
    accelerator: Accelerator = ""
    memory: int | None = None  # bytes of each node
    memory_per_core: int | None = None  # bytes
    walltime: float | None = None  # seconds
    queue: str | None = None
    features: tuple[str, ...] = ()  # that the nodes must have
    hosts: tuple[str, ...] = ()  # these nodes and no others
    exclusive: bool = False
    account: str | None = None
    qos: str | None = None
    array: str | None = None  # as 1-10, 0-8:2 or 1,3%2
    after: str | None = None  # a job that must have ended well before
    begin: str | None = None  # 2027-01-31T18:00: not before
    output: str = "job.out"  # in the folder, unless absolute
    errors: str | None = None  # where they go apart from the output
    mail_to: str | None = None
    mail_on: tuple[Event, ...] = ()
    copy_environment: bool = False  # whether the job gets all variables of who submits it
    variables: tuple[str, ...] = ()  # or these
    prologue: tuple[tuple[str, ...], ...] = ()  # commands before the run, as words
    epilogue: tuple[tuple[str, ...], ...] = ()  # and after it, however it ended
    source: str = ""  # a URL or a directory that the program is made from
    build: tuple[tuple[str, ...], ...] = ()  # and the commands that make it
    staging: Staging | None = None
    container: Container | None = None
    requeues: int = 0  # how often the job may start again when its time ends; 3 at most
    warning: float = 120.0  # seconds before the end at which the program is asked to save
    made_by: tuple[str, ...] = ()  # lines for the reader: what made it, from which plan

    def __post_init__(self) -> None:
        _check_lines(self)
        if not self.words or not self.words[0]:
            raise InputError("job, command", "nothing", "a program and its arguments")
        if not UID.fullmatch(self.uid):
            raise InputError("job, uid", self.uid, "32 hexadecimal digits")
        for name in ("folder", "directory"):
            path = getattr(self, name)
            if (path or name == "folder") and not path.startswith("/"):
                raise InputError(f"job, {name}", path, "an absolute path")
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not least <= value < 10**15):
                raise InputError(f"job, {name}", value, f"a whole number of at least {least}")
        for name in ("walltime", "warning"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"job, {name}", value, "seconds above 0")
        if self.requeues > 3:
            raise InputError("job, requeues", self.requeues, "3 at most")
        for name in (*self.environment, *self.variables):
            if not _VARIABLE.fullmatch(name):
                raise InputError("job, variable", name, "a name of letters, digits and _")
        for name, (form, expected) in _FORMS.items():
            value = getattr(self, name)
            for one in (value,) if isinstance(value, str) else value or ():
                if not form.fullmatch(one):
                    raise InputError(f"job, {name}", one, expected)


_COUNTS = {
    "nodes": 1,
    "processes": 1,
    "cores": 1,
    "accelerators": 0,
    "memory": 1,
    "memory_per_core": 1,
    "requeues": 0,
}
_A_NAME = (_NAME, "a name of letters, digits and . _ + -")
_A_WORD = (_WORD, "a name of letters, digits and . _ : / = @ + , ~ -")
_A_PATH = (_PATH, "a path of letters, digits, blanks and . _ / @ + , ~ = : -")
# What goes into a directive, where nothing can be quoted.
_FORMS = {
    "name": _A_NAME,
    "queue": _A_NAME,
    "account": _A_WORD,
    "qos": _A_NAME,
    "features": _A_WORD,
    "hosts": _A_NAME,
    "output": _A_PATH,
    "errors": _A_PATH,
    "folder": _A_PATH,
    "array": (_ARRAY, "up to 1 KiB of numbers and ranges such as 1-10, 0-8:2 or 1,3%2"),
    "after": (_AFTER, "the number of a job"),
    "begin": (_BEGIN, "a time such as 2027-01-31T18:00"),
    "mail_to": (_MAIL, "an address such as name@example.org"),
}


def _check_lines(spec: JobSpec) -> None:
    """InputError for a string at any depth that is not one printable line."""
    for one in fields(spec):
        for text in _strings(getattr(spec, one.name)):
            if not text.isprintable():
                raise InputError(f"job, {one.name}", repr(text), "no control characters")


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for pair in value.items() for one in pair for text in _strings(one)]
    if isinstance(value, tuple):
        return [text for one in value for text in _strings(one)]
    if isinstance(value, Container | Staging):
        return [text for one in fields(value) for text in _strings(getattr(value, one.name))]
    return []


def commands(where: str, text: str) -> tuple[tuple[str, ...], ...]:
    """The commands of a text, one a line, as words; InputError for more than plain commands.

    Who needs a shell puts it into a script and names that.
    """
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = tuple(lexer)
        except ValueError as error:
            raise InputError(where, f"{line!r}: {error}", "words as a shell has them") from None
        for word in words:
            if word and set(word) <= _OPERATORS:
                raise InputError(where, word, "plain commands, one a line; a script for more")
        if words:
            found.append(words)
    return tuple(found)
