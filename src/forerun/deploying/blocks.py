"""hpccm, behind a door: one format at a time, and no argument that it would pass over in silence.

hpccm keeps the format of all that it writes in variables of its own, its constructors swallow
names that they do not know, and what it is given it writes as it stands, newlines included.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, Literal, cast

from forerun.deploying.image import Machine
from forerun.errors import InputError

Format = Literal["docker", "apptainer"]
FORMATS: tuple[Format, ...] = ("docker", "apptainer")

_ALONE = threading.RLock()
_SETTINGS = (
    *("g_ctype", "g_cpu_arch", "g_cpu_target", "g_linux_distro", "g_linux_version"),
    *("g_singularity_version", "g_wd", "g_singularity_tmp_fallback"),
)
_SINGULARITY = "3.6"  # from which on a definition may have several stages; Apptainer is later


class Blocks:
    """Makes hpccm's building blocks and primitives, by name and with checked arguments."""

    def __init__(self, hpccm: ModuleType) -> None:
        self._hpccm = hpccm

    def __call__(self, name: str, *texts: str, **arguments: Any) -> Any:
        """One block; InputError for a name or an argument that hpccm does not have."""
        kind = getattr(self._hpccm.primitives, name, None)
        kind = kind or getattr(self._hpccm.building_blocks, name, None)
        if not inspect.isclass(kind):
            raise InputError("hpccm", name, "the name of a building block or a primitive")
        known = accepted(cast(Any, kind))  # mypy holds that a class cannot be hashed
        for argument in arguments:
            if argument not in known:
                expected = f"one of {', '.join(sorted(known))}"
                raise InputError(f"hpccm, {name}", argument, expected)
        for text in _strings([texts, arguments]):
            if not text.isprintable():
                raise InputError(f"hpccm, {name}", repr(text), "a text of one line")
        return kind(*texts, **arguments)

    def stage(self, *layers: Any) -> str:
        """What hpccm writes for these layers; once, for writing changes some of them."""
        made = self._hpccm.Stage()
        for layer in layers:
            made += layer
        return str(made)


@contextmanager
def blocks(form: Format, machine: Machine) -> Iterator[Blocks]:
    """Blocks of one format, for a kind of machine; hpccm's settings are put back afterwards."""
    if form not in FORMATS:
        raise InputError("recipe, format", form, f"one of {', '.join(FORMATS)}")
    hpccm = _imported()
    with _ALONE:
        kept = {name: getattr(hpccm.config, name) for name in _SETTINGS}
        try:
            hpccm.config.set_container_format("docker" if form == "docker" else "singularity")
            hpccm.config.set_singularity_version(_SINGULARITY)
            hpccm.config.set_cpu_architecture(machine)
            hpccm.config.set_cpu_target(None)
            hpccm.config.set_working_directory("/var/tmp")
            hpccm.config.set_singularity_tmp_fallback(False)
            yield Blocks(hpccm)
        finally:
            for name, value in kept.items():
                setattr(hpccm.config, name, value)


@cache
def accepted(kind: type) -> frozenset[str]:
    """The names of the arguments that a class of hpccm looks for, in all that it is made of."""
    found: set[str] = set()
    for one in kind.__mro__:
        if one.__module__.startswith("hpccm.") and "__init__" in vars(one):
            source = textwrap.dedent(inspect.getsource(vars(one)["__init__"]))
            found.update(_looked_for(source))
    return frozenset(found)


def _looked_for(source: str) -> Iterator[str]:
    """The names in calls of `kwargs.get`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of strings in hpccm that Python would write differently
        tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="kwargs"), attr="get"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


@cache
def _imported() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import hpccm

    return cast(ModuleType, hpccm)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from _strings(pair)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _strings(one)
