"""Train a small network with PyTorch on the processor, one thread a worker.

With more than one worker the training is data parallel (DistributedDataParallel on gloo): the
workers are started here, or by torchrun or any other launcher that sets RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT, which then counts for more than --workers.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch

# The first optimiser would import it anyway: here it is imported once for all workers.
import torch._dynamo
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
OPTIMISERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
CLASSES = 10
BYTES = 256  # the transformer's vocabulary

Data = tuple[np.ndarray, np.ndarray]  # inputs and targets: every worker takes its share


class RefusedError(Exception):
    """What was asked for cannot be trained."""


# Networks: each gives the module and the sizes of its images, layer by layer.


def lenet(options: argparse.Namespace, size: int, channels: int) -> tuple[nn.Module, list[int]]:
    """Two convolutions, each with a pooling layer, and three dense layers."""
    activation = ACTIVATIONS[options.activation]
    layers: list[nn.Module] = []
    sizes = []
    for which, filters in (("first", options.filters), ("second", 2 * options.filters)):
        before, after, found = windows(size, options)
        if found < 1:
            raise RefusedError(f"the {which} convolution's size, over {size}, would be below 1")
        if found < options.pool:
            raise RefusedError(f"the {which} pooling's size, over {found}, would be below 1")
        if before != after:
            layers.append(nn.ZeroPad2d((before, after, before, after)))
        padding = before if before == after else 0
        layers += [
            nn.Conv2d(channels, filters, options.kernel, options.stride, padding), activation(),
            nn.MaxPool2d(options.pool),
        ]  # fmt: skip
        size, channels = found // options.pool, filters
        sizes += [found, size]
    layers += [
        nn.Flatten(),
        nn.Linear(channels * size**2, 120), activation(), nn.Dropout(options.dropout),
        nn.Linear(120, 84), activation(),
        nn.Linear(84, CLASSES),
    ]  # fmt: skip
    return nn.Sequential(*layers), sizes


def windows(size: int, options: argparse.Namespace) -> tuple[int, int, int]:
    """The zeros before and after a side of this size, and a convolution's size over all of it."""
    if options.padding == "valid":
        return 0, 0, (size - options.kernel) // options.stride + 1
    found = -(-size // options.stride)
    zeros = max((found - 1) * options.stride + options.kernel - size, 0)
    return zeros // 2, zeros - zeros // 2, found


def mnist_cnn(size: int, channels: int) -> tuple[nn.Module, list[int]]:
    """Two convolutions of 3x3, one pooling layer and two dense layers."""
    sizes = [size - 2, size - 4, (size - 4) // 2]
    if sizes[-1] < 1:
        raise RefusedError(f"the pooling's size, over {size - 4}, would be below 1")
    network = nn.Sequential(
        nn.Conv2d(channels, 32, 3), nn.ReLU(),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * sizes[-1] ** 2, 128), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(128, CLASSES),
    )  # fmt: skip
    return network, sizes


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions beside a shortcut; the first one has the stride."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )  # fmt: skip
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != 4 * width:
            self.shortcut.append(nn.Conv2d(channels, 4 * width, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(4 * width))

    def forward(self, images: Tensor) -> Tensor:
        """The block's output: both ways added."""
        return torch.relu(self.convolutions(images) + self.shortcut(images))


def resnet50(size: int, channels: int) -> tuple[nn.Module, list[int]]:
    """The standard network of 16 bottlenecks in four stages."""
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    ]  # fmt: skip
    sizes = [-(-size // 2), -(-size // 4)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Bottleneck(channels, width, stride))
            channels = 4 * width
        sizes.append(-(-size // 2 ** (stage + 2)))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
    return nn.Sequential(*layers), sizes


class Transformer(nn.Module):
    """Says, at each place of a sequence of bytes, which byte comes next."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        width, length = options.width, options.length
        self.bytes = nn.Embedding(BYTES, width)
        self.places = nn.Parameter(torch.randn(length, width) / 50)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, options.heads, 4 * width, dropout=0.1, batch_first=True, norm_first=True
            )
            for _ in range(options.layers)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, BYTES))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, sequences: Tensor) -> Tensor:
        """The scores of the next byte; what is scored comes second, as in images' networks."""
        values = self.bytes(sequences) + self.places
        for layer in self.layers:
            values = layer(values, self.mask, is_causal=True)
        return self.head(values).transpose(1, 2)


def transformer(options: argparse.Namespace) -> tuple[nn.Module, list[int]]:
    """Layers of causal self-attention between two embeddings."""
    if options.width % options.heads:
        raise RefusedError(f"width {options.width} is no multiple of {options.heads} heads")
    return Transformer(options), [options.length, options.width]


def build(options: argparse.Namespace, inputs: np.ndarray) -> tuple[nn.Module, list[int]]:
    """The network for these inputs, with weights that the seed decides, and its sizes."""
    torch.manual_seed(options.seed)
    if options.network == "transformer":
        return transformer(options)
    size, channels = inputs.shape[1], inputs.shape[3]
    if options.network == "lenet":
        return lenet(options, size, channels)
    return {"mnist-cnn": mnist_cnn, "resnet50": resnet50}[options.network](size, channels)


def load(options: argparse.Namespace) -> Data:
    """As many images and labels, or sequences and their next bytes, as the chunks hold."""
    samples = options.chunks * options.chunk_size
    if options.dataset == "synthetic":
        return synthetic(options, samples)
    if options.network == "transformer":
        raise RefusedError("the transformer reads synthetic sequences only: --dataset synthetic")
    files = [Path(options.data, f"{options.dataset}-{what}.npy") for what in ("images", "labels")]
    for file in files:
        if not file.is_file():
            raise RefusedError(f"{file}: no such file; --data names the folder of the data sets")
    images, labels = (np.load(file, mmap_mode="r") for file in files)
    if samples > len(images):
        raise RefusedError(
            f"{options.dataset} has {len(images)} images, fewer than "
            f"{options.chunks} chunks of {options.chunk_size}"
        )
    return images[:samples], labels[:samples]


def synthetic(options: argparse.Namespace, samples: int) -> Data:
    """Random images and labels; or, for the transformer, random walks over the bytes."""
    random = np.random.default_rng(options.seed)
    if options.network == "transformer":
        steps = random.integers(-3, 4, (samples, options.length + 1))
        walks = np.cumsum(steps, axis=1) % BYTES
        return walks[:, :-1], walks[:, 1:]
    size = options.image_size or (64 if options.network == "resnet50" else 28)
    channels = 3 if options.network == "resnet50" else 1
    images = random.integers(0, 256, (samples, size, size, channels), np.uint8)
    return images, random.integers(0, CLASSES, samples, np.uint8)


def share(array: np.ndarray, rank: int, workers: int) -> Tensor:
    """What this worker trains on; images with their channels first, as PyTorch has them."""
    each = len(array) // workers
    mine = array[rank * each : (rank + 1) * each]
    if mine.ndim == 4:
        mine = mine.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.array(mine, order="C"))


# Training.


def train(
    rank: int, workers: int, options: argparse.Namespace, network: nn.Module, data: Data
) -> None:
    """Train as one of the workers, which by now know of each other if there are several."""
    inputs, targets = (share(array, rank, workers) for array in data)
    model = DistributedDataParallel(network) if workers > 1 else network
    optimiser = OPTIMISERS[options.optimiser](model.parameters(), lr=options.learning_rate)
    torch.manual_seed(options.seed + rank)  # so that every worker drops out other values
    for epoch in range(options.epochs):
        started = time.perf_counter()
        random = np.random.default_rng([options.seed, epoch, rank])
        order = torch.from_numpy(random.permutation(len(inputs)))
        loss = train_epoch(model, optimiser, inputs, targets, order.split(options.batch))
        seconds = time.perf_counter() - started
        if rank == 0:
            say(f"epoch {epoch + 1} of {options.epochs}: loss {loss:.4f}, {seconds:.3f} s")
    say(f"rank {rank}: weights {digest(network)}")
    if options.export and rank == 0:
        export(network, values_of(inputs[:1]), options.export)


def train_epoch(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    inputs: Tensor,
    targets: Tensor,
    batches: tuple[Tensor, ...],
) -> float:
    """Go once through the data, batch by batch; the mean of their losses."""
    losses = []
    for batch in batches:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(values_of(inputs[batch])), targets[batch].long())
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def values_of(inputs: Tensor) -> Tensor:
    """What the network sees: of images numbers from 0 to 1."""
    return inputs.float() / 255 if inputs.dtype == torch.uint8 else inputs


def export(network: nn.Module, example: Tensor, file: str) -> None:
    """Write the trained network as ONNX, for one sample at a time, its weights inside."""
    torch.onnx.export(
        network.eval(), (example,), file, input_names=["input"], output_names=["output"],
        opset_version=18, dynamo=True, external_data=False, verbose=False,
    )  # fmt: skip
    say(f"exported to {file}")


def digest(network: nn.Module) -> str:
    """16 hexadecimal digits that equal weights have in common."""
    found = hashlib.sha256()
    for weights in network.parameters():
        found.update(weights.detach().numpy().tobytes())
    return found.hexdigest()[:16]


def say(line: str) -> None:
    """Print a line at once, whole, whatever the other workers print."""
    sys.stdout.write(line + "\n")  # in one piece even where Python was told not to buffer
    sys.stdout.flush()


def start_workers(options: argparse.Namespace, network: nn.Module, data: Data) -> None:
    """Train with as many workers on this machine; if one fails, all end.

    They are forked: what this process has imported and loaded is theirs at once.
    """
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        meeting = socket.create_server(("127.0.0.1", options.port))
    except OSError as error:
        raise RefusedError(f"port {options.port}: {error.strerror}") from None
    given = (meeting, options, network, data)
    mp.start_processes(local_worker, given, nprocs=options.workers, start_method="fork")


def local_worker(
    rank: int,
    meeting: socket.socket,
    options: argparse.Namespace,
    network: nn.Module,
    data: Data,
) -> None:
    """One worker on this machine; they meet at a port that is open already: none can take it."""
    host, port = meeting.getsockname()
    first = rank == 0
    store = dist.TCPStore(
        host, port, options.workers, first, master_listen_fd=meeting.detach() if first else None
    )
    dist.init_process_group("gloo", store=store, rank=rank, world_size=options.workers)
    train(rank, options.workers, options, network, data)
    dist.destroy_process_group()


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        """End with the exit code 2."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def check(options: argparse.Namespace) -> None:
    """RefusedError for a number that makes no sense."""
    for name, value in vars(options).items():
        low = 0 if name in ("seed", "port", "learning_rate", "dropout") else 1
        if isinstance(value, int | float) and not low <= value < float("inf"):
            raise RefusedError(f"--{name.replace('_', '-')}: {value} is not a number from {low}")
    if options.learning_rate == 0:
        raise RefusedError("--learning-rate: 0 teaches nothing")
    if options.dropout >= 1:
        raise RefusedError(f"--dropout: {options.dropout} is not below 1")
    for name in ("onnx", "onnxscript") if options.export else ():
        if importlib.util.find_spec(name) is None:  # now, not after the training
            raise RefusedError(f"--export needs {name}, which this Python has not")


def options_parser() -> Parser:
    """The options; those that shape a network are the LeNet's unless they say otherwise."""
    parser = Parser(description=__doc__)
    add = parser.add_argument
    networks = ("lenet", "mnist-cnn", "resnet50", "transformer")
    add("--network", choices=networks, default="lenet")
    add("--kernel", type=int, default=5, help="side of the convolutions, in pixels")
    add("--pool", type=int, default=2, help="side and stride of the pooling, in pixels")
    add("--filters", type=int, default=8, help="of the first convolution; the second has twice")
    add("--activation", choices=("relu", "tanh", "sigmoid"), default="relu")
    add("--optimiser", choices=("sgd", "adam"), default="sgd", help="of any network")
    add("--learning-rate", type=float, default=0.01, help="of any network")
    add("--padding", choices=("valid", "same"), default="valid")
    add("--stride", type=int, default=1, help="of the convolutions")
    add("--dropout", type=float, default=0.5, help="share of the values that are dropped")
    datasets = ("mnist", "fashion-mnist", "cifar10", "digits", "synthetic")
    add("--dataset", choices=datasets, default="synthetic")
    add("--data", default="data", help="folder with NAME-images.npy and NAME-labels.npy")
    add("--image-size", type=int, help="of synthetic images (default: 28; resnet50: 64)")
    add("--chunks", type=int, default=4, help="how much of the data to train on")
    add("--chunk-size", type=int, default=500, help="images, or sequences, a chunk")
    add("--batch", type=int, default=64, help="samples a step and worker")
    add("--epochs", type=int, default=1)
    add("--workers", type=int, default=1, help="processes on this machine")
    add("--seed", type=int, default=0)
    add("--port", type=int, default=0, help="where workers meet (default: a free one)")
    add("--export", help="where to write the trained network as ONNX (needs onnx and onnxscript)")
    add("--layers", type=int, default=2, help="of the transformer")
    add("--width", type=int, default=128, help="of the transformer: values a place")
    add("--heads", type=int, default=4, help="of the transformer")
    add("--length", type=int, default=64, help="of the transformer: bytes a sequence")
    return parser


def run(options: argparse.Namespace) -> None:
    """Train as the options say, with workers from here, from a launcher, or alone."""
    check(options)
    launched = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    workers = int(os.environ["WORLD_SIZE"]) if launched else options.workers
    rank = int(os.environ["RANK"]) if launched else 0
    torch.set_num_threads(1)
    data = load(options)
    if len(data[0]) < workers:
        raise RefusedError(f"{len(data[0])} samples are fewer than {workers} workers")
    network, sizes = build(options, data[0])
    if rank == 0:
        parameters = sum(weights.numel() for weights in network.parameters())
        listed = " ".join(map(str, sizes))
        say(f"network {options.network}: {parameters} parameters, sizes {listed}")
    if launched:
        dist.init_process_group("gloo")
        train(rank, workers, options, network, data)
        dist.destroy_process_group()
    elif workers > 1:
        start_workers(options, network, data)
    else:
        train(rank, workers, options, network, data)


def main() -> None:
    """Train, or say in one line why not."""
    parser = options_parser()
    try:
        run(parser.parse_args())
    except RefusedError as reason:
        parser.error(str(reason))


if __name__ == "__main__":
    main()
