"""A segment of the network: one onnxruntime session, which reads and writes buffers in place."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

from .faults import DeviceError
from .reading import open_checked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from .program import Program, Segment


class Computing:
    """The session of a segment."""

    def __init__(self, program: Program, segment: Segment, threads: int) -> None:
        # By its name, not as the bytes that were checked: those would lie in memory beside what is
        # made of them, when it is at its fullest.
        with open_checked(program, segment) as name:
            self._session = _session(name, program.folder / segment.file, threads)
        self._segment = segment
        self._check(program)

    def bound(self, arrays: Mapping[str, NDArray[np.float32]]) -> Callable[[], None]:
        """What computes the segment, from and into these buffers."""
        inputs = {name: arrays[one] for name, one in self._segment.inputs.items()}
        outputs = {name: arrays[one] for name, one in self._segment.outputs.items()}
        return bound(self._session, inputs, outputs)

    def _check(self, program: Program) -> None:
        """What the file reads and writes is what the package says: bindings would not look."""
        segment = self._segment
        for kind, found, named in (
            ("input", self._session.get_inputs(), segment.inputs),
            ("output", self._session.get_outputs(), segment.outputs),
        ):
            where = f"{program.folder / segment.file}: {kind}s"
            if sorted(one.name for one in found) != sorted(named):
                names = ", ".join(sorted(one.name for one in found))
                raise DeviceError(f"{where}: found {names}, expected {', '.join(sorted(named))}")
            for one in found:
                dims = program.buffers[named[one.name]].dims
                if tuple(one.shape) != dims or one.type != "tensor(float)":
                    raise DeviceError(
                        f"{where}: {one.name}: found {one.type} {one.shape}, "
                        f"expected float32 of {list(dims)}"
                    )


def _session(name: str, path: Path, threads: int) -> Any:
    """A session of the file of this name; DeviceError, which tells its path, where it is none."""
    try:
        return onnxruntime.InferenceSession(
            name, session_options(threads), providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # of many kinds, by what onnxruntime finds wrong
        raise DeviceError(f"{path}: onnxruntime cannot load it: {error}") from None


def bound(
    session: Any, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
) -> Callable[[], None]:
    """What runs a session from and into these arrays, which must stay where they are."""
    binding = session.io_binding()
    for name, array in inputs.items():
        place = (array.dtype.type, array.shape, array.ctypes.data)
        binding.bind_input(name, "cpu", 0, *place)
    for name, array in outputs.items():
        place = (array.dtype.type, array.shape, array.ctypes.data)
        binding.bind_output(name, "cpu", 0, *place)
    run = partial(session.run_with_iobinding, binding)
    run.arrays = (inputs, outputs)  # type: ignore[attr-defined]  # they live as long as it does
    return run


def session_options(threads: int) -> Any:
    """Sessions that keep little: no memory beyond what runs, and no thread that spins."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_cpu_mem_arena = False
    if _memory_is_shared():
        options.add_session_config_entry("session.use_env_allocators", "1")
    # Whatever a file looks like: what was checked of it was checked of an ONNX file.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.log_severity_level = 3  # errors: warnings are about how a graph was written
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return options


@cache
def _memory_is_shared() -> bool:
    """Let all sessions compute in the same memory, which grows by what is asked for."""
    try:
        place = onnxruntime.OrtMemoryInfo(
            "Cpu",
            onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR,
            0,
            onnxruntime.OrtMemType.DEFAULT,
        )
        growing = onnxruntime.OrtArenaCfg(
            {"arena_extend_strategy": 1, "initial_chunk_size_bytes": 2**20}
        )
        onnxruntime.create_and_register_allocator(place, growing)
    except (AttributeError, RuntimeError):  # an older onnxruntime: each has its own
        return False
    return True


def loaded(program: Program, threads: int) -> list[Computing]:
    """The sessions of a program's segments.

    Loading one takes several times its weights for a moment: the largest comes first, while the
    others take nothing, and what it has left behind is given back to the system.
    """
    sessions: dict[int, Computing] = {}
    sizes = {i: _size(program, one) for i, one in enumerate(program.segments)}
    for i in sorted(sizes, key=lambda one: -sizes[one]):
        sessions[i] = Computing(program, program.segments[i], threads)
        _give_back()
    return [sessions[i] for i in range(len(sessions))]


def _size(program: Program, segment: Segment) -> int:
    path = program.folder / segment.file
    return path.stat().st_size if path.is_file() else 0


def _give_back() -> None:
    with suppress(OSError, AttributeError):  # not every C library has it
        ctypes.CDLL(None).malloc_trim(0)
