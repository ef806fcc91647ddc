"""Train an image classifier with JAX, on one thread a worker.

Several workers are processes of jax.distributed that train in step: this script starts them on
this machine, or is one of them where JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID
say so.
"""

import argparse
import ctypes
import hashlib
import math
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
    add("--port", type=int, default=0, help="where workers meet (0: a free one)")
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
    if options.port > 65535:
        refuse(f"--port {options.port}: a number up to 65535 is expected")


# Data


def load_data(options: argparse.Namespace) -> tuple[Any, Any]:
    """Images (uint8, NHWC) and labels of all workers."""
    count = options.chunks * options.chunk_size
    if options.dataset == "synthetic":
        random = np.random.default_rng(options.seed)
        side, channels = image_side(options), 3 if options.network == "resnet50" else 1
        images = random.integers(0, 256, (count, side, side, channels), np.uint8)
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


def lenet(nn: Any, options: argparse.Namespace) -> list[Any]:
    """Two convolutions with pools, then three dense layers."""
    activation = getattr(nn, options.activation)
    kernel, stride, pool = ((n, n) for n in (options.kernel, options.stride, options.pool))
    parts = []
    for filters in (options.filters, 2 * options.filters):
        parts += [
            nn.Conv(filters, kernel, stride, options.padding.upper()), activation,
            lambda values: nn.max_pool(values, pool, pool),
        ]  # fmt: skip
    return [
        *parts, flatten,
        nn.Dense(120), activation, nn.Dropout(options.dropout, deterministic=False),
        nn.Dense(84), activation,
        nn.Dense(CLASSES),
    ]  # fmt: skip


def mnist_cnn(nn: Any, _: argparse.Namespace) -> list[Any]:
    """Two convolutions and a pool, then two dense layers."""
    return [
        nn.Conv(32, (3, 3), padding="VALID"), nn.relu,
        nn.Conv(64, (3, 3), padding="VALID"), nn.relu,
        lambda values: nn.max_pool(values, (2, 2), (2, 2)),
        nn.Dropout(0.25, deterministic=False), flatten,
        nn.Dense(128), nn.relu, nn.Dropout(0.5, deterministic=False),
        nn.Dense(CLASSES),
    ]  # fmt: skip


def flatten(values: Any) -> Any:
    """One row an image."""
    return values.reshape(len(values), -1)


def resnet50(nn: Any, _: argparse.Namespace) -> list[Any]:
    """A convolution, 16 bottlenecks in four stages and a dense layer."""

    def convolution(filters: int, kernel: int, stride: int = 1) -> Any:
        conv = nn.Conv(filters, (kernel, kernel), (stride, stride), use_bias=False)
        return nn.Sequential([conv, nn.BatchNorm(use_running_average=False, momentum=0.9)])

    class Bottleneck(nn.Module):
        """Three convolutions beside a short cut; the first one has the stride."""

        width: int
        stride: int

        @nn.compact
        def __call__(self, values: Any) -> Any:
            found = nn.relu(convolution(self.width, 1, self.stride)(values))
            found = nn.relu(convolution(self.width, 3)(found))
            found = convolution(4 * self.width, 1)(found)
            if values.shape != found.shape:
                values = convolution(4 * self.width, 1, self.stride)(values)
            return nn.relu(found + values)

    return [
        convolution(64, 7, 2), nn.relu,
        lambda values: nn.max_pool(values, (3, 3), (2, 2), "SAME"),
        *(
            Bottleneck(64 * 2**stage, 2 if stage and not block else 1)
            for stage, blocks in enumerate((3, 4, 6, 3))
            for block in range(blocks)
        ),
        lambda values: values.mean((1, 2)),
        nn.Dense(CLASSES),
    ]  # fmt: skip


NETWORKS = {"lenet": lenet, "mnist-cnn": mnist_cnn, "resnet50": resnet50}


# Training


def import_jax(rank: int, workers: int) -> Any:
    """JAX with one thread, and the other workers found."""
    os.environ["NPROC"] = "1"  # what its pools of threads go by
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    if workers > 1:
        hide_others_output()
        address = os.environ["JAX_COORDINATOR_ADDRESS"]
        jax.distributed.initialize(address, workers, rank, cluster_detection_method="deactivate")
    return jax


def draw_weights(jax: Any, network: Any, shape: tuple[int, ...], seed: int) -> dict[str, Any]:
    """The weights and statistics that a network for images of this shape begins with.

    NumPy draws them, by the rule of the network's own `init`, which would take long to compile.
    """
    random = np.random.default_rng([seed, 0])
    key = jax.random.key(0)
    image = jax.ShapeDtypeStruct((1, *shape), np.float32)
    shapes = jax.eval_shape(network.init, {"params": key, "dropout": key}, image)

    def drawn(path: Any, leaf: Any) -> Any:
        if path[-1].key == "kernel":  # a variance of one over the number of inputs
            deviation = math.prod(leaf.shape[:-1]) ** -0.5
            return random.standard_normal(leaf.shape, "float32") * deviation
        return np.full(leaf.shape, path[-1].key in ("scale", "var"), "float32")

    return {"batch_stats": {}, **jax.tree_util.tree_map_with_path(drawn, shapes)}


