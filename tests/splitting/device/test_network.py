import re
import select
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from patience import LONG, Ticking

from forerun.splitting.device.faults import DeviceError, LinkError
from forerun.splitting.device.greeting import Identity
from forerun.splitting.device.links import DATA, Expected, Link, what
from forerun.splitting.device.network import Network
from forerun.splitting.device.sockets import bound

SPLIT = "ab" * 32
SECRET = b"0123456789abcdef"


class Side:
    """One side of a network of two devices: 0 listens, 1 connects."""

    def __init__(
        self,
        number: int,
        port: int,
        secret: bytes = SECRET,
        timeout: float = LONG,
        split: str = SPLIT,
        host: str = "127.0.0.1",
    ) -> None:
        self.taken: list[int] = []
        self.opened: list[int] = []
        self.lines: list[str] = []
        place = (host, port) if number else None
        self.link = Link(1 - number, f"device {1 - number}", place, 8)
        self.link.expected[what(DATA)] = Expected(
            8, 8, lambda sample, *_: self.taken.append(sample)
        )
        me = Identity(number, 2, split, secret, 1)
        self.network = Network(
            me, [self.link], timeout, lambda link: self.opened.append(link.peer), self.lines.append
        )

    def step(self) -> None:
        self.network.handle(self.network.wait(0.01))


