"""The configurations of the LeNet-type network that the three frameworks are timed at.

Each framework gets points that all of them share, so that they can be compared, and points of its
own, so that more of the space is seen. Points are drawn at random over all factors; a network with
a layer smaller than one pixel cannot be built, and a run that would take minutes is not worth its
time, so neither is drawn. Some points are run three times, for the spread between repeats.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from forerun.factors import Factor, Kind, Point, Scope, Space, Value

FRAMEWORKS = ("tensorflow", "mxnet", "pytorch")
CHUNK = 500  # images a data chunk
SHARED, OWN = 64, 41
REPEATED_EACH, REPEATS = 5, 3  # every fifth point is run three times
LONGEST = 10.0  # seconds of training, as `rough_seconds` sees it


def _factor(name: str, scope: Scope, values: Iterable[Value], unit: str = "") -> Factor:
    listed = tuple(values)
    kind: Kind = "categorical" if isinstance(listed[0], str) else "numeric"
    return Factor(name, kind, scope, unit, values=listed)


SPACE = Space(
    [
        _factor("kernel", "intrinsic", (2, 3, 4, 5), "px"),
        _factor("pool", "intrinsic", (2, 3, 4), "px"),
        _factor("filters", "intrinsic", (4, 6, 8, 12, 16, 24, 32, 48, 64)),
        _factor("activation", "intrinsic", ("relu", "tanh", "sigmoid")),
        _factor("optimiser", "intrinsic", ("sgd", "adam")),
        _factor("learning_rate", "intrinsic", (1e-4, 1e-3, 1e-2, 1e-1)),
        _factor("padding", "intrinsic", ("valid", "same")),
        _factor("stride", "intrinsic", (1, 2, 3), "px"),
        _factor("dropout", "intrinsic", (0.2, 0.35, 0.5, 0.65, 0.8)),
        _factor("dataset", "intrinsic", ("mnist", "fashion-mnist", "cifar10")),
        _factor("chunks", "extrinsic", (2, 3, 4, 6, 8, 12, 16)),
        _factor("batch", "extrinsic", (8, 16, 32, 64, 128, 256), "samples"),
        _factor("epochs", "extrinsic", (1, 2, 3, 4)),
        _factor("workers", "extrinsic", (1, 2)),
    ]
)


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
        if min(sizes(point)) >= 1 and rough_seconds(point) <= LONGEST:
            drawn[point] = None
    return list(drawn)


def sizes(point: Point) -> tuple[int, int, int, int]:
    """The width in pixels after each convolution and each pooling; below 1: cannot be built."""
    kernel, pool, stride = (int(point[name]) for name in ("kernel", "pool", "stride"))
    same = point["padding"] == "same"

    def convolved(width: int) -> int:
        return -(-width // stride) if same else (width - kernel) // stride + 1

    first = convolved(_image(point)[0])
    second = convolved(first // pool)
    return first, first // pool, second, second // pool


def _image(point: Point) -> tuple[int, int]:
    """Width in pixels and channels."""
    return (32, 3) if point["dataset"] == "cifar10" else (28, 1)


def multiply_adds(point: Point) -> int:
    """Multiplications with addition that one image takes forwards."""
    first, _, second, last = sizes(point)
    area, filters = int(point["kernel"]) ** 2, int(point["filters"])
    convolutions = area * filters * (first**2 * _image(point)[1] + second**2 * 2 * filters)
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