def make_step(jax: Any, network: Any, optimiser: Any, mesh: Any, seed: int) -> Any:
    """One step of training: a compiled function of what has been learnt and a batch.

    It gives what has been learnt then, and this worker's loss.
    """
    everywhere, own = jax.P(), jax.P("workers")

    def loss_of(weights: Any, statistics: Any, images: Any, labels: Any, key: Any) -> Any:
        scores, changed = network.apply(
            {"params": weights, "batch_stats": statistics},
            images.astype("float32") / 255,
            rngs={"dropout": key},
            mutable=["batch_stats"],
        )
        chosen = jax.numpy.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], axis=1)
        return -chosen.mean(), changed.get("batch_stats", {})

    def step(learnt: Any, images: Any, labels: Any) -> Any:
        weights, statistics, moments, number = learnt
        key = jax.random.fold_in(jax.random.key(seed), number)
        key = jax.random.fold_in(key, jax.lax.axis_index("workers"))
        (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(
            weights, statistics, images, labels.astype("int32"), key
        )
        gradients = jax.lax.pmean(gradients, "workers")
        updates, moments = optimiser.update(gradients, moments, weights)
        weights = jax.tree.map(jax.numpy.add, weights, updates)
        return (weights, statistics, moments, number + 1), loss

    # Loss and statistics differ from worker to worker, and are only read where they are.
    shared = jax.shard_map(
        step, mesh=mesh, in_specs=(everywhere, own, own), out_specs=everywhere, check_vma=False
    )
    return jax.jit(shared, donate_argnums=0)


def train(options: argparse.Namespace, rank: int, workers: int) -> None:
    """Train on this worker's share of the images."""
    jax = import_jax(rank, workers)
    import optax
    from flax import linen

    images, labels = load_data(options)
    share = len(images) // workers
    mine = slice(rank * share, (rank + 1) * share)
    images, labels = np.array(images[mine]), np.array(labels[mine])
    mesh = jax.sharding.Mesh(jax.devices(), ("workers",))
    everywhere, own = (jax.NamedSharding(mesh, jax.P(*axes)) for axes in ((), ("workers",)))
    place = jax.make_array_from_process_local_data
    network = linen.Sequential(NETWORKS[options.network](linen, options))
    optimiser = {"adam": optax.adam, "sgd": optax.sgd}[options.optimiser](options.learning_rate)
    drawn = draw_weights(jax, network, images.shape[1:], options.seed)
    begun = (drawn["params"], drawn["batch_stats"], optimiser.init(drawn["params"]), np.int32(0))
    learnt = place(everywhere, jax.tree.map(np.asarray, begun))
    if rank == 0:
        count = sum(weights.size for weights in jax.tree.leaves(drawn["params"]))
        sizes = " ".join(map(str, layer_sizes(options, images.shape[1])))
        say(f"network {options.network}: {count} parameters, sizes {sizes}")
    step = make_step(jax, network, optimiser, mesh, options.seed)
    for epoch in range(options.epochs):
        begin = time.perf_counter()
        order = np.random.default_rng([options.seed, epoch, rank]).permutation(share)
        losses = []
        for batch in np.split(order, range(options.batch, share, options.batch)):
            learnt, loss = step(learnt, *place(own, (images[batch], labels[batch])))
            losses.append(loss)
        mean = np.mean([float(loss) for loss in losses])
        if rank == 0:
            seconds = time.perf_counter() - begin
            say(f"epoch {epoch + 1} of {options.epochs}: loss {mean:.4f}, {seconds:.3f} s")
    say(f"rank {rank}: weights {digest(jax.tree.leaves(learnt[0]))}")
    jax.distributed.shutdown()


def digest(weights: list[Any]) -> str:
    """Tells networks with different weights apart: 16 hexadecimal digits."""
    values = b"".join(np.asarray(array).tobytes() for array in weights)
    return hashlib.sha256(values).hexdigest()[:16]


def hide_others_output() -> None:
    """Keep standard output for this script's own lines: gloo tells there whom it has met."""
    kept = os.dup(sys.stdout.fileno())
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    sys.stdout = os.fdopen(kept, "w")


def say(line: str) -> None:
    """Print a line in one piece, for other workers print too."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# Several workers


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def end_with_parent() -> None:
    """Let the kernel end this process when the one that started it has gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run_workers(options: argparse.Namespace) -> int:
    """Start the workers and wait for them; the first that fails ends all. Returns the exit code."""
    address = f"127.0.0.1:{options.port or free_port()}"
    meeting = {"JAX_COORDINATOR_ADDRESS": address, "JAX_COORDINATOR_BIND_ADDRESS": address}
    environment = os.environ | meeting | {"JAX_NUM_PROCESSES": str(options.workers)}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    started = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env=environment | {"JAX_PROCESS_ID": str(rank)},
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
        )
        for rank in range(options.workers)
    ]
    try:
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
    started = "JAX_PROCESS_ID" in os.environ
    rank = int(os.environ.get("JAX_PROCESS_ID", "0"))
    workers = int(os.environ.get("JAX_NUM_PROCESSES", options.workers))
    if options.chunks * options.chunk_size < workers:
        refuse(f"{options.chunks * options.chunk_size} images are too few for {workers} workers")
    layer_sizes(options, image_side(options))
    if workers > 1 and not started:
        return run_workers(options)
    train(options, rank, workers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
