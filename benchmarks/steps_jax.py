"""Training steps in JAX, operation by operation and compiled by XLA."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from steps_networks import NETWORKS, Layers, Network
from steps_rounds import Step, asked, by_turns

SHAPE = ("NHWC", "HWIO", "NHWC")


def init(key: jax.Array, x: jax.ShapeDtypeStruct, layers: Layers) -> tuple[list, Any]:
    """The parameters of layers on an input of this shape, and the shape of their output."""
    found = []
    for place, (word, *numbers) in enumerate(layers):
        key = jax.random.fold_in(key, place)
        made = {}
        channels = x.shape[-1]
        if word in ("conv", "bare"):
            size = (numbers[1], numbers[1], channels, numbers[0])
            made["kernel"] = (
                jax.random.normal(key, size) * (2 / (numbers[1] ** 2 * channels)) ** 0.5
            )
            if word == "bare":
                made["bias"] = jnp.zeros(numbers[0])
        elif word == "norm":
            made = {"scale": jnp.ones(channels), "shift": jnp.zeros(channels)}
        elif word == "dense":
            made["kernel"] = jax.random.normal(key, (channels, numbers[0])) * channels**-0.5
            made["bias"] = jnp.zeros(numbers[0])
        elif word == "residual":
            made = {
                "inner": init(key, x, numbers[0])[0],
                "around": init(jax.random.fold_in(key, 1), x, numbers[1])[0],
            }
        found.append(made)
        x = jax.eval_shape(partial(_shaped, layers[place]), made, x)
    return found, x


def _shaped(one: tuple[Any, ...], own: dict, x: jax.Array) -> jax.Array:
    return layer(own, x, jax.random.key(0), *one)


def layer(own: dict, x: jax.Array, key: jax.Array, word: str, *numbers: Any) -> jax.Array:
    if word in ("conv", "bare"):
        stride = 1 if word == "bare" else numbers[2]
        half = numbers[1] // 2 if word == "conv" else 0
        padding = [(half, half)] * 2
        x = lax.conv_general_dilated(
            x, own["kernel"], (stride, stride), padding, dimension_numbers=SHAPE
        )
        return x + own["bias"] if word == "bare" else x
    if word == "norm":
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * lax.rsqrt(variance + 1e-5) * own["scale"] + own["shift"]
    if word == "residual":
        return apply(own["inner"], x, key, numbers[0]) + apply(own["around"], x, key, numbers[1])
    if word == "maxpool":
        size, stride = numbers
        around = [(0, 0), *[((size - 1) // 2, (size - 1) // 2)] * 2, (0, 0)]
        window, strides = (1, size, size, 1), (1, stride, stride, 1)
        return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, around)
    if word == "dropout":
        kept = jax.random.bernoulli(key, 1 - numbers[0], x.shape)
        return jnp.where(kept, x / (1 - numbers[0]), 0)
    if word == "dense":
        return x @ own["kernel"] + own["bias"]
    simple = {
        "relu": jax.nn.relu,
        "meanpool": lambda x: x.mean((1, 2)),
        "flatten": lambda x: x.reshape(len(x), -1),
    }
    return simple[word](x)


def apply(parameters: list, x: jax.Array, key: jax.Array, layers: Layers) -> jax.Array:
    for place, (own, one) in enumerate(zip(parameters, layers, strict=True)):
        x = layer(own, x, jax.random.fold_in(key, place), *one)
    return x


def stepper(network: Network, compiled: bool) -> Step:
    key = jax.random.key(0)
    images = jax.random.normal(
        key, (network.batch, network.pixels, network.pixels, network.channels)
    )
    labels = jax.random.randint(key, (network.batch,), 0, network.classes)
    parameters, _ = init(key, jax.eval_shape(lambda: images), network.layers)
    state: list = [parameters, jax.tree.map(jnp.zeros_like, parameters)]

    def error(parameters: list, key: jax.Array) -> jax.Array:
        scores = jax.nn.log_softmax(apply(parameters, images, key, network.layers))
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    def train(parameters: list, speeds: list, key: jax.Array) -> tuple[list, list]:
        found = jax.grad(error)(parameters, key)
        speeds = jax.tree.map(lambda v, g: 0.9 * v + g, speeds, found)
        return jax.tree.map(lambda p, v: p - 0.01 * v, parameters, speeds), speeds

    called = jax.jit(train, donate_argnums=(0, 1)) if compiled else train

    def step() -> None:
        with jax.disable_jit(not compiled):
            state[:] = called(state[0], state[1], key)
            jax.block_until_ready(state)

    return step


def main() -> None:
    network = NETWORKS[asked().network]
    by_turns({"plain": lambda: stepper(network, False), "xla": lambda: stepper(network, True)})


if __name__ == "__main__":
    main()
