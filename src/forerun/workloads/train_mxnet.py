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
from pathlib import Path
from typing import Any, NoReturn

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
    found: list[int] = []
    for which in ("first", "second"):
        left = windows(options, size)[2]
        for what, side, given, after in (
            ("kernel", size, f"{which} convolution", left),
            ("pool", left, f"{which} pooling", left // options.pool),
        ):
            if after < 1:
                raise RefusedError(
                    f"{what} {getattr(options, what)} on size {side} leaves nothing: "
                    f"the {given}'s size would be below 1"
                )
            found.append(after)
        size = found[-1]
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
    """RefusedError, before MXNet is imported, for what no worker could train."""
    check_numbers(options)
    sizes(options, load(options, limit=1)[0].shape[1])
    count = options.chunks * options.chunk_size
    if count < options.workers:
        raise RefusedError(f"{count} samples are fewer than {options.workers} workers")


# Data: images and labels, as NumPy arrays of which every worker takes its share.


def load(options: argparse.Namespace, limit: int | None = None) -> tuple[Any, Any]:
    """As many images (number, height, width, channels) and labels as the chunks hold."""
    count = options.chunks * options.chunk_size
    if options.dataset == "synthetic":
        random = np.random.default_rng(options.seed)
        side, channels = (64, 3) if options.network == "resnet50" else (28, 1)
        side, count = options.image_size or side, min(count, limit or count)
        images = random.integers(0, 256, (count, side, side, channels), np.uint8)
        return images, random.integers(0, CLASSES, count, np.uint8)
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


def share(options: argparse.Namespace, rank: int) -> tuple[Any, Any]:
    """What this worker trains on: images, channels first as MXNet has them, and labels."""
    images, labels = load(options)
    each = len(images) // options.workers
    own = slice(rank * each, (rank + 1) * each)
    return np.array(np.moveaxis(images[own], -1, 1), order="C"), labels[own].astype(np.float32)


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
    shape = (filters, options.kernel, options.stride, before if before == after else 0)
    network.add(nn.Conv2D(*shape, activation=options.activation, in_channels=channels))


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

    class Bottleneck(gluon.HybridBlock):
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
        loss = train_epoch(mx, options, network, trainer, images[order], labels[order])
        if rank == 0:
            told = f"loss {loss:.4f}, {time.perf_counter() - started:.3f} s"
            say(f"epoch {epoch + 1} of {options.epochs}: {told}")
    say(f"rank {rank}: weights {digest(network)}")


def say(line: str) -> None:
    """Print a line in one piece, or those of several workers would mix."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def train_epoch(
    mx: Any, options: argparse.Namespace, network: Any, trainer: Any, images: Any, labels: Any
) -> float:
    """Go once through the data, in order; the mean loss of the batches."""
    cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for start in range(0, len(images), options.batch):
        step = slice(start, start + options.batch)
        batch = mx.nd.array(images[step].astype(np.float32) / 255)
        with mx.autograd.record():
            loss = cross_entropy(network(batch), mx.nd.array(labels[step])).mean()
        loss.backward()
        trainer.step(options.workers)  # the store adds up what each worker has as a mean
        losses.append(loss.asscalar())
    mx.nd.waitall()
    return float(np.mean(losses))


# Workers.


def start_workers(mx: Any, options: argparse.Namespace) -> int:
    """Train with as many workers on this machine; if one fails, all end. The exit code.

    They are forked: MXNet takes longer to import than a small network to train, and what this
    process has imported is theirs at once.
    """
    os.environ["DMLC_PS_ROOT_URI"] = os.environ["DMLC_NODE_HOST"] = "127.0.0.1"
    try:
        with socket.create_server(("127.0.0.1", options.port)) as free:
            os.environ["DMLC_PS_ROOT_PORT"] = str(free.getsockname()[1])
    except (OSError, OverflowError) as error:
        raise RefusedError(f"--port: {options.port} cannot be had: {error}") from None
    os.environ["DMLC_NUM_SERVER"] = "1"
    os.environ["DMLC_NUM_WORKER"] = str(options.workers)
    parent, started = os.getpid(), set()
    for role in ["scheduler", "server"] + ["worker"] * options.workers:
        pid = os.fork()
        if pid == 0:
            end_with(parent)
            os.environ["DMLC_ROLE"] = role
            if role == "worker":
                train(mx, options)
            else:
                mx.kvstore.kvstore_server.KVStoreServer(mx.kv.create("dist_sync")).run()
            return 0
        started.add(pid)
    return wait_for(started)


def end_with(parent: int) -> None:
    """Let the kernel end this process as soon as the one that started it is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


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


# Options.


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        """End with the exit code 2."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def check_numbers(options: argparse.Namespace) -> None:
    """RefusedError for a number that makes no sense."""
    for name, value in vars(options).items():
        low = 0 if name in ("seed", "port", "learning_rate", "dropout") else 1
        if isinstance(value, int | float) and not low <= value < float("inf"):
            raise RefusedError(f"--{name.replace('_', '-')}: {value} is not a number from {low}")
    if options.learning_rate == 0:
        raise RefusedError("--learning-rate: 0 teaches nothing")
    if options.dropout >= 1:
        raise RefusedError(f"--dropout: {options.dropout} is not below 1")


def options_parser() -> Parser:
    """The options; those that shape a network are the LeNet's unless they say otherwise."""
    parser = Parser(description=__doc__)
    add = parser.add_argument
    networks = ("lenet", "mnist-cnn", "resnet50")
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
    add("--chunk-size", type=int, default=500, help="images a chunk")
    add("--batch", type=int, default=64, help="samples a step and worker")
    add("--epochs", type=int, default=1)
    add("--workers", type=int, default=1, help="processes on this machine")
    add("--seed", type=int, default=0)
    add("--port", type=int, default=0, help="where workers meet (default: a free one)")
    return parser


def main() -> int:
    """Train, or say in one line why not; the exit code."""
    parser = options_parser()
    options = parser.parse_args()
    try:
        check(options)
        os.environ.update(ONE_THREAD)
        import mxnet

        if options.workers > 1:
            return start_workers(mxnet, options)
    except RefusedError as reason:
        parser.error(str(reason))
    train(mxnet, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
