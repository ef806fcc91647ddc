"""One image, in no format's words: what it is made from, what is put into it, and how it is set.

A spec is checked when it is made, so that nothing has to be quoted where nothing can be: a
Dockerfile, an Apptainer definition and the shell inside both read the same characters in different
ways. What holds for every string in it: one line, and only characters that mean nothing to any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath
from typing import Literal, get_args

from forerun import levers
from forerun.compilers import Framework
from forerun.errors import InputError

Flavour = Literal["official", "pip", "source"]
Machine = Literal["x86_64", "aarch64", "ppc64le"]

ENVIRONMENT = "/opt/venv"  # Debian's own Python takes no packages by pip, and rightly so
OWN = "/opt/forerun"  # what the build needs and the image does not keep
COMPILER = "12.2"  # of GCC, of Debian 12: flags that it knows, later ones know too
_TRIPLETS: dict[Machine, str] = {
    "x86_64": "x86_64-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "ppc64le": "powerpc64le-linux-gnu",
}
_PLACES = frozenset({"app", "opt", "srv", "work"})  # in an image: nothing of the system's
_WORD = r"[A-Za-z0-9_@%+=:,./-]+"


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """An image: all that a recipe needs, and nothing of any one format."""

    name: str
    flavour: Flavour
    base: str  # a full name, such as docker.io/library/debian:bookworm-slim
    digest: str = ""  # of the base image, where it is known: sha256:…
    framework: Framework = "other"
    version: str = ""  # of the framework
    python: str = "3.11"  # of the base image
    machine: Machine = "x86_64"
    microarchitecture: str = ""  # that what is built from source is built for
    system: tuple[str, ...] = ()  # Debian's packages that the image needs
    build: tuple[str, ...] = ()  # and those that building from source needs
    packages: Mapping[str, str] = field(default_factory=dict)  # Python's, and their versions
    source: tuple[str, ...] = ()  # those of them that are built from source
    index: str = ""  # of packages, to look in besides pip's own
    allocator: str = "glibc"
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()  # of the application, relative to its project
    directory: str = "/app"  # where they are put
    entry: tuple[str, ...] = ()  # what runs where nothing else is told; jobs tell what they run
    labels: Mapping[str, str] = field(default_factory=dict)
    test: tuple[str, ...] = ()  # a program that fails where the image is not what it should be

    def __post_init__(self) -> None:
        for one in fields(self):
            for text in _strings(getattr(self, one.name)):
                if not isinstance(text, str) or not text.isprintable():
                    expected = "a text without control characters"
                    raise InputError(f"image, {one.name}", repr(text), expected)
        for name, (form, expected) in _FORMS.items():
            for text in _strings(getattr(self, name)):
                if (text or name not in _OPTIONAL) and not form.fullmatch(text):
                    raise InputError(f"image, {name}", text, expected)
        for name, known in _ONE_OF.items():
            if getattr(self, name) not in known:
                expected = f"one of {', '.join(known)}"
                raise InputError(f"image, {name}", getattr(self, name), expected)
        _check_packages(self)
        _check_tables(self)
        _check_paths(self)
        levers.allocator(self.allocator)
        _ = self.flags

    @property
    def has_environment(self) -> bool:
        """Whether Python's packages go into an environment of their own.

        An official image that nothing is added to is left as it is.
        """
        return self.flavour != "official" or bool(self.packages)

    @property
    def system_packages(self) -> tuple[str, ...]:
        """Debian's packages, with what Python and the allocator take."""
        own: set[str] = set()
        if self.flavour != "official" and not self.is_python:
            own = {"ca-certificates", "python3", "python3-venv"}
        library = levers.allocator(self.allocator).package
        return tuple(sorted({*own, *self.system} | ({library} if library else set())))

    @property
    def is_python(self) -> bool:
        """Whether the base image is one that brings a Python of its own."""
        return self.base.rpartition("/")[2].startswith("python:")

    @property
    def variables(self) -> dict[str, str]:
        """The environment, with the allocator where it lies inside the image."""
        allocator = levers.allocator(self.allocator)
        place = f"/usr/lib/{_TRIPLETS[self.machine]}/"
        own = allocator.variables([f"{place}{allocator.file}"] if allocator.file else [])
        return dict(sorted({**own, **self.environment}.items()))

    @property
    def flags(self) -> str:
        """What a C compiler is told, for the microarchitecture or the nearest that it knows."""
        if not self.microarchitecture:
            return "-O3"
        from archspec.cpu import TARGETS, UnsupportedMicroarchitecture

        if self.microarchitecture not in TARGETS:
            expected = "one that archspec knows, such as zen3 or x86_64_v3"
            raise InputError("image, microarchitecture", self.microarchitecture, expected)
        target = TARGETS[self.microarchitecture]
        if str(target.family) != self.machine:
            expected = f"one of a processor that runs {self.machine}"
            raise InputError("image, microarchitecture", self.microarchitecture, expected)
        for one in (target, *target.ancestors):
            try:
                found = one.optimization_flags("gcc", COMPILER)
            except UnsupportedMicroarchitecture:
                continue
            if found:
                return f"-O3 {found}"
        return "-O3"

    @property
    def image(self) -> str:
        """The base image as it is asked for: by its digest where that is known.

        Apptainer takes a tag or a digest, not both.
        """
        if not self.digest:
            return self.base
        name, colon, tag = self.base.rpartition(":")
        return f"{name if colon and '/' not in tag else self.base}@{self.digest}"


def plain_name(package: str) -> str:
    """The name of a Python package as indices compare it, without extras."""
    return re.sub(r"[-_.]+", "-", package.partition("[")[0]).lower()


