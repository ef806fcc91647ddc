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


# Options


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Leave out how the script is used."""
        refuse(message)


def options_parser() -> Parser:
    """What can be asked for; the sizes, activation, padding and dropout are lenet's."""
    parser = Parser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--network", choices=("lenet", "mnist-cnn", "resnet50"), default="lenet")
    add("--kernel", type=int, default=5, help="side of the kernels, in pixels")
    add("--pool", type=int, default=2, help="side of the pools, in pixels")
    add("--filters", type=int, default=8, help="of the first convolution; the second has twice")
    add("--activation", choices=("relu", "tanh", "sigmoid"), default="relu")
    add("--optimiser", choices=("sgd", "adam"), default="sgd", help="of any network")
    add("--learning-rate", type=float, default=0.01, help="of any network")
    add("--padding", choices=("valid", "same"), default="valid")
    add("--stride", type=int, default=1, help="of the convolutions, in pixels")
    add("--dropout", type=float, default=0.5, help="share of values that are dropped")
    sets = ("mnist", "fashion-mnist", "cifar10", "digits", "synthetic")
    add("--dataset", choices=sets, default="synthetic")
    add("--data", default="data", help="folder of NAME-images.npy and NAME-labels.npy")
    add("--image-size", type=int, help="of synthetic images (28; resnet50: 64)")
    add("--chunks", type=int, default=4, help="how much of the data to train on")
    add("--chunk-size", type=int, default=500, help="images a chunk")
    add("--batch", type=int, default=64, help="images a step and worker")
    add("--epochs", type=int, default=1)
    add("--workers", type=int, default=1, help="processes on this machine")
    add("--seed", type=int, default=0)
    add("--port", type=int, default=0, help="of the first worker, the others follow (0: free ones)")
    return parser


def check(options: argparse.Namespace) -> None:
    """Refuse numbers that make no sense."""
    from_zero = ("seed", "port", "learning_rate", "dropout")
    for name, value in vars(options).items():
        least = 0 if name in from_zero else 1
        if isinstance(value, int | float) and not least <= value < float("inf"):
            refuse(f"--{name.replace('_', '-')} {value}: a number from {least} is expected")
    if options.learning_rate == 0:
        refuse("--learning-rate 0: a number above 0 is expected")
    if options.dropout >= 1:
        refuse(f"--dropout {options.dropout}: a number below 1 is expected")
    if options.port + options.workers > 65536:
        refuse(f"--port {options.port}: there is none for each of {options.workers} workers")


# Data


def load_data(options: argparse.Namespace) -> tuple[Any, Any]:
    """Images (uint8, NHWC) and labels of all workers."""
    count = options.chunks * options.chunk_size
    if options.dataset == "synthetic":
        random = np.random.default_rng(options.seed)
        side, channels = image_side(options), 3 if options.network == "resnet50" else 1
        shape = (count, side, side, channels)
        images = random.integers(0, 256, shape, np.uint8)
        return images, random.integers(0, CLASSES, count, np.uint8)
    files = [Path(options.data, f"{options.dataset}-{part}.npy") for part in ("images", "labels")]
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
        return options.image_size or (64 if options.network == "resnet50" else 28)
    return int(load_data(options)[0].shape[1])


def layer_sizes(options: argparse.Namespace, side: int) -> list[int]:
    """Side of what each part of the network makes of an image; none may be below 1."""
    if options.network == "resnet50":
        halves = [-(-side // 2**times) for times in range(1, 6)]
        return [*halves[:2], *halves[1:]]
    kernel, pool = (3, 1, False), (2, 2, False)  # their sides and strides; if zeros are put round
    windows = {"first kernel": kernel, "second kernel": kernel, "pool": pool}
    if options.network == "lenet":
        kernel = (options.kernel, options.stride, options.padding == "same")
        pool = (options.pool, options.pool, False)
        windows = {"first kernel": kernel, "first pool": pool}
        windows |= {"second kernel": kernel, "second pool": pool}
    sizes = []
    for name, (window, stride, same) in windows.items():
        before, side = side, -(-side // stride) if same else (side - window) // stride + 1
        if side < 1:
            refuse(f"the {name} of {window} over size {before}: what is left would be below 1")
        sizes.append(side)
    return sizes


# Networks


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


def resnet50(keras: Any, image: Any) -> Any:
    """A convolution, 16 bottlenecks in four stages and a dense layer."""
    layers = keras.layers

    def convolved(values: Any, filters: int, kernel: int, stride: int = 1) -> Any:
        convolution = layers.Conv2D(filters, kernel, stride, "same", use_bias=False)
        return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(convolution(values))

    def bottleneck(values: Any, width: int, stride: int) -> Any:
        found = layers.ReLU()(convolved(values, width, 1, stride))
        found = layers.ReLU()(convolved(found, width, 3))
        found = convolved(found, 4 * width, 1)
        if values.shape != found.shape:
            values = convolved(values, 4 * width, 1, stride)
        return layers.ReLU()(layers.Add()([found, values]))

    values = layers.ReLU()(convolved(image, 64, 7, 2))
    values = layers.MaxPooling2D(3, 2, "same")(values)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            values = bottleneck(values, 64 * 2**stage, 2 if stage and not block else 1)
    return layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(values))


def build_network(keras: Any, options: argparse.Namespace, shape: tuple[int, ...]) -> Any:
    """The network for images of this shape, its weights drawn."""
    image = keras.Input(shape)
    if options.network == "resnet50":
        return keras.Model(image, resnet50(keras, image))
    parts = mnist_cnn(keras) if options.network == "mnist-cnn" else lenet(keras, options)
    return keras.Sequential([image, *parts])


def build_optimiser(keras: Any, options: argparse.Namespace) -> Any:
    """The optimiser, with all but the learning rate at its defaults."""
    kind = keras.optimizers.Adam if options.optimiser == "adam" else keras.optimizers.SGD
    return kind(options.learning_rate)


# Training


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
    import tensorflow as tf

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
    mine = slice(rank * share, (rank + 1) * share)
    images, labels = np.array(images[mine]), np.array(labels[mine])
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


# Several workers


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
    options = options_parser().parse_args()
    check(options)
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
