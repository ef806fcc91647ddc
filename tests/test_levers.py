"""Levers: what each value sets, and that it reaches a program."""

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from forerun import compilers, levers
from forerun._values import Value
from forerun.compilers import Variant
from forerun.errors import InputError

VALUES: dict[str, tuple[Value, ...]] = {
    "threads": (1, 2, 64),
    "affinity": ("none", "close", "spread"),
    "allocator": ("glibc", "jemalloc", "tcmalloc"),
    "precision": ("float32", "tf32", "bfloat16"),
    "compiler": ("plain", "xla"),
}


def test_threads_are_told_to_every_library() -> None:
    assert levers.variables("threads", 3) == {
        "OMP_NUM_THREADS": "3",
        "MKL_NUM_THREADS": "3",
        "OPENBLAS_NUM_THREADS": "3",
        "TF_NUM_INTRAOP_THREADS": "3",
        "NPROC": "3",
        "TF_NUM_INTEROP_THREADS": "1",
    }
    assert levers.variables("threads", "3") == levers.variables("threads", 3)


def test_a_value_sets_what_the_others_of_its_lever_set_and_no_other_lever(libraries: Path) -> None:
    assert libraries.exists()
    for name, values in VALUES.items():
        assert levers.is_lever(name)
        for value in values:
            assert tuple(levers.variables(name, value)) == levers.variables_of(name)
    for one, other in combinations(VALUES, 2):
        assert not set(levers.variables_of(one)) & set(levers.variables_of(other))
    assert not levers.is_lever("batch")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("threads", 0, "a whole number of at least 1"),
        ("threads", 1.5, "a whole number of at least 1"),
        ("threads", "all", "a whole number of at least 1"),
        ("affinity", "far", "one of none, close, spread"),
        ("allocator", "malloc", "one of glibc, jemalloc, tcmalloc"),
        ("precision", 16, "one of float32, tf32, bfloat16"),
        ("compiler", "tvm", "one of plain, xla"),
        ("compiler", "inductor", "a command of its own: it needs torch.compile(model) in the"),
        ("compiler", "hybridised", "a command of its own: it needs network.hybridize() in the"),
    ],
)
def test_what_is_no_value_is_told_in_one_line(name: str, value: Value, expected: str) -> None:
    with pytest.raises(InputError) as refused:
        levers.variables(name, value)
    assert f"factor {name}: found {value}, expected {expected}" in str(refused.value)


def test_what_a_program_has_by_itself_is_plain() -> None:
    assert [name for name in VALUES if levers.is_plain(name, VALUES[name][0])] == list(VALUES)
    assert [name for name in VALUES if levers.is_plain(name, VALUES[name][1])] == ["threads"]
    assert levers.is_plain("batch", 64)


def test_a_graph_compiler_that_registers_itself_is_a_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compilers, "_VARIANTS", dict(compilers._VARIANTS))
    compilers.register(Variant("tvm", "pytorch", {"USE_TVM": "1"}))
    assert levers.variables("compiler", "tvm") == {"USE_TVM": "1"}
    assert levers.variables("compiler", "xla") == {
        "TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit",
        "JAX_DISABLE_JIT": "0",
    }


def test_an_allocator_is_loaded_into_the_program(libraries: Path) -> None:
    library = str(libraries / "libjemalloc.so.2")
    found = levers.variables("allocator", "jemalloc")
    assert found["LD_PRELOAD"] == library
    assert "dirty_decay_ms:-1" in found["MALLOC_CONF"]  # what it has it keeps
    for value, is_loaded in (("jemalloc", True), ("glibc", False)):
        words = [sys.executable, "-c", "print(open('/proc/self/maps').read())"]
        variables = levers.variables("allocator", value)
        maps = subprocess.run(words, env=variables, capture_output=True, text=True, check=True)
        assert (library in maps.stdout) is is_loaded


def test_other_libraries_that_are_loaded_stay(
    libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/opt/libtrace.so /usr/lib/libtcmalloc.so.4")
    own = str(libraries / "libjemalloc.so.2")
    assert levers.variables("allocator", "glibc") == {
        "LD_PRELOAD": "/opt/libtrace.so",
        "MALLOC_CONF": "",
    }
    found = levers.variables("allocator", "jemalloc")
    assert found["LD_PRELOAD"] == f"{own}:/opt/libtrace.so"


def test_a_library_that_is_not_here_is_named_with_its_package(
    libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        levers._ALLOCATORS, "jemalloc", levers.Allocator(("libnobody.so.9",), "libjemalloc2")
    )
    told = r"factor allocator: found jemalloc, .*; libnobody.so.9 is Debian's libjemalloc2"
    with pytest.raises(InputError, match=told):
        levers.variables("allocator", "jemalloc")
    # Made for another processor, the linker would pass over it in silence.
    (libraries / "libnobody.so.9").write_bytes(b"\x7fELF\x01\x02" + bytes(14))
    with pytest.raises(InputError, match=told):
        levers.variables("allocator", "jemalloc")
