"""Factors that need no hole in a command: what sets them is the environment of the process.

    forerun measure 'python train.py --batch {batch}' -f batch=16,64 -f threads=1,2 …

Whatever the value, a lever sets the same variables, so that what a shell has set does not tell.
Libraries ignore the variables of others, so nobody needs to say which of them a program uses.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from forerun import compilers
from forerun._values import Value
from forerun.errors import InputError

Variables = Mapping[str, str]

# What each value of a lever sets. In each of them the first value is what a program has by itself;
# but on NVIDIA's GPUs since Ampere TensorFlow uses TF32 unless it is told not to, PyTorch for
# convolutions, and float32 turns that off.
_AFFINITY: dict[str, Variables] = {
    # Places are ignored where nothing is bound.
    "none": {"OMP_PROC_BIND": "false", "OMP_PLACES": "cores"},
    "close": {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"},
    "spread": {"OMP_PROC_BIND": "spread", "OMP_PLACES": "cores"},
}
# What may be used for float32: oneDNN on processors; cuBLAS and cuDNN, of which PyTorch is asked
# for its own word too. No variable brings bfloat16 to those. Of NVIDIA's variable only 0 is
# documented, TF32 nowhere; the 1 is there to go over a 0 of the shell, and nothing relies on more.
_PRECISION: dict[str, Variables] = {
    value: {
        "ONEDNN_DEFAULT_FPMATH_MODE": mode,
        "NVIDIA_TF32_OVERRIDE": tf32,
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": tf32,
    }
    for value, mode, tf32 in (
        ("float32", "STRICT", "0"),
        ("tf32", "TF32", "1"),
        ("bfloat16", "BF16", "1"),
    )
}


class Allocator(NamedTuple):
    """A library that gives out memory in the place of the C library's; without names, that one."""

    names: tuple[str, ...] = ()  # of its file, the first that is found counts
    package: str = ""  # Debian's
    settings: str = ""  # in its own words

    @property
    def file(self) -> str:
        """The name of its library that is usual; empty for the C library's own."""
        return self.names[0] if self.names else ""

    def variables(self, libraries: Iterable[str]) -> dict[str, str]:
        """The environment that loads these libraries, its own among them, with its settings."""
        return {"LD_PRELOAD": ":".join(libraries), "MALLOC_CONF": self.settings}  # jemalloc's alone


_ALLOCATORS = {
    "glibc": Allocator(),
    # By itself it gives memory back to the kernel after seconds, and then each step of a training
    # has to have its pages cleared anew: it was slower by 1.7 than the C library's.
    "jemalloc": Allocator(
        ("libjemalloc.so.2",),
        "libjemalloc2",
        "oversize_threshold:1,background_thread:true,metadata_thp:auto,"
        "dirty_decay_ms:-1,muzzy_decay_ms:-1",
    ),
    "tcmalloc": Allocator(("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"), "libtcmalloc-minimal4"),
}
_AN_ALLOCATOR = re.compile(r"lib(jemalloc|tcmalloc|mimalloc)\b")


def is_lever(name: str) -> bool:
    """Whether a factor of this name can be set from outside."""
    return name in _LEVERS


def is_plain(name: str, value: Value) -> bool:
    """Whether a factor has the value that a program has by itself; one that is no lever has."""
    return _PLAIN.get(name, value) == value


def variables(name: str, value: Value) -> dict[str, str]:
    """The environment that gives a lever this value; InputError where it is none of its values."""
    return dict(_LEVERS[name](value))


def variables_of(name: str) -> tuple[str, ...]:
    """The names of the variables that a lever sets, whatever its value."""
    return tuple(variables(name, _PLAIN.get(name, 1)))


def allocator(value: Value) -> Allocator:
    """The allocator of this name; InputError where it is none of those that can be set."""
    if value not in _ALLOCATORS:
        raise InputError("factor allocator", value, f"one of {', '.join(_ALLOCATORS)}")
    return _ALLOCATORS[str(value)]


