"""Train an image classifier with TensorFlow, on one thread a worker.

Several workers train in step under MultiWorkerMirroredStrategy: this script starts them on this
machine, or is one of them where TF_CONFIG says so.
"""

import argparse
import ctypes
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

CLASSES = 10
PR_SET_PDEATHSIG = 1  # of prctl(2): the signal a process gets when its parent has gone


def refuse(message: str) -> NoReturn:
    """End with exit code 2 and one line that says what cannot be done."""
    print(f"{Path(sys.argv[0]).name}: error: {message}", file=sys.stderr)
    raise SystemExit(2)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        refuse(message)


def whole(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def above_zero(text: str) -> float:
    """A number above 0."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def share_below_one(text: str) -> float:
    """A number of [0, 1)."""
    number = float(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"{text} is outside [0, 1)")
    return number


def parse_options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = Parser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--network", choices=["lenet", "mnist-cnn", "resnet50"], default="lenet")
    add("--kernel", type=whole, default=5, help="side of lenet's kernels")
    add("--pool", type=whole, default=2, help="side of lenet's pools")
    add("--filters", type=whole, default=8, help="of lenet's first convolution")
    add("--activation", choices=["relu", "tanh", "sigmoid"], default="relu")
    add("--optimiser", choices=["sgd", "adam"], default="sgd")
    add("--learning-rate", type=above_zero, default=0.01)
    add("--padding", choices=["valid", "same"], default="valid")
    add("--stride", type=whole, default=1, help="of lenet's convolutions")
    add("--dropout", type=share_below_one, default=0.5)
    sets = ["mnist", "fashion-mnist", "cifar10", "digits", "synthetic"]
    add("--dataset", choices=sets, default="synthetic")
    add("--data", type=Path, default=Path("data"), help="folder of the data sets' .npy files")
    add("--image-size", type=whole, help="of synthetic images (28; resnet50: 64)")
    add("--chunks", type=whole, default=4, help="how much of the data to train on")
    add("--chunk-size", type=whole, default=500, help="images a chunk")
    add("--batch", type=whole, default=64, help="images a step and worker")
    add("--epochs", type=whole, default=1)
    add("--workers", type=whole, default=1)
    add("--seed", type=int, default=0)
    add("--port", type=int, default=0, help="of the first worker, the others follow (0: free ones)")
    options = parser.parse_args()
    if options.image_size is None:
        options.image_size = 64 if options.network == "resnet50" else 28
    return options


def load_data(options: argparse.Namespace) -> tuple[Any, Any]:
    """Images (uint8, NHWC) and labels of all workers."""
    count = options.chunks * options.chunk_size
    if options.dataset == "synthetic":
        random = np.random.default_rng(options.seed)
        channels = 3 if options.network == "resnet50" else 1
        shape = (count, options.image_size, options.image_size, channels)
        images = random.integers(0, 256, shape, np.uint8)
        return images, random.integers(0, CLASSES, count, np.uint8)
    files = [options.data / f"{options.dataset}-{part}.npy" for part in ("images", "labels")]
    for file in files:
        if not file.is_file():
            refuse(f"no file {file}")
    images, labels = (np.load(file, mmap_mode="r") for file in files)
    if count > len(images):
        refuse(f"{options.dataset} holds {len(images)} images, {count} asked for")
    return images[:count], labels[:count]


def image_side(options: argparse.Namespace) -> int:
    """Side of an image, in pixels; synthetic images are not made for that."""
    if options.dataset == "synthetic":
        return int(options.image_size)
    return int(load_data(options)[0].shape[1])


def layer_sizes(options: argparse.Namespace, side: int) -> list[int]:
    """Side of what each part of the network makes of an image; none may be below 1."""
    if options.network == "resnet50":
        halves = [-(-side // 2**times) for times in range(1, 6)]
        return [*halves[:2], *halves[1:]]
    if options.network == "mnist-cnn":
        first = convolved("first", side, kernel=3)
        second = convolved("second", first, kernel=3)
        return [first, second, pooled("only", second, pool=2)]
    sizes = []
    for name in ("first", "second"):
        same = options.padding == "same"
        sizes.append(convolved(name, side, options.kernel, options.stride, same))
        side = pooled(name, sizes[-1], options.pool)
        sizes.append(side)
    return sizes


def convolved(name: str, side: int, kernel: int, stride: int = 1, same: bool = False) -> int:
    """Side of an image after a convolution."""
    after = -(-side // stride) if same else (side - kernel) // stride + 1
    if after < 1:
        what = f"the {name} convolution's size would be below 1"
        refuse(f"kernel {kernel} on size {side} leaves nothing: {what}")
    return after


def pooled(name: str, side: int, pool: int) -> int:
    """Side of an image after a pool."""
    if pool > side:
        what = f"the {name} pool's size would be below 1"
        refuse(f"pool {pool} on size {side} leaves nothing: {what}")
    return side // pool


def lenet(keras: Any, options: argparse.Namespace) -> list[Any]:
    """Two convolutions with pools, then three dense layers."""
    layers = keras.layers
    parts = []
    for filters in (options.filters, 2 * options.filters):
        parts += [
            layers.Conv2D(
                filters,
                options.kernel,
                options.stride,
                options.padding,
                activation=options.activation,
            ),
            layers.MaxPooling2D(options.pool),
        ]
    return [
        *parts,
        layers.Flatten(),
        layers.Dense(120, options.activation),
        layers.Dropout(options.dropout),
        layers.Dense(84, options.activation),
        layers.Dense(CLASSES),
    ]


def mnist_cnn(keras: Any) -> list[Any]:
    """Two convolutions and a pool, then two dense layers."""
    layers = keras.layers
    return [
        layers.Conv2D(32, 3, activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(128, "relu"),
        layers.Dropout(0.5),
        layers.Dense(CLASSES),
    ]


def build_network(keras: Any, options: argparse.Namespace, shape: tuple[int, ...]) -> Any:
    """The network for images of this shape, its weights drawn."""
    image = keras.Input(shape)
    parts = mnist_cnn(keras) if options.network == "mnist-cnn" else lenet(keras, options)
    return keras.Sequential([image, *parts])


def build_optimiser(keras: Any, options: argparse.Namespace) -> Any:
    """The optimiser, with all but the learning rate at its defaults."""
    kind = keras.optimizers.Adam if options.optimiser == "adam" else keras.optimizers.SGD
    return kind(options.learning_rate)


def make_step(tf: Any, strategy: Any, network: Any, optimiser: Any) -> Any:
    """One step of training: the loss of a batch, once the weights have learnt from it."""

    def replica_step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            scores = network(tf.cast(images, tf.float32) / 255, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                tf.cast(labels, tf.int32), scores
            )
            loss = tf.reduce_mean(losses)
            part = loss / strategy.num_replicas_in_sync  # the optimiser adds the workers' gradients
        weights = network.trainable_variables
        optimiser.apply_gradients(zip(tape.gradient(part, weights), weights, strict=True))
        return loss

    # The number of images is left open, or a smaller last batch would be traced anew.
    signature = [
        tf.TensorSpec((None, *network.input_shape[1:]), tf.uint8),
        tf.TensorSpec((None,), tf.uint8),
    ]

    def step(images: Any, labels: Any) -> Any:
        return strategy.run(replica_step, (images, labels))

    return tf.function(step, input_signature=signature)


def import_tensorflow() -> Any:
    """TensorFlow with one thread for operations and one within them."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf  # type: ignore[import-untyped]

    tf.get_logger().setLevel("ERROR")
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    return tf


def train(options: argparse.Namespace, rank: int, workers: int) -> None:
    """Train on this worker's share of the images."""
    tf = import_tensorflow()
    strategy = tf.distribute.get_strategy()
    if "TF_CONFIG" in os.environ:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    tf.keras.utils.set_random_seed(
        options.seed + rank
    )  # workers begin with the first one's weights
    images, labels = load_data(options)
    share = len(images) // workers
    images, labels = (array[rank * share : (rank + 1) * share] for array in (images, labels))
    with strategy.scope():
        network = build_network(tf.keras, options, images.shape[1:])
        optimiser = build_optimiser(tf.keras, options)
        optimiser.build(network.trainable_variables)
    if rank == 0:
        count = sum(int(np.prod(weights.shape)) for weights in network.trainable_variables)
        sizes = " ".join(map(str, layer_sizes(options, images.shape[1])))
        say(f"network {options.network}: {count} parameters, sizes {sizes}")
    step = make_step(tf, strategy, network, optimiser)
    for epoch in range(options.epochs):
        begin = time.perf_counter()
        order = np.random.default_rng([options.seed, epoch, rank]).permutation(share)
        batches = [order[at : at + options.batch] for at in range(0, share, options.batch)]
        losses = [step(images[batch], labels[batch]) for batch in batches]
        loss = float(tf.reduce_mean(losses))
        if rank == 0:
            seconds = time.perf_counter() - begin
            say(f"epoch {epoch + 1} of {options.epochs}: loss {loss:.4f}, {seconds:.3f} s")
    say(f"rank {rank}: weights {digest(network)}")


def digest(network: Any) -> str:
    """Tells networks with different weights apart: 16 hexadecimal digits."""
    values = [weights.numpy() for weights in network.trainable_variables]
    return hashlib.sha256(b"".join(value.tobytes() for value in values)).hexdigest()[:16]


def say(line: str) -> None:
    """Print a line in one piece, for other workers print too."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def end_with_parent() -> None:
    """Let the kernel end this process when the one that started it has gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run_workers(options: argparse.Namespace) -> int:
    """Start the workers and wait for them; the first that fails ends all. Returns the exit code."""
    workers = options.workers
    ports = range(options.port, options.port + workers) if options.port else free_ports(workers)
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(workers):
            config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
            started.append(
                subprocess.Popen(
                    [sys.executable, *sys.argv],
                    env=os.environ | {"TF_CONFIG": config},
                    preexec_fn=end_with_parent if sys.platform == "linux" else None,
                )
            )
        for _ in started:
            code = os.waitstatus_to_exitcode(os.wait()[1])
            if code:
                return code if code > 0 else 128 - code
        return 0
    finally:
        for worker in started:
            worker.kill()
            worker.wait()


def main() -> int:
    """Check what is asked for, then train or start those who do."""
    options = parse_options()
    rank, workers = 0, options.workers
    if config := os.environ.get("TF_CONFIG"):
        told = json.loads(config)
        rank, workers = told["task"]["index"], len(told["cluster"]["worker"])
    if options.chunks * options.chunk_size < workers:
        refuse(f"{options.chunks * options.chunk_size} images are too few for {workers} workers")
    layer_sizes(options, image_side(options))
    if workers > 1 and config is None:
        return run_workers(options)
    train(options, rank, workers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
