"""Train an MLP-mixer to tell patterns apart, in JAX."""

import argparse
import os
import time
from functools import partial

PATCHES, CHANNELS, CLASSES = 16, 32, 8


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=1024, help="patterns an epoch")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--together", type=int, default=1, help="steps in one call")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--activations", choices=("keep", "again"), default="keep")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


given = arguments()
# JAX makes as many threads as it may use processors, and has no other switch for that.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.threads])

import jax  # noqa: E402 - after its processors are chosen
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

Weights = list[dict[str, jax.Array]]
State = tuple[Weights, Weights]  # with the speed of each
Batch = tuple[jax.Array, jax.Array]


def initial(width: int, blocks: int, seed: int) -> Weights:
    drawn = np.random.default_rng(seed)
    shapes = {"in": (PATCHES, 2 * PATCHES), "out": (2 * PATCHES, PATCHES)}
    shapes |= {"wide": (width, 4 * width), "narrow": (4 * width, width)}
    every = [{"embed": (CHANNELS, width), "head": (width, CLASSES)}, *[shapes] * blocks]
    return [
        {n: jnp.array(drawn.normal(0, s[0] ** -0.5, s), "float32") for n, s in one.items()}
        for one in every
    ]


def block(x: jax.Array, w: dict[str, jax.Array]) -> jax.Array:
    y = jax.nn.standardize(x).swapaxes(1, 2)
    x = x + (jax.nn.gelu(y @ w["in"]) @ w["out"]).swapaxes(1, 2)
    return x + jax.nn.gelu(jax.nn.standardize(x) @ w["wide"]) @ w["narrow"]


def loss(weights: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
    ends, *blocks = jax.tree.map(lambda w: w.astype(given.precision), weights)
    step = jax.checkpoint(block) if given.activations == "again" else block
    x = x.astype(given.precision) @ ends["embed"]
    for one in blocks:
        x = step(x, one)
    scores = jax.nn.log_softmax((x.mean(1) @ ends["head"]).astype("float32"))
    return -jnp.take_along_axis(scores, y[:, None], 1).mean()


def update(state: State, batch: Batch) -> tuple[State, jax.Array]:
    """One step of gradient descent with momentum."""
    weights, speed = state
    value, slope = jax.value_and_grad(loss)(weights, *batch)
    speed = jax.tree.map(lambda v, g: 0.9 * v + g, speed, slope)
    return (jax.tree.map(lambda w, v: w - 0.01 * v, weights, speed), speed), value


@partial(jax.jit, donate_argnums=0)
def steps(state: State, batches: Batch) -> tuple[State, jax.Array]:
    state, values = jax.lax.scan(update, state, batches)
    return state, values.mean()


def main() -> None:
    drawn = np.random.default_rng(given.seed)
    y = drawn.integers(CLASSES, size=given.samples).astype("int32")
    centres = drawn.normal(size=(CLASSES, PATCHES, CHANNELS))
    x = (centres[y] + 2 * drawn.normal(size=(given.samples, PATCHES, CHANNELS))).astype("float32")
    weights = initial(given.width, given.blocks, given.seed)
    state = (weights, jax.tree.map(jnp.zeros_like, weights))
    per_call = given.together * given.batch
    for epoch in range(1, given.epochs + 1):
        begun, values, order = time.perf_counter(), [], drawn.permutation(given.samples)
        for first in range(0, given.samples - per_call + 1, per_call):
            rows = order[first : first + per_call].reshape(given.together, given.batch)
            state, value = steps(state, (x[rows], y[rows]))
            values.append(float(value))
        taken = time.perf_counter() - begun
        print(f"epoch {epoch}: loss {np.mean(values):.4f}, {taken:.3f} s", flush=True)


if __name__ == "__main__":
    main()
