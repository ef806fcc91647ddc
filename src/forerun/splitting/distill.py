"""Train a network against another one: a decoupled network against the dense one that it is from.

Hinton's loss: the student learns the teacher's whole distribution, softened by a temperature, and
the labels. Softening divides gradients by the square of the temperature, which is made up for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from forerun.errors import InputError

# Of inputs, the network's scores and the labels.
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
Batches = Iterable[tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Labels:
    """The cross entropy of the labels, a share of which may be spread over all classes."""

    smoothing: float = 0.0

    def __call__(self, _: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(scores, labels, label_smoothing=self.smoothing)


class Teacher:
    """What another network says, and for the rest of the share, what the labels say."""

    def __init__(
        self,
        teacher: nn.Module,
        temperature: float = 4.0,
        share: float = 0.9,
        rest: Loss | None = None,
    ) -> None:
        if temperature <= 0:
            raise InputError("temperature", temperature, "a number above 0")
        if not 0 <= share <= 1:
            raise InputError("share of the teacher", share, "a number from 0 to 1")
        self.teacher = teacher.eval().requires_grad_(False)
        self.temperature, self.share, self.rest = temperature, share, rest or Labels()

    def __call__(self, inputs: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            taught = self.teacher(inputs)
        if taught.shape != scores.shape:
            found = f"{taught.shape[-1]} classes"
            raise InputError("teacher", found, f"the student's {scores.shape[-1]}")
        soft = functional.kl_div(
            functional.log_softmax(scores / self.temperature, dim=1),
            functional.log_softmax(taught / self.temperature, dim=1),
            reduction="batchmean",
            log_target=True,
        )
        rest = self.rest(inputs, scores, labels)
        return self.share * self.temperature**2 * soft + (1 - self.share) * rest


def fit(
    network: nn.Module,
    batches: Batches,
    loss: Loss,
    optimiser: torch.optim.Optimizer,
    before_step: Callable[[], None] = lambda: None,
) -> float:
    """Go once through the batches; the mean loss of a sample."""
    network.train()
    total, samples = torch.zeros(()), 0
    for inputs, labels in batches:
        before_step()
        optimiser.zero_grad()
        found = loss(inputs, network(inputs), labels)
        found.backward()
        optimiser.step()
        total += found.detach().cpu() * len(labels)
        samples += len(labels)
    return float(total) / max(samples, 1)


def distill(
    student: nn.Module,
    teacher: nn.Module,
    batches: Batches,
    *,
    optimiser: torch.optim.Optimizer | None = None,
    temperature: float = 4.0,
    share: float = 0.9,
) -> float:
    """Train the student once through the batches (inputs and labels); the mean loss of a sample.

    Without an optimiser, by SGD with Nesterov's momentum and a learning rate of 0.01.
    """
    if optimiser is None:
        optimiser = torch.optim.SGD(student.parameters(), 0.01, momentum=0.9, nesterov=True)
    return fit(student, batches, Teacher(teacher, temperature, share), optimiser)
