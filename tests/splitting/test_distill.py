"""A student learns from a teacher."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from forerun.errors import InputError
from forerun.splitting.decouple import decouple
from forerun.splitting.distill import Labels, Teacher, distill, fit
from forerun.splitting.networks import build

SCORES = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.5, 3.0]])
LABELS = torch.tensor([0, 2])


class Fixed(nn.Module):
    """Always says the same."""

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = nn.Parameter(scores)

    def forward(self, _: Tensor) -> Tensor:
        return self.scores


def test_a_student_that_agrees_loses_nothing_to_its_teacher() -> None:
    loss = Teacher(Fixed(SCORES), temperature=3, share=1)
    assert loss(torch.empty(2), SCORES, LABELS).item() == pytest.approx(0, abs=1e-6)
    other = loss(torch.empty(2), SCORES.flip(1), LABELS).item()
    soft, wanted = SCORES.flip(1) / 3, SCORES / 3
    apart = (wanted.softmax(1) * (wanted.log_softmax(1) - soft.log_softmax(1))).sum() / 2
    assert other == pytest.approx(9 * apart.item())


def test_labels_have_the_rest_of_the_share() -> None:
    loss = Teacher(Fixed(SCORES), share=0.25)
    wanted = 0.75 * functional.cross_entropy(SCORES, LABELS)
    assert loss(torch.empty(2), SCORES, LABELS).item() == pytest.approx(wanted.item(), abs=1e-6)


def test_labels_can_be_smoothed() -> None:
    flat = torch.zeros(2, 3)
    assert Labels(0.1)(flat, flat, LABELS).item() == pytest.approx(math.log(3))
    assert Labels(0.1)(flat, 9 * SCORES, LABELS) > Labels()(flat, 9 * SCORES, LABELS)


def batches() -> list[tuple[Tensor, Tensor]]:
    random = torch.Generator().manual_seed(0)
    return [
        (torch.randn(32, 3, 32, 32, generator=random), torch.randint(10, (32,), generator=random))
        for _ in range(4)
    ]


def test_a_decoupled_network_comes_closer_to_the_dense_one() -> None:
    torch.manual_seed(0)
    teacher = build("resnet-8")
    student = decouple(teacher, 4, 1.25)
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    losses = [distill(student, teacher, batches(), share=1) for _ in range(3)]
    assert losses[2] < 0.7 * losses[0]
    assert student.training
    assert not teacher.training
    assert all(torch.equal(before[name], value) for name, value in teacher.state_dict().items())


def test_the_mean_loss_is_that_of_a_sample() -> None:
    network = Fixed(torch.zeros(2, 3))
    unequal = [(torch.empty(2), LABELS), (torch.empty(2), LABELS)]
    still = torch.optim.SGD(network.parameters(), 0.0)
    paces: list[int] = []
    found = fit(network, unequal, Labels(), still, lambda: paces.append(len(paces)))
    assert found == pytest.approx(math.log(3))
    assert paces == [0, 1]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"temperature": 0}, "temperature: found 0, expected a number above 0"),
        ({"share": 1.5}, "share of the teacher: found 1.5, expected a number from 0 to 1"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, float], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Teacher(Fixed(SCORES), **options)  # type: ignore[arg-type]


def test_a_teacher_of_other_classes_is_refused() -> None:
    with pytest.raises(InputError, match="teacher: found 3 classes, expected the student's 2"):
        Teacher(Fixed(SCORES))(torch.empty(2), SCORES[:, :2], LABELS)