def _threads(value: Value) -> Variables:
    if not re.fullmatch("[1-9][0-9]*", str(value)):
        raise InputError("factor threads", value, "a whole number of at least 1")
    # Of the four frameworks each was seen to heed its own: PyTorch OMP and MKL, which goes over it,
    # NumPy OPENBLAS, MXNet OMP, TensorFlow TF alone, JAX NPROC alone.
    counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    found = dict.fromkeys((*counts, "TF_NUM_INTRAOP_THREADS", "NPROC"), str(value))
    # So many threads for each of several operations at a time would be more threads than told.
    return {**found, "TF_NUM_INTEROP_THREADS": "1"}


def _listed(name: str, values: Mapping[str, Variables], value: Value) -> Variables:
    if value not in values:
        raise InputError(f"factor {name}", value, f"one of {', '.join(values)}")
    return values[str(value)]


def _compiler(value: Value) -> Variables:
    every = compilers.every()
    found = [one for one in every if one.name == value]
    if found and all(one.needs for one in found):
        expected = f"a command of its own: it needs {found[0].needs}"
        raise InputError("factor compiler", value, expected)
    names = dict.fromkeys(one.name for one in every if not one.needs)
    return _listed(
        "compiler",
        {
            name: {k: v for one in every if one.name == name for k, v in one.environment.items()}
            for name in names
        },
        value,
    )


def _allocator(value: Value) -> Variables:
    found = allocator(value)
    inherited = re.split("[: ]+", os.environ.get("LD_PRELOAD", ""))
    others = [path for path in inherited if path and not _AN_ALLOCATOR.match(Path(path).name)]
    if not found.names:
        return found.variables(others)
    library = next((path for name in found.names for path in _places(name) if _fits(path)), None)
    if library is None:
        expected = f"a value whose library is here; {found.file} is Debian's {found.package}"
        raise InputError("factor allocator", value, expected)
    return found.variables([str(library), *others])


def _places(library: str) -> Iterator[Path]:
    """Where a library may lie, by what a program would look through."""
    for directory in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if directory:
            yield Path(directory, library)
    for line in _known_to_the_linker().splitlines():
        if line.strip().startswith(f"{library} "):
            yield Path(line.rpartition("=> ")[2].strip())
    for directory in (f"lib/{platform.machine()}-linux-gnu", "lib64", "lib", "local/lib"):
        yield Path("/usr", directory, library)


@lru_cache(maxsize=1)
def _known_to_the_linker() -> str:
    """What `ldconfig -p` prints: `libjemalloc.so.2 (libc6,x86-64) => /lib/…`."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    try:
        return subprocess.run(
            ["ldconfig", "-p"], capture_output=True, text=True, env={"PATH": path}, check=False
        ).stdout
    except OSError:
        return ""


def _fits(library: Path) -> bool:
    """Whether this machine's programs can load it: the linker passes over others in silence."""
    if re.search("[: ]", str(library)):  # LD_PRELOAD cannot hold it
        return False
    try:
        return _machine(library) == _machine(Path(sys.executable))
    except OSError:
        return False


def _machine(binary: Path) -> bytes:
    """The word length and the processor that an ELF file is made for."""
    with binary.open("rb") as file:
        head = file.read(20)
    return head[4:6] + head[18:20]


_LEVERS: dict[str, Callable[[Value], Variables]] = {
    "threads": _threads,
    "affinity": partial(_listed, "affinity", _AFFINITY),
    "allocator": _allocator,
    "precision": partial(_listed, "precision", _PRECISION),
    "compiler": _compiler,
}
_PLAIN: dict[str, Value] = {
    "affinity": next(iter(_AFFINITY)),
    "allocator": next(iter(_ALLOCATORS)),
    "precision": next(iter(_PRECISION)),
    "compiler": compilers.PLAIN,
}
