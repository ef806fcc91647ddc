import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.factors import Value
from forerun.workloads.sizes import can_be_built, lenet_sizes, lenet_space


@pytest.mark.parametrize(
    ("point", "sizes"),
    [
        ({}, (24, 12, 8, 4)),
        ({"kernel": 5, "dataset": "cifar10"}, (28, 14, 10, 5)),
        ({"kernel": 3, "padding": "same", "stride": 3, "dataset": "mnist"}, (10, 5, 2, 1)),
        ({"kernel": 5, "pool": 4, "stride": 3, "dataset": "mnist"}, (8, 2, 0, 0)),
        ({"image_size": 64}, (60, 30, 26, 13)),
        ({"image_size": 64, "dataset": "mnist"}, (24, 12, 8, 4)),
    ],
)
def test_sizes(point: dict[str, Value], sizes: tuple[int, ...]) -> None:
    assert lenet_sizes(point) == sizes
    assert can_be_built(point) == (min(sizes) >= 1)


SIDES = st.integers(1, 40)
SMALL = st.integers(1, 6)


@given(size=SIDES, kernel=SMALL, stride=SMALL, pool=SMALL)
def test_a_valid_convolution_counts_the_places_where_the_kernel_fits(
    size: int, kernel: int, stride: int, pool: int
) -> None:
    point = {"image_size": size, "kernel": kernel, "stride": stride, "pool": pool}
    first, pooled, *_ = lenet_sizes(point)
    fitting = [at for at in range(0, size, stride) if at + kernel <= size]
    assert max(first, 0) == len(fitting)
    assert max(pooled, 0) == len(fitting) // pool


@given(size=SIDES, stride=SMALL)
def test_same_padding_keeps_every_stride(size: int, stride: int) -> None:
    point: dict[str, Value] = {"image_size": size, "stride": stride, "padding": "same"}
    assert lenet_sizes(point)[0] == len(range(0, size, stride))


def test_the_space_has_all_factors_of_the_study() -> None:
    space = lenet_space()
    assert space.extrinsic == ("chunks", "batch", "epochs", "workers")
    assert space["batch"].role == "batch"
    assert space["workers"].role == "workers"
    for name, low, high in [
        ("kernel", 2, 5),
        ("pool", 2, 4),
        ("filters", 4, 64),
        ("learning_rate", 1e-4, 1e-1),
        ("stride", 1, 3),
        ("dropout", 0.2, 0.8),
        ("batch", 8, 256),
    ]:
        numbers = [float(value) for value in space[name].values]
        assert (min(numbers), max(numbers)) == (low, high)