@pytest.fixture
def sides() -> Iterator[tuple[Side, Side, int]]:
    listening = bound(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    pair = Side(0, port), Side(1, port)
    pair[0].network.listen(listening)
    yield *pair, port
    for side in pair:
        side.network.finish(0.1)


def until(done: Callable[[], bool], *sides: Side, seconds: float = LONG) -> None:
    limit = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < limit, "too long"
        for side in sides:
            side.step()


def test_two_devices_find_each_other_and_exchange(sides: tuple[Side, Side, int]) -> None:
    one, two, _ = sides
    until(lambda: one.link.is_open and two.link.is_open, one, two)
    assert (one.opened, two.opened) == ([1], [0])
    one.link.send(what(DATA), 7, bytes(8), None)
    two.link.send(what(DATA), 8, bytes(8), None)
    until(lambda: bool(one.taken and two.taken), one, two)
    assert (one.taken, two.taken) == ([8], [7])
    assert one.network.missing() == []


def test_a_broken_connection_is_made_again(sides: tuple[Side, Side, int]) -> None:
    one, two, _ = sides
    for count in range(1, 4):
        until(lambda: one.link.is_open and two.link.is_open, one, two)
        assert len(two.opened) == count
        broken = socket.socket(fileno=socket.dup(two.link.fileno()))
        broken.shutdown(socket.SHUT_RDWR)
        broken.close()
        until(lambda: not (one.link.is_open and two.link.is_open), one, two)
    until(lambda: one.link.is_open and two.link.is_open, one, two)
    two.link.send(what(DATA), 9, bytes(8), None)
    until(lambda: one.taken == [9], one, two)
    assert two.network.breaks == 3


def test_who_comes_anew_replaces_its_old_connection(sides: tuple[Side, Side, int]) -> None:
    one, two, port = sides
    until(lambda: one.link.is_open and two.link.is_open, one, two)
    again = Side(1, port)
    until(lambda: again.link.is_open, one, again)
    again.link.send(what(DATA), 3, bytes(8), None)
    until(lambda: one.taken == [3], one, again)
    again.network.finish(0.1)


def test_who_has_another_secret_is_kept_out_on_both_sides(sides: tuple[Side, Side, int]) -> None:
    one, two, port = sides
    stranger = Side(1, port, b"something else entirely", timeout=3)
    refused = "refuses this side, which has another secret (or addresses are translated on the way)"
    until(lambda: len(stranger.lines) > 0, one, stranger)
    assert stranger.lines == [f"device 0 {refused}; trying again"]
    told = f"device 0 has not answered for 3 s: it {refused}"
    with pytest.raises(LinkError, match=f"^{re.escape(told)}$"):
        until(lambda: stranger.link.is_open, one, stranger)
    assert len(stranger.lines) == 1
    assert len(one.lines) == 1
    assert one.lines[0].startswith("127.0.0.1 port ")
    assert one.lines[0].endswith(
        ", which says it is device 1, has another secret (or addresses are translated on the way); "
        "its connection was closed"
    )
    until(lambda: one.link.is_open and two.link.is_open, one, two)
    stranger.network.finish(0)


def test_who_refuses_without_a_proof_ends_nothing() -> None:
    listening = bound(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    impostor, two = Side(0, port, split="cd" * 32), Side(1, port)
    impostor.network.listen(listening)
    until(lambda: len(two.lines) > 0, impostor, two)
    assert two.lines[0].startswith("device 0 refuses this side, which has a package of another")
    impostor.network.finish(0)
    one = Side(0, port)
    one.network.listen(bound(("127.0.0.1", port)))
    until(lambda: one.link.is_open and two.link.is_open, one, two)
    for side in (one, two):
        side.network.finish(0.1)


def test_a_name_is_looked_up_once(
    sides: tuple[Side, Side, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _, port = sides
    asked, ask = [], socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **b: asked.append(a) or ask(*a, **b))  # type: ignore[func-returns-value]
    two = Side(1, port)
    for count in range(1, 4):
        until(lambda: one.link.is_open and two.link.is_open, one, two)
        assert len(two.opened) == count
        one.link.broke(one.link, "a test")
        until(lambda: not two.link.is_open, one, two)
    assert asked == [("127.0.0.1", port)]
    two.network.finish(0)


def test_a_side_that_listens_everywhere_is_greeted_by_whichever_address() -> None:
    try:
        listening = bound(("::", 0), anywhere=True)
    except DeviceError:
        pytest.skip("no IPv6 here")
    port = listening.getsockname()[1]
    one = Side(0, port)
    one.network.listen(listening)
    for host in ("127.0.0.1", "127.0.0.3", "::1"):
        two = Side(1, port, host=host)
        until(lambda two=two: two.link.is_open, one, two)  # type: ignore[misc]
        two.network.finish(0)
    one.network.finish(0)


def test_nobody_there_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forerun.splitting.device.network.time", Ticking(0.02))
    with bound(("127.0.0.1", 0)) as taken:  # nobody listens there
        lonely = Side(1, taken.getsockname()[1], timeout=0.3)
        told = r"device 0 has not answered for 0\.3 s: Connection refused"
        with pytest.raises(LinkError, match=told):
            until(lambda: False, lonely)
        lonely.network.finish(0)


@pytest.mark.parametrize("garbage", [b"", b"\0", b"GET / HTTP/1.1\r\n\r\n" * 20, b"\xff" * 10**6])
def test_strangers_cost_a_greeting_at_most(sides: tuple[Side, Side, int], garbage: bytes) -> None:
    one, two, port = sides
    before = one.link.memory.nbytes
    strangers = []
    for _ in range(40):
        stranger = socket.create_connection(("127.0.0.1", port))
        stranger.setblocking(False)
        if garbage:
            stranger.send(garbage)
        strangers.append(stranger)
        one.step()
    assert len(one.network._meetings) <= 16
    assert all(len(meeting.data) <= 84 for meeting in one.network._meetings)
    until(lambda: one.link.is_open and two.link.is_open, one, two)
    assert one.link.memory.nbytes == before
    for stranger in strangers:
        stranger.close()


def test_who_floods_a_device_keeps_out_no_other_address(sides: tuple[Side, Side, int]) -> None:
    one, two, port = sides
    flood: list[socket.socket] = []

    def connected() -> bool:
        for _ in range(20):  # more than are kept, in every turn
            flood.append(socket.socket())
            flood[-1].bind(("127.0.0.2", 0))
            flood[-1].setblocking(False)
            flood[-1].connect_ex(("127.0.0.1", port))
        while len(flood) > 400:
            flood.pop(0).close()
        return one.link.is_open and two.link.is_open

    until(connected, one, two)
    assert len(one.network._meetings) <= 16
    for stranger in flood:
        stranger.close()


def test_a_stranger_who_says_nothing_is_sent_away(
    sides: tuple[Side, Side, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forerun.splitting.device.network.SECONDS", 0.2)
    one, _, port = sides
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        until(lambda: bool(select.select([stranger], [], [], 0)[0]), one)
        assert stranger.recv(100) == b""


def test_the_lines_that_strangers_cause_have_an_end(sides: tuple[Side, Side, int]) -> None:
    one, _, port = sides
    for number in range(60):
        for _ in range(2):  # the second is told of no more
            source = (f"127.0.1.{number + 1}", 0)
            with socket.create_connection(("127.0.0.1", port), source_address=source) as stranger:
                stranger.sendall(bytes(84))
                until(lambda it=stranger: bool(select.select([it], [], [], 0)[0]), one)  # type: ignore[misc]
    assert len(one.lines) == 51
    assert one.lines[49].startswith("127.0.1.50 port ")
    assert one.lines[-1] == "further connections that are refused are not told of"