# What each text must be. Nothing here means anything to a shell, in double quotes or bare (a word
# of `test` stands in single quotes), to a Dockerfile or to a definition file.
_FORMS: dict[str, tuple[re.Pattern[str], str]] = {
    name: (re.compile(form, re.ASCII), expected)
    for name, form, expected in (
        ("name", r"[a-z0-9][a-z0-9._-]{0,63}", "a name of small letters, digits and . _ -"),
        (
            "base",
            r"[a-z0-9][a-z0-9.-]{0,99}(:[0-9]{1,5})?(/[a-z0-9][a-z0-9._-]{0,99}){1,6}"
            r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?",
            "a full name such as docker.io/library/debian:bookworm-slim",
        ),
        ("digest", r"sha256:[0-9a-f]{64}", "sha256: and 64 hexadecimal digits"),
        ("version", r"[0-9][A-Za-z0-9.+]{0,63}", "a version such as 2.13.0"),
        ("python", r"3\.[0-9]{1,2}", "a version such as 3.11"),
        ("system", r"[a-z0-9][a-z0-9.+-]{0,98}[a-z0-9+]", "the name of a Debian package"),
        ("build", r"[a-z0-9][a-z0-9.+-]{0,98}[a-z0-9+]", "the name of a Debian package"),
        (
            "index",
            r"https://[A-Za-z0-9][A-Za-z0-9.-]{0,199}(:[0-9]{1,5})?(/[A-Za-z0-9._~+-]{1,99}){0,9}/?",
            "an address that begins with https://, without a password",
        ),
        ("entry", _WORD, "words of letters, digits and @ % + = : , . / _ -"),
        (
            "test",
            r"[A-Za-z0-9_@%+=:,./ ;()-]+",
            "words of letters, digits, blanks and @ % + = : , . / ; ( ) _ -",
        ),
    )
}
_OPTIONAL = frozenset({"digest", "version", "index"})
_ONE_OF: dict[str, tuple[str, ...]] = {
    "flavour": get_args(Flavour),
    "machine": get_args(Machine),
    "framework": get_args(Framework),
}
_PACKAGE = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?(\[[a-z0-9][a-z0-9,-]{0,62}\])?", re.ASCII
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_VALUE = re.compile(r"([A-Za-z0-9_./:=,+@%~-]([A-Za-z0-9_./:=,+@%~ -]{0,1022}))?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9][a-z0-9.-]{0,126}[a-z0-9]", re.ASCII)


def _check_packages(spec: ImageSpec) -> None:
    for name, version in spec.packages.items():
        if not _PACKAGE.fullmatch(name):
            raise InputError("image, packages", name, "the name of a Python package")
        if not _FORMS["version"][0].fullmatch(version):
            raise InputError(f"image, package {name}", version, "an exact version such as 2.4.6")
    known = [plain_name(name) for name in spec.packages]
    for name in known:
        if known.count(name) > 1:
            raise InputError("image, packages", f"{name} twice", "one version of each")
    for name in spec.source:
        if not _PACKAGE.fullmatch(name) or plain_name(name) not in known:
            listed = ", ".join(known) or "none"
            raise InputError("image, source", name, f"one of its packages: {listed}")
    if (spec.flavour == "source") != bool(spec.source):
        expected = "packages to build with the flavour source, and with no other"
        raise InputError("image, source", ", ".join(spec.source) or "none", expected)


_OWN = ("PATH", "LD_PRELOAD", "MALLOC_CONF")  # variables that an image sets by what it holds


def _check_tables(spec: ImageSpec) -> None:
    for name, value in spec.environment.items():
        if not _VARIABLE.fullmatch(name) or name in _OWN:
            expected = f"a variable's name, other than {', '.join(_OWN)}"
            raise InputError("image, environment", name, expected)
        if not _VALUE.fullmatch(value):
            expected = "letters, digits, blanks and . / : = , + @ % ~ _ -"
            raise InputError(f"image, variable {name}", value, expected)
    for name, value in spec.labels.items():
        if not _LABEL.fullmatch(name):
            raise InputError("image, labels", name, "a name of small letters, digits, . and -")
        if not value or not _VALUE.fullmatch(value) or value != value.strip():
            expected = "a text of letters, digits, blanks and . / : = , + @ % ~ _ -"
            raise InputError(f"image, label {name}", value, expected)


def _check_paths(spec: ImageSpec) -> None:
    parts = spec.directory.split("/")
    safe = all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", part, re.A) for part in parts[1:])
    ours = any(spec.directory.startswith(place) for place in (ENVIRONMENT, OWN))
    if parts[0] or len(parts) < 2 or not safe or parts[1] not in _PLACES or ours:
        expected = f"an absolute path below {', '.join(sorted(_PLACES))}"
        raise InputError("image, directory", spec.directory, expected)
    for name in ("entry", "test"):
        words = getattr(spec, name)
        if words and not (re.fullmatch(_WORD, words[0]) and words[0].startswith("/")):
            expected = "a program by its absolute path first"
            raise InputError(f"image, {name}", words[0], expected)
    for text in spec.files:
        path = PurePosixPath(text)
        if not text or path.is_absolute() or ".." in path.parts or not path.parts:
            raise InputError("image, files", text, "a path inside the project")


def _strings(value: object) -> Iterable[str]:
    """The strings of a field at any depth, and whatever is where one should be."""
    if isinstance(value, Mapping):
        return [text for pair in value.items() for text in pair]
    if isinstance(value, tuple):
        return list(value)
    return [value]  # type: ignore[list-item]
