"""Train a standard network, dense or decoupled, and export it for splitting.

    python -m forerun.splitting.train --network resnet-8 --groups 4 --width 1.75 --data DIR \\
        --epochs 15 --output small.onnx

An ordinary training command, which `forerun measure`, `plan` and `deploy` take like any other. It
prints a line an epoch, and goes on where it stopped: after each epoch all of its state is kept
beside the output, without pickle. The weights stay there as safetensors. Started by torchrun, it
trains data parallel.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from forerun.errors import InputError
from forerun.splitting import export
from forerun.splitting.decouple import BLOCKS, NONE, STAGES, variant
from forerun.splitting.distill import Labels, Loss, Teacher, fit
from forerun.splitting.images import FOLDER, Images, opened
from forerun.splitting.networks import NETWORKS, count, input_shape

_TESTED = 500  # images at a time
# The options that change what comes out; others change how long it takes.
_DECIDING = (
    *("dataset", "epochs", "batch", "learning_rate", "weight_decay", "label_smoothing"),
    *("warm_up", "seed", "teacher", "temperature", "teacher_share"),
)


class Training:
    """A network on its way: its weights, its optimiser, and what was reached after each epoch."""

    def __init__(self, options: argparse.Namespace, data: Images, rank: int, workers: int) -> None:
        self.options, self.data, self.rank, self.workers = options, data, rank, workers
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.about = _about(options, data)
        torch.manual_seed(options.seed)
        self.network = variant(**self.about["network"])
        self.network = self.network.to(self.device, memory_format=torch.channels_last)
        self.loss = _loss(options, self.device)
        self.optimiser = _optimiser(self.network, options)
        self.history: list[dict[str, float]] = []
        self.steps = data.steps(options.batch, workers)
        model = DistributedDataParallel(self.network) if workers > 1 else self.network
        self.model = torch.compile(model) if options.compile else model

    def epoch(self) -> None:
        """Train once through the data, and test."""
        started, used = time.perf_counter(), time.process_time()
        number = len(self.history)
        random = np.random.default_rng([self.options.seed, number])
        torch.manual_seed(int(random.integers(2**62)) + self.rank)  # for what is dropped out
        given = self.data.training(self.options.batch, random, self.rank, self.workers)
        steps = iter(range(number * self.steps, (number + 1) * self.steps))
        loss = fit(
            self.model,
            self._tensors(given),
            self.loss,
            self.optimiser,
            lambda: self._pace(next(steps)),
        )
        accuracy = self.accuracy() if self.rank == 0 else math.nan
        self.history.append(
            {
                "loss": loss,
                "accuracy": accuracy,
                "seconds": time.perf_counter() - started,
                "processor_seconds": time.process_time() - used,
            }
        )

    def _pace(self, step: int) -> None:
        """Set the learning rate: a straight line up, then half a cosine down to nothing."""
        done = step / (self.steps * self.options.epochs)
        up = self.options.warm_up
        share = done / up if done < up else (1 + math.cos(math.pi * (done - up) / (1 - up))) / 2
        for group in self.optimiser.param_groups:
            group["lr"] = self.options.learning_rate * share

    def _tensors(self, batches: Iterator[Any]) -> Iterator[tuple[Tensor, Tensor]]:
        """Channels are first for PyTorch, and last in memory, which is faster."""
        for images, labels in batches:
            given = torch.from_numpy(images).permute(0, 3, 1, 2).to(self.device)
            yield given, torch.from_numpy(labels).to(self.device)

    @torch.inference_mode()
    def accuracy(self) -> float:
        """The share of all test images whose class comes first."""
        self.network.eval()
        right = total = 0
        for images, labels in self._tensors(self.data.testing(_TESTED)):
            right += int((self.network(images).argmax(1) == labels).sum())
            total += len(labels)
        return right / total

    def save(self, path: Path) -> None:
        """Keep all that going on needs."""
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        for name, weights in self.network.named_parameters():
            if (buffer := self.optimiser.state[weights].get("momentum_buffer")) is not None:
                tensors[f"momentum.{name}"] = buffer
        export.save(path, tensors, self.about | {"history": self.history})

    def resume(self, path: Path) -> None:
        """Take up what was kept."""
        tensors, about = export.read(path)
        self.history = _own(path, about, self.about)
        parts: dict[str, dict[str, Tensor]] = {"network": {}, "momentum": {}}
        for name, value in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = value
        self.network.load_state_dict(parts["network"])
        for name, weights in self.network.named_parameters():
            if name in parts["momentum"]:
                buffer = parts["momentum"][name].to(weights.device)
                self.optimiser.state[weights]["momentum_buffer"] = buffer

    def finish(self, output: Path) -> None:
        """Write the weights, then the network for inference."""
        export.save(
            _weights(output), self.network.state_dict(), self.about | {"history": self.history}
        )
        mean, deviation = self.data.normal
        export.to_onnx(
            self.network, output, about={"mean": json.dumps(mean), "std": json.dumps(deviation)}
        )


def _about(options: argparse.Namespace, data: Images) -> dict[str, Any]:
    """What the files say of themselves: the network, how it was trained, and what it reads."""
    shuffles = options.shuffles
    if shuffles not in (STAGES, BLOCKS, NONE):
        shuffles = shuffles.split(",")
    network = {
        "network": options.network,
        "classes": data.classes,
        "width": options.width,
        "groups": options.groups,
        "shuffles": shuffles,
    }
    training = {name: getattr(options, name) for name in _DECIDING}
    mean, deviation = data.normal
    return {"network": network, "training": training, "mean": mean, "std": deviation}


def _own(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[dict[str, float]]:
    """What was reached so far; InputError if it was by another training."""
    for part in ("network", "training"):
        for name, value in wanted[part].items():
            if (other := found.get(part, {}).get(name)) != value:
                words = f"the same, or another --output than {path}'s"
                raise InputError(f"--{name.replace('_', '-')}, before {other}", value, words)
    return found["history"]


def _loss(options: argparse.Namespace, device: torch.device) -> Loss:
    labels = Labels(options.label_smoothing)
    if not options.teacher:
        return labels
    teacher = export.load(options.teacher).to(device, memory_format=torch.channels_last)
    return Teacher(teacher, options.temperature, options.teacher_share, labels)


def _optimiser(network: nn.Module, options: argparse.Namespace) -> torch.optim.Optimizer:
    """SGD with Nesterov's momentum; what scales and shifts does not decay."""
    decaying = [weights for weights in network.parameters() if weights.ndim > 1]
    others = [weights for weights in network.parameters() if weights.ndim <= 1]
    groups = [
        {"params": decaying, "weight_decay": options.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, options.learning_rate, momentum=0.9, nesterov=True)


def _weights(output: Path) -> Path:
    return output.with_suffix(".safetensors")


def run(options: argparse.Namespace) -> None:
    """Train as the options say, or as much of it as is missing."""
    _check(options)
    if options.threads:
        torch.set_num_threads(options.threads)
    rank, workers = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    data = opened(options.dataset, options.data, input_shape(options.network)[2], options.loaders)
    output = options.output
    if _weights(output).exists() and output.exists():
        about = export.read(_weights(output))[1]
        reached = _own(output, about, _about(options, data))[-1]["accuracy"]
        say(f"{output}: trained before, accuracy {reached:.2%}")
        return
    if workers > 1:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    _train(Training(options, data, rank, workers), output)
    if workers > 1:
        dist.destroy_process_group()


def _train(training: Training, output: Path) -> None:
    options, first = training.options, training.rank == 0
    kept = output.with_suffix(".checkpoint")
    if kept.exists():
        training.resume(kept)
    if first:
        size = count(training.network)
        say(f"{options.network}: {size.macs / 1e6:.2f} MMAC, {size.parameters} parameters")
    while len(training.history) < options.epochs:
        training.epoch()
        if first:
            training.save(kept)
            last, done = training.history[-1], len(training.history)
            say(
                f"epoch {done} of {options.epochs}: loss {last['loss']:.4f}, "
                f"accuracy {last['accuracy']:.2%}, {last['seconds']:.1f} s"
            )
    if first:
        training.finish(output)
        kept.unlink(missing_ok=True)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _check(options: argparse.Namespace) -> None:
    """InputError for a number that makes no sense."""
    for name in ("epochs", "batch", "groups", "loaders"):
        if getattr(options, name) < 1:
            raise InputError(f"--{name}", getattr(options, name), "a whole number from 1")
    for name, limit, wanted in (
        ("learning_rate", math.inf, "a number from 0"),
        ("weight_decay", math.inf, "a number from 0"),
        ("label_smoothing", 1, "a share from 0 and below 1"),
        ("warm_up", 1, "a share from 0 and below 1"),
    ):
        if not 0 <= (value := getattr(options, name)) < limit:
            raise InputError(f"--{name.replace('_', '-')}", value, wanted)
    if options.output.suffix != ".onnx":
        raise InputError("--output", options.output, "a file NAME.onnx")


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The options; the defaults suit CIFAR-10."""
    made = _Parser(prog="forerun.splitting.train", description=(__doc__ or "").splitlines()[0])
    add = made.add_argument
    add("--network", choices=NETWORKS, default="resnet-8")
    add("--width", type=float, default=1.0, help="what the channels are multiplied by")
    add("--groups", type=int, default=1, help="of a decoupled network; 1: dense")
    add("--shuffles", default=STAGES, help="stages, blocks, none, or modules: stage1,stage2")
    add("--data", type=Path, required=True, help="folder of the data set")
    add("--dataset", default="cifar10", help=f"NAME-images.npy and so on, or {FOLDER}")
    add("--output", type=Path, required=True, help="NAME.onnx; weights go beside it")
    add("--epochs", type=int, default=15)
    add("--batch", type=int, default=128, help="images a step and worker")
    add("--learning-rate", type=float, default=0.1, help="the highest")
    add("--warm-up", type=float, default=0.1, help="share of the steps until then")
    add("--weight-decay", type=float, default=1e-4)
    add("--label-smoothing", type=float, default=0.0)
    add("--teacher", default="", help="weights of a trained network (safetensors) to learn from")
    add("--temperature", type=float, default=4.0, help="that softens what the teacher says")
    add("--teacher-share", type=float, default=0.9, help="of the loss; the rest is the labels'")
    add("--seed", type=int, default=0)
    add("--compile", action="store_true", help="compile the network with inductor")
    add("--threads", type=int, default=0, help="of a worker (default: PyTorch's own)")
    add("--loaders", type=int, default=4, help="threads that decode photographs")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Train, or say in one line why not."""
    try:
        run(parser().parse_args(arguments))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
