import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from forerun.splitting.device.faults import DeviceError
from forerun.splitting.device.program import Box
from forerun.splitting.device.wire import (
    FLOAT16,
    FLOAT32,
    INT8,
    Coded,
    Decoder,
    Encoder,
    Size,
    fitting,
    message_bytes,
    window,
)

Floats = NDArray[np.float32]

SIZES = st.tuples(st.integers(1, 9), st.integers(8, 40))


def through(parts: list[Floats], wire: int, offset: int = 0) -> list[Floats]:
    """What comes out at the other end, with the message somewhere in a larger memory."""
    encoder = Encoder(parts, wire)
    encoder.encode()
    assert len(encoder.payload) == encoder.length
    memory = np.full(offset + encoder.length, 255, np.uint8)
    memory[offset:] = np.frombuffer(encoder.payload, np.uint8)
    sizes = [Size(*part.shape) for part in parts]
    return Decoder(sizes, encoder.wire, memory).decoded(offset)


def numbers(size: tuple[int, int], seed: int, scale: float = 1.0) -> Floats:
    return (scale * np.random.default_rng(seed).standard_normal(size)).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=3), st.integers(0, 99), st.booleans())
def test_float32_arrives_as_it_was(sizes: list[tuple[int, int]], seed: int, strided: bool) -> None:
    parts = [
        numbers((2 * a, b), seed + i)[:: 2 if strided else 1] for i, (a, b) in enumerate(sizes)
    ]
    for sent, came in zip(parts, through(parts, FLOAT32, 24), strict=True):
        np.testing.assert_array_equal(sent, came)


@settings(max_examples=40, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=3), st.integers(0, 99), st.booleans())
def test_float16_errs_by_half_a_unit_of_its_last_place(
    sizes: list[tuple[int, int]], seed: int, strided: bool
) -> None:
    parts = [
        numbers((2 * a, b), seed + i)[:: 2 if strided else 1] for i, (a, b) in enumerate(sizes)
    ]
    for sent, came in zip(parts, through(parts, FLOAT16, 24), strict=True):
        np.testing.assert_array_equal(sent.astype(np.float16).astype(np.float32), came)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(SIZES, min_size=1, max_size=3),
    st.integers(0, 99),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.sampled_from(["both", "positive", "negative"]),
)
def test_a_byte_errs_by_half_a_step_of_its_channel(
    sizes: list[tuple[int, int]], seed: int, scale: float, signs: str
) -> None:
    parts = [numbers(size, seed + i, scale) for i, size in enumerate(sizes)]
    if signs != "both":
        parts = [np.abs(part) * np.float32(1 if signs == "positive" else -1) for part in parts]
    for sent, came in zip(parts, through(parts, INT8, 24), strict=True):
        low = np.minimum(sent.min(axis=1), 0)
        step = (np.maximum(sent.max(axis=1), 0) - low) / 255
        # Half a step by rounding the value, half a step more by rounding where 0 is.
        limit = (1.0 if signs == "both" else 0.5) * step * 1.001
        assert (np.abs(sent - came) <= limit[:, np.newaxis]).all()


def test_zero_stays_zero_in_bytes() -> None:
    part = numbers((3, 50), 0)
    part[:, ::5] = 0
    part[1] = 0
    (came,) = through([part], INT8)
    assert (came[part == 0] == 0).all()


def test_channels_have_scales_of_their_own() -> None:
    part = np.stack([np.linspace(0, 1e-3, 16), np.linspace(0, 1e3, 16)]).astype(np.float32)
    (came,) = through([part], INT8)
    np.testing.assert_allclose(came[0], part[0], atol=2e-6)
    np.testing.assert_allclose(came[1], part[1], atol=2)


def test_what_is_too_large_for_float16_becomes_its_largest() -> None:
    (came,) = through([np.full((1, 8), -1e6, np.float32)], FLOAT16)
    assert (came == -65504).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_what_is_not_finite_has_no_byte(value: float) -> None:
    part = numbers((2, 8), 0)
    part[1, 3] = value
    with pytest.raises(DeviceError, match="no finite number"):
        through([part], INT8)


def test_vectors_keep_their_precision() -> None:
    vector, map_ = Size(1000, 1), Size(64, 49)
    assert fitting([vector], INT8) == FLOAT32
    assert fitting([vector, map_], INT8) == FLOAT32
    assert fitting([map_], INT8) == INT8
    assert fitting([vector], FLOAT16) == FLOAT16


def test_messages_have_the_bytes_that_are_expected() -> None:
    sizes = [Size(64, 112), Size(3, 9)]
    assert message_bytes(sizes, FLOAT32) == 64 * 112 * 4 + 112  # 108, to a multiple of 8
    assert message_bytes(sizes, FLOAT16) == 64 * 112 * 2 + 56
    assert message_bytes(sizes, INT8) == (256 + 64 + 64 * 112) + (16 + 8 + 32)


def test_a_contiguous_buffer_is_its_own_payload() -> None:
    whole = numbers((4, 10), 0)
    encoder = Encoder([whole[1:3]], FLOAT32)
    whole[1:3] = 7
    encoder.encode()
    assert bytes(encoder.payload) == np.full(20, 7, np.float32).tobytes()


def test_targets_may_be_strided_and_are_told_apart() -> None:
    part = numbers((4, 16), 0)
    encoder = Encoder([part], INT8)
    encoder.encode()
    memory = np.frombuffer(encoder.payload, np.uint8)
    decoder = Decoder([Size(4, 16)], INT8, memory)
    first, second = np.zeros((8, 16), np.float32), np.zeros((4, 20), np.float32)
    for _ in range(2):
        decoder.decode(0, [first[::2]], 0)
        decoder.decode(0, [second[:, 2:18]], 1)
    np.testing.assert_allclose(first[::2], part, atol=0.03)
    np.testing.assert_array_equal(first[::2], second[:, 2:18])
    assert (first[1::2] == 0).all()
    assert (second[:, :2] == 0).all()


def test_the_error_that_is_made_is_stated() -> None:
    part = np.array([[0, 1, 2, 3, 4, 5, 6, 25.5]], np.float32)  # steps of 0.1
    encoder = Encoder([part], INT8)
    encoder.encode()
    error, largest = encoder.error()
    assert largest == 25.5
    assert error < 1e-5
    part[0, 1] = 1.05
    encoder.encode()
    assert encoder.error()[0] == pytest.approx(0.05, rel=0.01)


def test_a_window_of_a_tensor() -> None:
    tensor = np.arange(2 * 3 * 4, dtype=np.float32).reshape(1, 2, 3, 4)
    np.testing.assert_array_equal(
        window(tensor, Box(1, 2, 1, 1, 3)), tensor[0, 1:, 1:3].reshape(1, 8)
    )
    vector = np.arange(6, dtype=np.float32).reshape(1, 6)
    np.testing.assert_array_equal(window(vector, Box(1, 6, 2, 0, 1)), [[1], [3], [5]])


@pytest.mark.parametrize("wire", [FLOAT16, INT8])
def test_messages_of_one_buffer_are_coded_at_once(wire: int) -> None:
    whole = numbers((6, 40), 0)
    coded = Coded(whole, wire)
    parts = [(whole[i::2], slice(i, 6, 2)) for i in range(2)]
    together = [Encoder([part], wire, coded=(coded, taken)) for part, taken in parts]
    together[0].code_first(coded)
    for encoder, (part, _) in zip(together, parts, strict=True):
        encoder.encode()
        alone = Encoder([part], wire)
        alone.encode()
        assert bytes(encoder.payload) == bytes(alone.payload)
