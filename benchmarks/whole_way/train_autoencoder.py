"""Train a convolutional autoencoder of small pictures, in TensorFlow."""

import argparse
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

SIDE = 24


def pictures(samples: int, seed: int) -> np.ndarray:
    """Waves of random direction, length and phase."""
    drawn = np.random.default_rng(seed)
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE
    u, v, phase = drawn.uniform(-6, 6, (3, samples, 1, 1))
    waves: np.ndarray = 0.5 + 0.5 * np.sin(u * x + v * y + phase)
    return waves[..., None].astype("float32")


def network(filters: int) -> keras.Model:
    layers = keras.layers
    fold = {"kernel_size": 3, "strides": 2, "padding": "same", "activation": "relu"}
    return keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 1)),
            layers.Conv2D(filters, **fold),
            layers.Conv2D(2 * filters, **fold),
            layers.Conv2DTranspose(filters, **fold),
            layers.Conv2DTranspose(filters, **fold),
            layers.Conv2D(1, 3, padding="same", activation="sigmoid", dtype="float32"),
        ]
    )


def noisy(picture: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return picture + tf.random.normal(tf.shape(picture), stddev=0.1), picture


def dataset(data: np.ndarray, batch: int, pipeline: str) -> tf.data.Dataset:
    """Noise on each picture or on whole batches, and fetched ahead or not."""
    found = tf.data.Dataset.from_tensor_slices(data).shuffle(len(data))
    if pipeline == "sample":
        return found.map(noisy).batch(batch, drop_remainder=True)
    found = found.batch(batch, drop_remainder=True).map(noisy)
    return found.prefetch(2) if pipeline == "ahead" else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=1024, help="pictures an epoch")
    parser.add_argument("--filters", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compiler", choices=("none", "xla"), default="none")
    parser.add_argument("--together", type=int, default=1, help="steps in one call")
    parser.add_argument("--pipeline", choices=("sample", "batch", "ahead"), default="ahead")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    tf.config.threading.set_intra_op_parallelism_threads(given.threads)
    tf.config.threading.set_inter_op_parallelism_threads(given.threads)
    keras.utils.set_random_seed(given.seed)
    model = network(given.filters)
    model.compile(
        keras.optimizers.Adam(1e-3),
        "mse",
        jit_compile=given.compiler == "xla",
        steps_per_execution=given.together,
    )
    data = dataset(pictures(given.samples, given.seed), given.batch, given.pipeline)
    for epoch in range(1, given.epochs + 1):
        begun = time.perf_counter()
        loss = model.fit(data, verbose=0).history["loss"][0]
        taken = time.perf_counter() - begun
        print(f"epoch {epoch}: loss {loss:.4f}, {taken:.3f} s", flush=True)


if __name__ == "__main__":
    main()
