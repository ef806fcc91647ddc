import socket

import pytest

from forerun.splitting.device.faults import DeviceError
from forerun.splitting.device.sockets import address, bound, end_of, kept_alive, written


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("10.0.0.1:7000", ("10.0.0.1", 7000)),
        ("board-1.local:1", ("board-1.local", 1)),
        ("[fe80::1]:65535", ("fe80::1", 65535)),
    ],
)
def test_addresses_are_read_and_written(text: str, place: tuple[str, int]) -> None:
    assert address(text) == place
    assert written(place) == text


@pytest.mark.parametrize(
    "text", ["", "10.0.0.1", ":7000", "10.0.0.1:0", "10.0.0.1:70000", "a b:1", "a;b:1", "::1:7000"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(DeviceError, match="found no address, expected one such as"):
        address(text)


def test_an_address_that_is_taken_or_not_here_is_told() -> None:
    with bound(("127.0.0.1", 0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DeviceError, match=rf"127\.0\.0\.1:{port}: Address already in use"):
            bound(("127.0.0.1", port)).listen()
    with pytest.raises(DeviceError, match=r"192\.0\.2\.1:7000: Cannot assign"):
        bound(("192.0.2.1", 7000))


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "::", "::ffff:0.0.0.0"])
def test_all_addresses_at_once_must_be_asked_for(host: str) -> None:
    with pytest.raises(DeviceError, match="found all addresses of this machine, expected one of"):
        bound((host, 0))
    if ":" not in host:
        with bound((host, 0), anywhere=True) as made:
            assert made.getsockname()[0] == "0.0.0.0"


@pytest.mark.parametrize("host", ["a" * 100, "a..b"])
def test_what_can_be_no_name_is_told(host: str) -> None:
    with pytest.raises(DeviceError, match=f"^{host}:7000: "):
        bound((host, 7000))


def test_both_sides_have_the_same_words_for_an_end() -> None:
    end = end_of(("10.0.0.1", 7000))
    assert end == bytes(10) + b"\xff\xff\x0a\0\0\x01" + (7000).to_bytes(2, "big")
    assert end_of(("::ffff:10.0.0.1", 7000, 0, 0)) == end
    assert end_of(("10.0.0.1", 7001)) != end
    assert end_of(("fe80::1%eth0", 1, 0, 2)) == end_of(("fe80::1", 1, 0, 3))


@pytest.mark.parametrize(("timeout", "pause"), [(0.5, 2), (60, 20), (1e6, 32767), (1e9, 32767)])
def test_any_time_that_others_are_waited_for_can_be_told_the_kernel(
    timeout: float, pause: int
) -> None:
    with socket.socket() as made:
        kept_alive(made, timeout)
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == pause
