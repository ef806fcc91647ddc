"""Train a small network with MXNet (Gluon, hybridised) on the processor, one thread a worker.

With more than one worker the training is data parallel on a `dist_sync` store: this process then
starts a scheduler, a server and the workers on this machine, and ends them together.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

# What keeps a pool of threads is told to keep one; MXNet must know before it is imported.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MXNET_OMP_MAX_THREADS": "1",
    "MXNET_CPU_WORKER_NTHREADS": "1",
}
PR_SET_PDEATHSIG = 1
CLASSES = 10


class RefusedError(Exception):
    """What was asked for cannot be trained."""


# What is refused before MXNet is imported, and the sizes of images from layer to layer.


def sizes(options: argparse.Namespace, size: int) -> list[int]:
    """The sizes that the network makes of images of this size."""
    if options.network == "lenet":
        return lenet_sizes(options, size)
    if options.network == "resnet50":
        return [-(-size // 2**halvings) for halvings in (1, 2, 2, 3, 4, 5)]
    if size < 6:
        raise RefusedError(f"size {size} leaves nothing: the pooling's size would be below 1")
    return [size - 2, size - 4, (size - 4) // 2]


def lenet_sizes(options: argparse.Namespace, size: int) -> list[int]:
    """After the first convolution, its pooling, the second convolution and its pooling."""
    found = []
    for which in ("first", "second"):
        left = windows(options, size)[2]
        if left < 1:
            raise RefusedError(
                f"kernel {options.kernel} on size {size} leaves nothing: "
                f"the {which} convolution's size would be below 1"
            )
        if left < options.pool:
            raise RefusedError(
                f"pool {options.pool} on size {left} leaves nothing: "
                f"the {which} pooling's size would be below 1"
            )
        size = left // options.pool
        found += [left, size]
    return found


def windows(options: argparse.Namespace, size: int) -> tuple[int, int, int]:
    """The zeros before and after a side of this size, and a convolution's size over all of it."""
    kernel, stride = options.kernel, options.stride
    if options.padding == "valid":
        return 0, 0, (size - kernel) // stride + 1
    found = -(-size // stride)
    zeros = max((found - 1) * stride + kernel - size, 0)
    return zeros // 2, zeros - zeros // 2, found


def check(options: argparse.Namespace) -> None:
    """Refuse at once what no worker could train."""
    sizes(options, load(options, limit=1)[0].shape[1])
    count = options.chunks * options.chunk_size
    if count < options.workers:
        raise RefusedError(f"{count} samples are fewer than {options.workers} workers")


# Data: images and labels, as NumPy arrays of which every worker takes its share.


def load(options: argparse.Namespace, limit: int | None = None) -> tuple[Any, Any]:
    """As many images (number, height, width, channels) and labels as the chunks hold."""
    count = options.chunks * options.chunk_size
    if options.dataset == "synthetic":
        return synthetic(options, min(count, limit or count))
    files = [Path(options.data, f"{options.dataset}-{part}.npy") for part in ("images", "labels")]
    for file in files:
        if not file.is_file():
            raise RefusedError(f"{file}: no such file; --data names the folder of the data sets")
    images, labels = (np.load(file, mmap_mode="r") for file in files)
    if count > len(images):
        raise RefusedError(
            f"{options.dataset} has {len(images)} images, fewer than "
            f"{options.chunks} chunks of {options.chunk_size}"
        )
    return images[:count], labels[:count]


def synthetic(options: argparse.Namespace, count: int) -> tuple[Any, Any]:
    """Random images and labels."""
    random = np.random.default_rng(options.seed)
    size = options.image_size or (64 if options.network == "resnet50" else 28)
    channels = 3 if options.network == "resnet50" else 1
    images = random.integers(0, 256, (count, size, size, channels), np.uint8)
    return images, random.integers(0, CLASSES, count, np.uint8)


def share(options: argparse.Namespace, rank: int) -> tuple[Any, Any]:
    """What this worker trains on: images, channels first as MXNet has them, and labels."""
    images, labels = load(options)
    each = len(images) // options.workers
    own = slice(rank * each, (rank + 1) * each)
    return np.array(np.moveaxis(images[own], -1, 1), order="C"), labels[own].astype(np.float32)


def batches(images: Any, labels: Any, order: Any, size: int) -> Iterator[tuple[Any, Any]]:
    """The images, as numbers from 0 to 1, and labels in this order; the last batch is smaller."""
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        yield images[chosen].astype(np.float32) / 255, labels[chosen]


# Networks. MXNet is imported late, and therefore handed on.


def lenet(nn: Any, options: argparse.Namespace, size: int, channels: int) -> Any:
    """Two convolutions, each with a pooling layer, and three dense layers."""
    network = nn.HybridSequential(prefix="lenet_")
    found = lenet_sizes(options, size)
    for before, filters in ((size, options.filters), (found[1], 2 * options.filters)):
        add_convolution(network, nn, options, before, channels, filters)
        network.add(nn.MaxPool2D(options.pool, options.pool))
        channels = filters
    network.add(
        nn.Flatten(),
        nn.Dense(120, options.activation, in_units=channels * found[3] ** 2),
        nn.Dropout(options.dropout),
        nn.Dense(84, options.activation, in_units=120),
        nn.Dense(CLASSES, in_units=84),
    )
    return network


def add_convolution(
    network: Any, nn: Any, options: argparse.Namespace, size: int, channels: int, filters: int
) -> None:
    """Add a convolution of lenet's; it pads evenly itself, an odd number of zeros goes before."""
    before, after, _ = windows(options, size)
    if before != after:
        edges = (0, 0, 0, 0, before, after, before, after)
        network.add(nn.HybridLambda(lambda F, x: F.pad(x, mode="constant", pad_width=edges)))
    padding = before if before == after else 0
    network.add(
        nn.Conv2D(
            filters,
            options.kernel,
            options.stride,
            padding,
            activation=options.activation,
            in_channels=channels,
        )
    )


def mnist_cnn(nn: Any, size: int, channels: int) -> Any:
    """Two convolutions of 3x3, one pooling layer and two dense layers."""
    network = nn.HybridSequential(prefix="mnist_cnn_")
    network.add(
        nn.Conv2D(32, 3, activation="relu", in_channels=channels),
        nn.Conv2D(64, 3, activation="relu", in_channels=32),
        nn.MaxPool2D(2, 2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Dense(128, "relu", in_units=64 * ((size - 4) // 2) ** 2),
        nn.Dropout(0.5),
        nn.Dense(CLASSES, in_units=128),
    )
    return network


def resnet50(gluon: Any, channels: int) -> Any:
    """The standard network of 16 bottlenecks in four stages."""
    nn = gluon.nn

    def convolution(inputs: int, filters: int, kernel: int, stride: int = 1) -> list[Any]:
        return [
            nn.Conv2D(filters, kernel, stride, kernel // 2, use_bias=False, in_channels=inputs),
            nn.BatchNorm(in_channels=filters),
        ]

    class Bottleneck(gluon.HybridBlock):  # type: ignore[misc]
        """Three convolutions beside a shortcut; the first one has the stride."""

        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            self.convolutions = nn.HybridSequential()
            self.convolutions.add(*convolution(inputs, width, 1, stride), nn.Activation("relu"))
            self.convolutions.add(*convolution(width, width, 3), nn.Activation("relu"))
            self.convolutions.add(*convolution(width, 4 * width, 1))
            self.shortcut = nn.HybridSequential()
            if stride != 1 or inputs != 4 * width:
                self.shortcut.add(*convolution(inputs, 4 * width, 1, stride))

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.relu(self.convolutions(x) + self.shortcut(x))

    network = nn.HybridSequential(prefix="resnet50_")
    network.add(*convolution(channels, 64, 7, 2), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            network.add(Bottleneck(channels, 64 * 2**stage, stride))
            channels = 256 * 2**stage
    network.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(CLASSES, in_units=channels))
    return network


def build(mx: Any, options: argparse.Namespace, images: Any) -> Any:
    """The network for these images, with weights that the seed decides."""
    channels, size = images.shape[1:3]
    if options.network == "lenet":
        network = lenet(mx.gluon.nn, options, size, channels)
    elif options.network == "mnist-cnn":
        network = mnist_cnn(mx.gluon.nn, size, channels)
    else:
        network = resnet50(mx.gluon, channels)
    mx.random.seed(options.seed)
    network.initialize(mx.init.Xavier())
    network.hybridize()
    return network


def weights(network: Any) -> list[Any]:
    """What is trained, in a fixed order; running means are not."""
    return [one for one in network.collect_params().values() if one.grad_req != "null"]


def digest(network: Any) -> str:
    """16 hexadecimal digits that equal weights have in common."""
    found = hashlib.sha256()
    for one in weights(network):
        found.update(one.data().asnumpy().tobytes())
    return found.hexdigest()[:16]


# Training.


def train(mx: Any, options: argparse.Namespace) -> None:
    """Train as the only worker, or as one of those that the environment tells of."""
    store = mx.kv.create("dist_sync") if options.workers > 1 else None
    rank = store.rank if store else 0
    images, labels = share(options, rank)
    network = build(mx, options, images)
    if rank == 0:
        count = sum(one.data().size for one in weights(network))
        listed = " ".join(map(str, sizes(options, images.shape[2])))
        say(f"network {options.network}: {count} parameters, sizes {listed}")
    settings = {"learning_rate": options.learning_rate}
    trainer = mx.gluon.Trainer(network.collect_params(), options.optimiser, settings, store)
    mx.random.seed(options.seed + rank)  # so that every worker drops out other values
    for epoch in range(options.epochs):
        started = time.perf_counter()
        order = np.random.default_rng([options.seed, epoch, rank]).permutation(len(images))
        steps = batches(images, labels, order, options.batch)
        loss = train_epoch(mx, network, trainer, steps, options.workers)
        if rank == 0:
            seconds = time.perf_counter() - started
            say(f"epoch {epoch + 1} of {options.epochs}: loss {loss:.4f}, {seconds:.3f} s")
    say(f"rank {rank}: weights {digest(network)}")


def train_epoch(
    mx: Any, network: Any, trainer: Any, steps: Iterator[tuple[Any, Any]], workers: int
) -> float:
    """Go once through the batches; their mean loss."""
    cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for images, labels in steps:
        with mx.autograd.record():
            loss = cross_entropy(network(mx.nd.array(images)), mx.nd.array(labels)).mean()
        loss.backward()
        trainer.step(workers)  # the store adds up what each worker has as a mean
        losses.append(loss.asscalar())
    mx.nd.waitall()
    return float(np.mean(losses))


def say(line: str) -> None:
    """Print a line at once and in one piece, so that those of several workers do not mix."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


# Workers.


def start_workers(options: argparse.Namespace) -> int:
    """Train with as many workers on this machine; if one fails, all end. The exit code.

    They are forked: MXNet takes longer to import than a small network to train, and what this
    process has imported is theirs at once.
    """
    mx = imported()
    os.environ["DMLC_PS_ROOT_URI"] = os.environ["DMLC_NODE_HOST"] = "127.0.0.1"
    os.environ["DMLC_PS_ROOT_PORT"] = str(options.port or free_port())
    os.environ["DMLC_NUM_SERVER"] = "1"
    os.environ["DMLC_NUM_WORKER"] = str(options.workers)
    parent, started = os.getpid(), set()
    for role in ["scheduler", "server"] + ["worker"] * options.workers:
        pid = os.fork()
        if pid == 0:
            end_with(parent)
            os.environ["DMLC_ROLE"] = role
            return play(mx, role, options)
        started.add(pid)
    return wait_for(started)


def end_with(parent: int) -> None:
    """Let the kernel end this process as soon as the one that started it is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def play(mx: Any, role: str, options: argparse.Namespace) -> int:
    """Be a worker, or serve them until they are done. The exit code."""
    if role == "worker":
        train(mx, options)
    else:
        mx.kvstore.kvstore_server.KVStoreServer(mx.kv.create("dist_sync")).run()
    return 0


def wait_for(started: set[int]) -> int:
    """Wait until all have ended well, or one has not: then the others end. The exit code."""
    while started:
        pid, status = os.wait()
        started.discard(pid)
        if status:
            for other in started:
                os.kill(other, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(status)
            return code if code > 0 else 128 - code
    return 0


def free_port() -> int:
    """A port that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def imported() -> Any:
    """MXNet, told to keep one thread wherever it would keep several."""
    os.environ.update(ONE_THREAD)
    import mxnet

    return mxnet


# Options.


def parse() -> argparse.ArgumentParser:
    """The options; those of a network's shape are the LeNet's unless they say otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    networks = ("lenet", "mnist-cnn", "resnet50")
    datasets = ("mnist", "fashion-mnist", "cifar10", "digits", "synthetic")
    add = parser.add_argument
    add("--network", choices=networks, default="lenet")
    add("--kernel", type=count, default=5, help="side of the convolutions, in pixels")
    add("--pool", type=count, default=2, help="side and stride of the pooling, in pixels")
    add("--filters", type=count, default=8, help="of the first convolution; the second has twice")
    add("--activation", choices=("relu", "tanh", "sigmoid"), default="relu")
    add("--optimiser", choices=("sgd", "adam"), default="sgd", help="of any network")
    add("--learning-rate", type=rate, default=0.01, help="of any network")
    add("--padding", choices=("valid", "same"), default="valid")
    add("--stride", type=count, default=1, help="of the convolutions")
    add("--dropout", type=part, default=0.5, help="share of the values that are dropped")
    add("--dataset", choices=datasets, default="synthetic")
    add("--data", default="data", help="folder with NAME-images.npy and NAME-labels.npy")
    add("--image-size", type=count, help="of synthetic images (default: 28; resnet50: 64)")
    add("--chunks", type=count, default=4, help="how much of the data to train on")
    add("--chunk-size", type=count, default=500, help="images a chunk")
    add("--batch", type=count, default=64, help="samples a step and worker")
    add("--epochs", type=count, default=1)
    add("--workers", type=count, default=1, help="processes on this machine")
    add("--seed", type=natural, default=0)
    add("--port", type=natural, default=0, help="where workers meet (default: a free one)")
    return parser


def natural(text: str) -> int:
    """A whole number from 0."""
    if (value := int(text)) < 0:
        raise ValueError
    return value


def count(text: str) -> int:
    """A whole number from 1."""
    if (value := int(text)) < 1:
        raise ValueError
    return value


def rate(text: str) -> float:
    """A number above 0."""
    if not 0 < (value := float(text)) < float("inf"):
        raise ValueError
    return value


def part(text: str) -> float:
    """A number from 0 and below 1."""
    if not 0 <= (value := float(text)) < 1:
        raise ValueError
    return value


def main() -> int:
    """Train as the options say; the exit code."""
    parser = parse()
    options = parser.parse_args()
    try:
        check(options)
    except RefusedError as reason:
        parser.exit(2, f"{parser.prog}: error: {reason}\n")
    if options.workers > 1:
        return start_workers(options)
    train(imported(), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
