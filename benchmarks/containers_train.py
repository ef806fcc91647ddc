"""Train a network in PyTorch on random images, as a script does that sets nothing by itself.

Prints what it runs with, and the seconds and the processor time of each epoch when it is done. By
turns, an epoch is as many steps as the number that it reads from standard input: several can live
side by side, and only one trains.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator

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
    parser.add_argument("--turns", action="store_true", help="epochs of as many steps as it reads")
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


def epochs(given: argparse.Namespace) -> Iterator[int]:
    """How many steps each has, when its turn has come."""
    if given.turns:
        yield from map(int, sys.stdin)
    else:
        yield from [given.steps] * given.epochs


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
    for epoch, steps in enumerate(epochs(given), 1):
        begun, spent = time.perf_counter(), time.process_time()
        for _ in range(steps):
            places = torch.randint(len(images), (batch,))
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(called(images[places] / 255), labels[places])
            loss.backward()
            optimiser.step()
        value = loss.item()
        seconds, processors = time.perf_counter() - begun, time.process_time() - spent
        took = f"{seconds:.4f} s, {processors:.4f} s of processors"
        print(f"epoch {epoch}: loss {value:.4f}, {took}", flush=True)


if __name__ == "__main__":
    main()
