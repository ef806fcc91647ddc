"""The engine alone: frames come and go through links that keep them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_splits
from numpy.typing import NDArray

from forerun.splitting.device.arrivals import expect, largest_from
from forerun.splitting.device.computing import loaded
from forerun.splitting.device.engine import Engine
from forerun.splitting.device.faults import DeviceError
from forerun.splitting.device.greeting import Identity
from forerun.splitting.device.links import DATA, GO, INPUT, OUTPUT, Link, what
from forerun.splitting.device.network import Network
from forerun.splitting.device.pace import Pace
from forerun.splitting.device.reading import read_program
from forerun.splitting.device.schedule import Schedule
from forerun.splitting.device.wire import FLOAT32, window

SESSION = 1 << 32


class Kept(Link):
    """A link that keeps what is sent, and gives what a test says has come."""

    def __init__(self, peer: int, largest: int) -> None:
        super().__init__(peer, f"device {peer}", None, largest)
        self.sent: list[tuple[int, int, bytes]] = []

    def send(self, first: int, sample: int, payload: Any, owner: object) -> None:
        assert owner is None or sample >= 0
        self.sent.append((first, sample, bytes(payload)))

    def come(self, first: int, sample: int, payload: bytes) -> None:
        expected = self.expected[first]
        assert expected.least <= len(payload) <= expected.most
        self.memory[24 : 24 + len(payload)] = np.frombuffer(payload, np.uint8)
        expected.take(sample, 24, len(payload))


class Device:
    """One device of a small split, in this process."""

    def __init__(self, folder: Path, number: int, in_flight: int = 1, **options: Any) -> None:
        self.program = read_program(folder / f"device-{number}")
        schedule = Schedule(self.program)
        self.engine = Engine(
            schedule,
            loaded(self.program, 1),
            wire=FLOAT32,
            in_flight=in_flight,
            pace=Pace(1.0),
            **options,
        )
        peers = (*self.program.peers, self.program.devices)
        self.links = {peer: Kept(peer, largest_from(schedule, peer)) for peer in peers}
        devices = self.program.devices
        me = Identity(number, devices, self.program.split, b"", in_flight)
        network = Network(me, self.links.values(), 60, self.engine.opened, print)
        self.engine.join(network)
        self.order: list[tuple[int, int]] = []
        for link in self.links.values():
            expect(self.engine, link, lambda: None)
        for slot in self.engine.slots:
            slot.compute = [self._noted(slot, i, one) for i, one in enumerate(slot.compute)]

    def _noted(self, slot: Any, number: int, compute: Any) -> Any:
        def noted() -> None:
            self.order.append((slot.sample - SESSION, number))
            compute()

        return noted

    @property
    def host(self) -> Kept:
        return self.links[self.program.devices]

    def feed(self, number: int, image: NDArray[np.float32]) -> None:
        for i, piece in enumerate(self.program.inputs):
            payload = np.ascontiguousarray(window(image, piece.box)).tobytes()
            padded = payload + bytes(-len(payload) % 8)
            self.host.come(what(INPUT, i, FLOAT32), SESSION + number, padded)

    def work(self) -> None:
        while (slot := self.engine._next()) is not None:
            self.engine._compute(slot)


@pytest.fixture
def split(tmp_path: Path) -> Path:
    small_splits.rows(tmp_path, 2)
    return tmp_path


IMAGES = small_splits.samples(4)


def exchange(one: Device, two: Device) -> None:
    """Bring to each what the other has sent to it since the last time."""
    for sender, receiver in ((one, two), (two, one)):
        link = sender.links[receiver.program.device]
        for first, sample, payload in link.sent:
            receiver.links[sender.program.device].come(first, sample, payload)
        link.sent.clear()


def test_a_message_goes_before_anything_else_is_computed(split: Path) -> None:
    device = Device(split, 0)
    device.feed(0, IMAGES[0])
    assert device.order == []
    device.work()
    assert device.order == [(0, 0)]  # the second convolution waits for the other's row
    ((first, sample, payload),) = device.links[1].sent
    assert (first, sample, len(payload)) == (what(DATA, 3), SESSION, 4 * 5 * 4)


def test_two_devices_compute_the_network(split: Path, tmp_path: Path) -> None:
    network = small_splits.rows(tmp_path / "again", 2)
    one, two = Device(split, 0), Device(split, 1)
    for device in (one, two):
        device.feed(0, IMAGES[0])
    for _ in range(3):
        one.work()
        two.work()
        exchange(one, two)
    whole = small_splits.answer(network, IMAGES[0])
    rows = [
        np.frombuffer(device.host.sent[0][2], np.float32)[:45].reshape(3, 3, 5)
        for device in (one, two)
    ]
    np.testing.assert_allclose(np.concatenate(rows, axis=1), whole["y"][0], atol=1e-5)
    total = np.frombuffer(one.host.sent[-1][2], np.float32)[:5]
    np.testing.assert_allclose(total, whole["total"][0], rtol=1e-4, atol=1e-4)
    assert [first for first, _, _ in one.host.sent] == [what(OUTPUT, i) for i in range(3)]
    assert (one.engine.finished, one.engine.is_busy) == (1, False)


def test_the_oldest_sample_comes_first_and_the_next_fills_the_gaps(split: Path) -> None:
    one, two = Device(split, 0, 2), Device(split, 1, 2)
    for device in (one, two):
        device.feed(1, IMAGES[1])
        device.feed(0, IMAGES[0])
        device.work()
    assert one.order == [(0, 0), (1, 0)]  # while the oldest waits, the next one's first
    exchange(one, two)
    one.work()
    assert one.order[2:] == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_what_comes_twice_counts_once(split: Path) -> None:
    one, two = Device(split, 0), Device(split, 1)
    two.feed(0, IMAGES[0])
    two.work()
    (message,) = two.links[0].sent
    one.feed(0, IMAGES[0])
    for _ in range(3):
        one.links[1].come(*message)
        one.feed(0, IMAGES[1])  # the same sample again, with another image: not looked at
    one.work()
    one.links[1].come(*message)
    one.work()
    assert one.order == [(0, 0), (0, 1), (0, 2)]


def test_a_message_that_is_ahead_of_the_host_is_kept(split: Path) -> None:
    one, two = Device(split, 0), Device(split, 1)
    two.feed(0, IMAGES[0])
    two.work()
    exchange(one, two)
    assert one.engine.is_busy
    one.feed(0, IMAGES[0])
    one.work()
    assert one.order == [(0, 0), (0, 1), (0, 2)]


def test_a_sample_that_has_ended_elsewhere_is_given_up(split: Path) -> None:
    one = Device(split, 0, 2)
    one.feed(0, IMAGES[0])
    one.feed(2, IMAGES[2])  # so 0 has ended everywhere
    one.work()
    assert one.order == [(2, 0)]
    assert one.engine.abandoned == 1
    one.feed(0, IMAGES[0])  # late, and nobody's
    one.work()
    assert one.order == [(2, 0)]


def test_a_new_session_begins_with_nothing(split: Path) -> None:
    one = Device(split, 0)
    one.feed(5, IMAGES[0])
    one.work()
    assert one.order == [(5, 0)]
    one.feed(1 << 32, IMAGES[0])  # sample 0 of the session after
    one.work()
    assert one.order == [(5, 0), (1 << 32, 0)]
    assert (one.engine.session, one.engine.abandoned) == (2, 1)
    one.feed(6, IMAGES[0])  # of the session before
    one.work()
    assert one.order == [(5, 0), (1 << 32, 0)]


def test_a_sample_of_an_earlier_host_takes_no_device_from_a_later_one(split: Path) -> None:
    one = Device(split, 0)
    me = one.engine._network.me
    me.session, me.host = 4, 7
    one.feed(0, IMAGES[0])
    assert (one.engine.session, me.session, me.host) == (1, 4, 7)
    one.feed(5 << 32, IMAGES[0])
    assert (one.engine.session, me.session, me.host) == (6, 6, 7)


def test_a_session_that_none_could_follow_is_refused(split: Path) -> None:
    one = Device(split, 0)
    one.feed((2**32 - 3) << 32, IMAGES[0])  # of the session before
    assert one.engine.session == 2**32 - 2
    with pytest.raises(DeviceError, match="a sample of session 4294967295 has come, expected one"):
        one.feed((2**32 - 2) << 32, IMAGES[0])
    assert one.engine.session == 2**32 - 2


def test_what_was_sent_is_sent_again_when_a_connection_is_new(split: Path) -> None:
    one = Device(split, 0, 2)
    one.feed(0, IMAGES[0])
    one.feed(1, IMAGES[1])
    one.work()
    sent = [*one.links[1].sent]
    assert [sample - SESSION for _, sample, _ in sent] == [0, 1]
    one.engine.opened(one.links[1])
    assert one.links[1].sent == [*sent, *sent]
    assert one.host.sent == []


def test_sums_have_the_same_bits_in_whatever_order_they_come(tmp_path: Path) -> None:
    small_splits.rows(tmp_path, 3)
    parts = np.random.default_rng(0).standard_normal((2, 5)).astype(np.float32) * 1e3
    found = set()
    for order in ((1, 2), (2, 1)):
        device = Device(tmp_path, 0)
        device.feed(0, IMAGES[0])
        for peer in order:
            payload = parts[peer - 1].tobytes() + bytes(4)
            device.links[peer].come(what(DATA, 100), SESSION, payload)
        device.links[1].come(what(DATA, 2), SESSION, bytes(80))
        device.work()
        first, _, payload = device.host.sent[-1]
        assert first == what(OUTPUT, 2)
        found.add(payload)
    assert len(found) == 1


def test_samples_that_the_device_has_are_started_by_a_word(split: Path) -> None:
    images = np.concatenate(IMAGES)
    one = Device(split, 0, samples=images)
    one.host.come(what(GO), SESSION, (6).to_bytes(8, "little"))  # the third: they go round
    other = Device(split, 0)
    other.feed(0, IMAGES[2])
    one.work()
    other.work()
    assert one.links[1].sent == other.links[1].sent


def test_samples_that_the_device_does_not_have_are_an_error(split: Path) -> None:
    with pytest.raises(DeviceError, match="it needs --inputs"):
        Device(split, 0).host.come(what(GO), SESSION, bytes(8))


def test_the_error_of_the_wire_is_kept_for_messages_to_devices(tmp_path: Path) -> None:
    small_splits.groups(tmp_path, 2)
    errors: dict[int, float] = {}
    device = Device(tmp_path, 0, errors=errors)
    for slot in device.engine.slots:
        assert [one.wire for one in slot.posts] == [FLOAT32, FLOAT32]
    device.feed(0, small_splits.samples(1, 8)[0])
    device.work()
    assert errors == {}  # float32 makes none
