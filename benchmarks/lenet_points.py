"""The configurations of the LeNet-type network that the three frameworks are timed at.

Each framework gets points that all of them share, so that they can be compared, and points of its
own, so that more of the space is seen. Points are drawn at random over all factors; a network with
a layer smaller than one pixel cannot be built, and a run that would take minutes is not worth its
time, so neither is drawn. Some points are run three times, for the spread between repeats.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from forerun.factors import Point
from forerun.workloads.sizes import can_be_built, lenet_sizes, lenet_space

FRAMEWORKS = ("tensorflow", "mxnet", "pytorch")
CHUNK = 500  # images a data chunk
SHARED, OWN = 64, 41
REPEATED_EACH, REPEATS = 5, 3  # every fifth point is run three times
LONGEST = 10.0  # seconds of training, as `rough_seconds` sees it
SPACE = lenet_space()


@dataclass(frozen=True, slots=True)
class Task:
    """One run to make: the framework, the point, and which repeat of it this is."""

    framework: str
    point: Point
    repeat: int


def tasks(framework: str, seed: int = 2024) -> list[Task]:
    """Every run of one framework, in one random order with the repeats spread through it."""
    shared = _draw(SHARED, random.Random(f"{seed} shared"))
    own = _draw(OWN, random.Random(f"{seed} {framework}"))
    listed = [
        Task(framework, point, repeat)
        for number, point in enumerate(shared + own)
        for repeat in range(REPEATS if number % REPEATED_EACH == 0 else 1)
    ]
    random.Random(f"{seed} order of {framework}").shuffle(listed)
    return listed


def _draw(count: int, draw: random.Random) -> list[Point]:
    """Different points that can be built and that do not take too long."""
    drawn: dict[Point, None] = {}
    while len(drawn) < count:
        point = Point({name: draw.choice(factor.values) for name, factor in SPACE.items()})
        if can_be_built(point) and rough_seconds(point) <= LONGEST:
            drawn[point] = None
    return list(drawn)


def multiply_adds(point: Point) -> int:
    """Multiplications with addition that one image takes forwards."""
    first, _, second, last = lenet_sizes(point)
    area, filters = int(point["kernel"]) ** 2, int(point["filters"])
    channels = 3 if point["dataset"] == "cifar10" else 1
    convolutions = area * filters * (first**2 * channels + second**2 * 2 * filters)
    return convolutions + last**2 * 2 * filters * 120 + 120 * 84 + 84 * 10


def rough_seconds(point: Point) -> float:
    """What training will take, start-up aside, to within a factor of three: it only sets a limit.

    Forwards and backwards come to six operations a multiply-add, at 1e10 a second; a step costs
    3 ms, and as much again where workers have to agree.
    """
    workers = int(point["workers"])
    images = CHUNK * int(point["chunks"]) * int(point["epochs"]) / workers
    steps = images / int(point["batch"])
    return images * (6 * multiply_adds(point) / 1e10 + 6e-5) + steps * 3e-3 * workers
