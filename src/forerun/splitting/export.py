"""Networks as files: ONNX to be cut and run, safetensors to be trained further. No pickle.

A weights file says itself which network it belongs to, so that it can be loaded by its name alone.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised
from torch import Tensor, nn

from forerun.errors import InputError
from forerun.splitting.decouple import variant
from forerun.splitting.networks import initialise

_OPSET, _IR = 18, 10  # what onnxruntime 1.20 reads
_ABOUT = "forerun"  # the key of what a weights file says of itself
_KIND = ("network", "classes", "width", "groups", "shuffles")  # of a network, as `variant` has it
_CALIBRATION = 4  # samples


def to_onnx(
    module: nn.Module,
    path: str | Path,
    example: Tensor | None = None,
    *,
    inputs: Sequence[str] = ("image",),
    outputs: Sequence[str] = ("logits",),
    about: Mapping[str, str] | None = None,
) -> None:
    """Write a network for inference as one ONNX file, with its weights inside.

    It is for batches of the example's size; without an example, for one sample of the network's
    `input_shape`. `about` is kept in the file's metadata.
    """
    if example is None:
        example = torch.zeros(_input_shape(module))
    copied = copy.deepcopy(module).cpu().eval()
    try:
        with _silence(), torch.no_grad():
            program = torch.onnx.export(
                copied,
                (example,),
                dynamo=True,
                opset_version=_OPSET,
                input_names=list(inputs),
                output_names=list(outputs),
                external_data=False,
                verbose=False,
            )
    except Exception as error:  # whatever the exporter cannot follow
        found = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(
            f"export to {path}", found, "a network that torch.export traces"
        ) from error
    model = program.model_proto
    model.ir_version = min(model.ir_version, _IR)
    _forget_sources(model)
    for name, text in (about or {}).items():
        model.metadata_props.add(key=name, value=text)
    with _replaced(Path(path)) as part:
        part.write_bytes(model.SerializeToString())


def _input_shape(module: nn.Module) -> tuple[int, ...]:
    return getattr(module, "input_shape", (1, 3, 224, 224))


@contextmanager
def _silence() -> Iterator[None]:
    """The exporter tells programmers much about itself."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _forget_sources(model: Any) -> None:
    """Remove where in the program each node is from: the same network gives the same file."""
    graph = model.graph
    del model.metadata_props[:]
    for one in (graph, *graph.node, *graph.value_info, *graph.input, *graph.output):
        del one.metadata_props[:]
        one.ClearField("doc_string")
    for tensor in graph.initializer:
        del tensor.metadata_props[:]
        tensor.ClearField("doc_string")


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """A file to write, which then takes the place of another one at once, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{uuid4().hex}.part")
    try:
        yield part
        with part.open("rb") as whole:
            os.fsync(whole.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


# Weights.


def save(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write tensors, and what is to be known of them."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with _replaced(path) as part:
        part.write_bytes(serialised(kept, {_ABOUT: json.dumps(about)}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save` has written; InputError for anything else."""
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {})[_ABOUT])
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        found = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(str(path), found, "weights that forerun has saved") from None


def load(path: str | Path) -> nn.Module:
    """The network that a weights file belongs to, with its weights."""
    tensors, about = read(Path(path))
    kind = about.get("network")
    if not isinstance(kind, dict) or "network" not in kind:
        raise InputError(str(path), "no network", "what the weights belong to")
    module = variant(**{name: value for name, value in kind.items() if name in _KIND})
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:  # which names every tensor, a line each
        found = " ".join(str(error).split())
        raise InputError(str(path), found, f"weights of {kind['network']}") from None
    return module.eval()


# Weights that nobody has trained.


def random_statistics(module: nn.Module, seed: int = 0, example: Tensor | None = None) -> None:
    """Give a network random weights and statistics with which its activations are of order 1.

    For checks and timing: a network as it is made has means of 0 and variances of 1 in all its
    normalisations, so that whoever mixes them up gets the right answer.
    """
    shape = _input_shape(module) if example is None else tuple(example.shape)
    hooks = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        for layer in module.modules():
            if isinstance(layer, nn.Conv2d):
                initialise(layer)
            elif isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=math.sqrt(1 / layer.in_features))
            elif isinstance(layer, nn.BatchNorm2d):
                hooks.append(layer.register_forward_pre_hook(_take_statistics))
            if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
                nn.init.normal_(layer.bias, std=0.1)
        training = module.training
        module.eval()(torch.randn(_CALIBRATION, *shape[1:]))
        module.train(training)
    for hook in hooks:
        hook.remove()


def _take_statistics(layer: nn.BatchNorm2d, given: tuple[Tensor, ...]) -> None:
    """About what comes in, but a little off, channel by channel."""
    variance, mean = torch.var_mean(given[0], dim=(0, 2, 3), correction=0)
    spread = (variance + layer.eps).sqrt()
    layer.running_mean.copy_(mean + 0.2 * spread * torch.randn_like(mean))
    layer.running_var.copy_(variance * torch.empty_like(variance).uniform_(0.7, 1.4))
    if layer.affine:
        layer.weight.uniform_(0.7, 1.3)
        layer.bias.normal_(std=0.2)
