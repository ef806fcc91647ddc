"""The factors of the LeNet-type workload, and which of their combinations can be built.

Pure arithmetic, the same as in the training scripts: whoever draws configurations asks here first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from forerun.factors import Factor, Kind, Scope, Space, Value, guess_role

IMAGE_SIZES = {"mnist": 28, "fashion-mnist": 28, "cifar10": 32, "digits": 8, "synthetic": 28}


def lenet_space() -> Space:
    """All factors of the study of three frameworks, each with its grid."""
    return Space(
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


def lenet_sizes(point: Mapping[str, Value]) -> tuple[int, int, int, int]:
    """The sides in pixels after each convolution and each pooling, whatever comes out.

    What the point leaves open is as in the scripts: kernel 5, pool 2, stride 1, no padding, and
    the image size of the data set (`image_size` counts for synthetic images).
    """
    kernel, pool = int(point.get("kernel", 5)), int(point.get("pool", 2))
    stride, same = int(point.get("stride", 1)), point.get("padding", "valid") == "same"
    dataset = str(point.get("dataset", "synthetic"))

    def convolved(size: int) -> int:
        return -(-size // stride) if same else (size - kernel) // stride + 1

    size = IMAGE_SIZES[dataset]
    first = convolved(int(point.get("image_size", size)) if dataset == "synthetic" else size)
    second = convolved(first // pool)
    return first, first // pool, second, second // pool


def can_be_built(point: Mapping[str, Value]) -> bool:
    """Whether no size of the network is below one pixel; the scripts refuse what has one."""
    return min(lenet_sizes(point)) >= 1


def _factor(name: str, scope: Scope, values: Iterable[Value], unit: str = "") -> Factor:
    listed = tuple(values)
    kind: Kind = "categorical" if isinstance(listed[0], str) else "numeric"
    return Factor(name, kind, scope, unit, guess_role(name, kind), listed)
