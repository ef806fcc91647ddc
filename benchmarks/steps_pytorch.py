"""Training steps in PyTorch, as it is and compiled by inductor."""

from __future__ import annotations

from typing import Any

import torch
from steps_networks import NETWORKS, Layers, Network
from steps_rounds import Step, asked, by_turns
from torch import nn


class Residual(nn.Module):
    def __init__(self, inner: nn.Module, around: nn.Module) -> None:
        super().__init__()
        self.inner, self.around = inner, around

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.around(x)


def layer(word: str, *numbers: Any) -> nn.Module:
    if word in ("conv", "bare"):
        filters, kernel, stride = (*numbers, 1)[:3]
        padding = kernel // 2 if word == "conv" else 0
        return nn.LazyConv2d(filters, kernel, stride, padding, bias=word == "bare")
    if word == "residual":
        return Residual(build(numbers[0]), build(numbers[1]))
    if word == "maxpool":
        size, stride = numbers
        return nn.MaxPool2d(size, stride, padding=(size - 1) // 2)
    makers = {
        "norm": nn.LazyBatchNorm2d,
        "relu": nn.ReLU,
        "flatten": nn.Flatten,
        "dense": nn.LazyLinear,
        "dropout": nn.Dropout,
    }
    if word == "meanpool":
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return makers[word](*numbers)


def build(layers: Layers) -> nn.Module:
    return nn.Sequential(*(layer(*one) for one in layers))


def stepper(network: Network, compiled: bool) -> Step:
    torch.manual_seed(0)
    images = torch.randn(network.batch, network.channels, network.pixels, network.pixels)
    labels = torch.randint(network.classes, (network.batch,))
    model = build(network.layers)
    model(images)  # gives the lazy layers their sizes
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    called = torch.compile(model) if compiled else model

    def step() -> None:
        optimiser.zero_grad()
        nn.functional.cross_entropy(called(images), labels).backward()
        optimiser.step()

    return step


def main() -> None:
    given = asked()
    torch.set_num_threads(given.threads)
    network = NETWORKS[given.network]
    by_turns(
        {
            "plain": lambda: stepper(network, False),
            "inductor": lambda: stepper(network, True),
        }
    )


if __name__ == "__main__":
    main()
