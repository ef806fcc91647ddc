"""Describe a PyTorch module: built and run on PyTorch's meta device, which holds shapes only.

PyTorch is optional, and only there if the Python that runs forerun has it. The module is the
user's own code, named by the user, and is imported as Python would.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from forerun.describing.description import Description, Shape, Tally
from forerun.errors import InputError

_FLOPS_A_MAC = 2
_UNDECLARED_VIEW = "_unsafe_view"  # a view that says it is none


def describe_module(
    module: str,
    name: str,
    inputs: Mapping[str, Shape],
    batch: int | None,
    types: Mapping[str, str],
) -> Description:
    """Count one forward pass of a module, or of what a function or class without arguments makes.

    The inputs are tensors of the shapes given, in their order, of float32 or the type given.
    """
    source = f"{module}:{name}"
    if not inputs:
        raise InputError(f"{source}: --input is missing: --input x=1x3x224x224, one an argument")
    shapes = {one: (batch or shape[0], *shape[1:]) for one, shape in inputs.items()}
    torch = _torch(source)
    kinds = {one: _kind(torch, one, types.get(one, "float32")) for one in shapes}
    found = _found(source, module, name)
    try:
        with torch.device("meta"):
            network = found if isinstance(found, torch.nn.Module) else found()
        if not isinstance(network, torch.nn.Module):
            raise InputError(source, type(network).__name__, "a torch.nn.Module")
        network = network.to("meta").eval()
        arguments = [
            torch.empty(shape, dtype=kinds[one], device="meta") for one, shape in shapes.items()
        ]
        tally = _counted(torch, lambda: network(*arguments))
    except InputError:
        raise
    except Exception as error:  # the user's code may raise anything
        reason = next(iter(str(error).strip().splitlines()), "")
        raise InputError(
            source, f"{type(error).__name__}: {reason}", "a forward pass with the shapes given"
        ) from error
    parameters = list(network.parameters())
    return Description(
        source=source,
        macs=tally.macs,
        parameters=sum(one.numel() for one in parameters),
        parameter_bytes=sum(one.numel() * one.element_size() for one in parameters),
        activation_bytes=tally.activation_bytes,
        inputs=shapes,
        operators=tally.operators(),
    )


def module_of(module: str, name: str) -> Any:
    """The module of that name, or what a function or class without arguments of that name makes."""
    source = f"{module}:{name}"
    torch = _torch(source)
    found = _found(source, module, name)
    try:
        made = found if isinstance(found, torch.nn.Module) else found()
    except Exception as error:  # the user's code may raise anything
        reason = next(iter(str(error).strip().splitlines()), "")
        expected = "a module, or what makes one without arguments"
        raise InputError(source, f"{type(error).__name__}: {reason}", expected) from error
    if not isinstance(made, torch.nn.Module):
        raise InputError(source, type(made).__name__, "a torch.nn.Module")
    return made


def _torch(source: str) -> Any:
    # By name: nothing in forerun imports a framework, so nothing needs one.
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise InputError(
            f"{source}: a PyTorch module needs torch in the Python that runs forerun"
            f" ({sys.executable}): install it there, or export the module to ONNX"
        ) from None


def _kind(torch: Any, name: str, kind: str) -> Any:
    """PyTorch's type of that name; InputError where it has none."""
    found = getattr(torch, kind, None)
    if not isinstance(found, torch.dtype):
        raise InputError(f"input {name}", kind, "a type of PyTorch, such as int64 or float16")
    return found


def _found(source: str, module: str, name: str) -> Any:
    try:
        found = _file(module) if module.endswith(".py") else importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, SyntaxError, OSError) as error:
        raise InputError(source, str(error), "file.py:name or package.module:name") from error
    return found


def _file(path: str) -> Any:
    """The file as a module; as with `python file.py`, its directory is where it imports from."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    made = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    sys.modules[spec.name] = made  # dataclasses and the like look for it there
    spec.loader.exec_module(made)
    return made


def _counted(torch: Any, call: Callable[[], object]) -> Tally:
    """What the operators that PyTorch dispatches compute and write while `call` runs."""
    dispatch = importlib.import_module("torch.utils._python_dispatch")
    counter = importlib.import_module("torch.utils.flop_counter")
    tally = Tally()

    class Written(dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
        def __torch_dispatch__(
            self, function: Any, _: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = function(*args, **(kwargs or {}))
            # What aliases its argument is a view, or overwrites it in place: nothing new.
            name = function._overloadpacket.__name__
            new = all(one.alias_info is None for one in function._schema.returns)
            made = result if isinstance(result, tuple | list) else [result]
            tensors = [one for one in made if isinstance(one, torch.Tensor)]
            sizes = [one.numel() * one.element_size() for one in tensors]
            tally.add(name, 0, sum(sizes) if new and name != _UNDECLARED_VIEW else 0)
            return result

    with torch.no_grad(), counter.FlopCounterMode(display=False) as flops, Written():
        call()
    for operator, count in flops.get_flop_counts().get("Global", {}).items():
        tally.add(operator.__name__, count // _FLOPS_A_MAC, 0, layers=0)
    return tally
