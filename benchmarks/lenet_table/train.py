"""Train a LeNet-type network on synthetic 28x28 images for one epoch.

An ordinary training script: it knows nothing of forerun.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
OPTIMISERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


def lenet(kernel: int, filters: int, activation: str) -> nn.Module:
    act = ACTIVATIONS[activation]
    return nn.Sequential(
        nn.Conv2d(1, filters, kernel, padding="same"), act(), nn.MaxPool2d(2),
        nn.Conv2d(filters, 2 * filters, kernel, padding="same"), act(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2 * filters * 49, 128), act(), nn.Linear(128, 10),
    )  # fmt: skip


def train(rank: int, options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model: nn.Module = lenet(options.kernel, options.filters, options.activation)
    if options.workers > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
        dist.init_process_group("gloo", rank=rank, world_size=options.workers)
        model = DistributedDataParallel(model)
    optimiser = OPTIMISERS[options.optimiser](model.parameters(), lr=0.01)
    loss = nn.CrossEntropyLoss()
    share = options.samples // options.workers
    images, labels = torch.randn(share, 1, 28, 28), torch.randint(10, (share,))
    for start in range(0, share, options.batch):
        optimiser.zero_grad()
        loss(
            model(images[start : start + options.batch]), labels[start : start + options.batch]
        ).backward()
        optimiser.step()
    if options.workers > 1:
        dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", type=int, default=5)
    parser.add_argument("--filters", type=int, default=16)
    parser.add_argument("--activation", choices=ACTIVATIONS, default="relu")
    parser.add_argument("--optimiser", choices=OPTIMISERS, default="sgd")
    parser.add_argument("--batch", type=int, default=64, help="samples a step and worker")
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--port", type=int, default=29511)
    options = parser.parse_args()
    if options.workers == 1:
        train(0, options)
    else:
        mp.spawn(train, (options,), nprocs=options.workers)


if __name__ == "__main__":
    main()
