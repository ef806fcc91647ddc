"""Train a network in PyTorch on random images, as a script does that sets nothing by itself.

Prints what it runs with, the seconds of each epoch when it is done, and its processor time.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time

import numpy as np
import torch
from steps_networks import NETWORKS
from steps_pytorch import build
from torch import nn

BATCHES = 4  # of different images


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--network", choices=tuple(NETWORKS), default="mnist-cnn")
    parser.add_argument("--batch", type=int, help="images a step (default: the network's own)")
    parser.add_argument("--steps", type=int, default=10, help="an epoch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="by inductor")
    given = parser.parse_args()
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "libc": platform.libc_ver()[1],
    }
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    print(f"with {told}; {torch.get_num_threads()} threads", flush=True)
    # Compiled anew in every run, as in a container that has just been made.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        train(given)
    spent = os.times()
    print(f"processor time: {spent.user:.2f} s user, {spent.system:.2f} s system", flush=True)


def train(given: argparse.Namespace) -> None:
    torch.manual_seed(0)
    network = NETWORKS[given.network]
    batch = given.batch or network.batch
    shape = (BATCHES * batch, network.channels, network.pixels, network.pixels)
    images = torch.randint(256, shape, dtype=torch.uint8)
    labels = torch.randint(network.classes, (len(images),))
    model = build(network.layers)
    model(images[:2] / 255)  # gives the lazy layers their sizes
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    called = torch.compile(model) if given.compile else model
    for epoch in range(given.epochs):
        begun = time.perf_counter()
        for _ in range(given.steps):
            places = torch.randint(len(images), (batch,))
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(called(images[places] / 255), labels[places])
            loss.backward()
            optimiser.step()
        value = loss.item()
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1} of {given.epochs}: loss {value:.4f}, {seconds:.4f} s", flush=True)


if __name__ == "__main__":
    main()
