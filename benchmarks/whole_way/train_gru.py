"""Train a GRU to continue sequences of letters, in PyTorch."""

import argparse
import time
from collections.abc import Iterable

import torch
from torch import nn

LETTERS, LENGTH = 64, 24


class Continuing(nn.Module):
    """Says after each letter which one comes next."""

    def __init__(self, width: int, layers: int, layout: str) -> None:
        super().__init__()
        self.embed = nn.Embedding(LETTERS, width)
        self.by_time = layout == "time"
        self.gru = nn.GRU(width, width, layers, batch_first=not self.by_time)
        self.head = nn.Linear(width, LETTERS)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        if self.by_time:  # as the kernels want it
            return self.head(self.gru(self.embed(letters.T))[0]).transpose(0, 1)
        return self.head(self.gru(self.embed(letters))[0])


def text(samples: int, seed: int) -> torch.Tensor:
    """Letters that each follow from the two before, with some chance."""
    drawn = torch.Generator().manual_seed(seed)
    rows = torch.randint(LETTERS, (samples, LENGTH + 1), generator=drawn)
    for i in range(2, LENGTH + 1):
        follows = torch.rand(samples, generator=drawn) < 0.8
        rows[:, i] = torch.where(
            follows, (rows[:, i - 1] * 3 + rows[:, i - 2]) % LETTERS, rows[:, i]
        )
    return rows


def batches(rows: torch.Tensor, batch: int, loader: str) -> Iterable[torch.Tensor]:
    if loader == "dataset":
        return torch.utils.data.DataLoader(rows, batch, shuffle=True)
    return rows[torch.randperm(len(rows))].split(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=1024, help="sequences an epoch")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--update", choices=("loop", "foreach", "fused"), default="loop")
    parser.add_argument("--layout", choices=("batch", "time"), default="batch")
    parser.add_argument("--loader", choices=("tensor", "dataset"), default="dataset")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    rows = text(given.samples, given.seed)
    network = Continuing(given.width, given.layers, given.layout)
    update = {"foreach": given.update == "foreach", "fused": given.update == "fused"}
    optimiser = torch.optim.Adam(network.parameters(), 2e-3, **update)
    for epoch in range(1, given.epochs + 1):
        begun, total = time.perf_counter(), 0.0
        for letters in batches(rows, given.batch, given.loader):
            scores = network(letters[:, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), letters[:, 1:].flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(letters)
        taken = time.perf_counter() - begun
        print(f"epoch {epoch}: loss {total / len(rows):.4f}, {taken:.3f} s", flush=True)


if __name__ == "__main__":
    main()
