"""Training steps in MXNet, as they are called and hybridised."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import autograd, gluon
from mxnet.gluon import nn
from steps_networks import NETWORKS, Layers, Network
from steps_rounds import Step, asked, by_turns


class Residual(gluon.HybridBlock):
    def __init__(self, inner: gluon.HybridBlock, around: gluon.HybridBlock) -> None:
        super().__init__()
        self.inner, self.around = inner, around

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: ARG002 - Gluon passes F
        return self.inner(x) + self.around(x)


class Same(gluon.HybridBlock):
    """What a shortcut without layers does: an empty sequence of Gluon's cannot be hybridised."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.identity(x)


def layer(word: str, *numbers: Any) -> gluon.HybridBlock:
    if word in ("conv", "bare"):
        filters, kernel, stride = (*numbers, 1)[:3]
        padding = kernel // 2 if word == "conv" else 0
        return nn.Conv2D(filters, kernel, stride, padding, use_bias=word == "bare")
    if word == "residual":
        return Residual(build(numbers[0]), build(numbers[1]))
    if word == "maxpool":
        size, stride = numbers
        return nn.MaxPool2D(size, stride, padding=(size - 1) // 2)
    makers = {
        "norm": nn.BatchNorm,
        "meanpool": nn.GlobalAvgPool2D,
        "flatten": nn.Flatten,
        "dense": nn.Dense,
        "dropout": nn.Dropout,
    }
    return nn.Activation("relu") if word == "relu" else makers[word](*numbers)


def build(layers: Layers) -> gluon.HybridBlock:
    if not layers:
        return Same()
    made = nn.HybridSequential()
    made.add(*(layer(*one) for one in layers))
    return made


def stepper(network: Network, compiled: bool) -> Step:
    mx.random.seed(0)
    images = mx.nd.random.normal(
        shape=(network.batch, network.channels, network.pixels, network.pixels)
    )
    labels = mx.nd.random.randint(0, network.classes, shape=(network.batch,))
    model = build(network.layers)
    model.initialize()
    if compiled:
        model.hybridize(static_alloc=True, static_shape=True)
    error = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})

    def step() -> None:
        with autograd.record():
            loss = error(model(images), labels)
        loss.backward()
        trainer.step(network.batch)
        mx.nd.waitall()

    return step


def main() -> None:
    network = NETWORKS[asked().network]
    by_turns(
        {
            "plain": lambda: stepper(network, False),
            "hybridised": lambda: stepper(network, True),
        }
    )


if __name__ == "__main__":
    main()
