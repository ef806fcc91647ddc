"""Training steps in TensorFlow, as a plain graph and compiled by XLA."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from steps_networks import NETWORKS, Layers, Network
from steps_rounds import Step, asked, by_turns

layers = tf.keras.layers


def layer(x: object, word: str, *numbers: Any) -> object:
    if word in ("conv", "bare"):
        filters, kernel, stride = (*numbers, 1)[:3]
        padding = "same" if word == "conv" else "valid"
        made = layers.Conv2D(filters, kernel, stride, padding, use_bias=word == "bare")
        return made(x)
    if word == "residual":
        return layers.Add()([apply(x, numbers[0]), apply(x, numbers[1])])
    if word == "maxpool":
        size, stride = numbers
        return layers.MaxPooling2D(size, stride, "same" if size > stride else "valid")(x)
    makers = {
        "norm": layers.BatchNormalization,
        "relu": layers.ReLU,
        "meanpool": layers.GlobalAveragePooling2D,
        "flatten": layers.Flatten,
        "dense": layers.Dense,
        "dropout": layers.Dropout,
    }
    return makers[word](*numbers)(x)


def apply(x: object, wanted: Layers) -> object:
    for one in wanted:
        x = layer(x, *one)
    return x


def stepper(network: Network, compiled: bool) -> Step:
    tf.random.set_seed(0)
    shape = (network.pixels, network.pixels, network.channels)
    images = tf.random.normal((network.batch, *shape))
    labels = tf.random.uniform((network.batch,), maxval=network.classes, dtype=tf.int32)
    given = tf.keras.Input(shape, network.batch)
    model = tf.keras.Model(given, apply(given, network.layers))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimiser = tf.keras.optimizers.SGD(0.01, momentum=0.9)
    optimiser.build(model.trainable_variables)

    @tf.function(jit_compile=compiled)
    def train(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            error = loss(labels, model(images, training=True))
        found = tape.gradient(error, model.trainable_variables)
        optimiser.apply_gradients(zip(found, model.trainable_variables, strict=True))
        return error

    return lambda: train(images, labels).numpy()


def main() -> None:
    given = asked()
    tf.config.threading.set_intra_op_parallelism_threads(given.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    network = NETWORKS[given.network]
    by_turns({"plain": lambda: stepper(network, False), "xla": lambda: stepper(network, True)})


if __name__ == "__main__":
    main()
