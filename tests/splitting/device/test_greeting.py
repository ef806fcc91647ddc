import pytest

from forerun.splitting.device.greeting import Greeting, Identity

SPLIT, OTHER_SPLIT = "ab" * 32, "cd" * 32
SECRET = b"0123456789abcdef"
HOST = 4
ENDS = bytes(36)
NO_SECRET = "another secret (or addresses are translated on the way)"


def identity(
    number: int, split: str = SPLIT, secret: bytes = SECRET, in_flight: int = 2
) -> Identity:
    return Identity(number, HOST, split, secret, in_flight)


def greet(
    connecting: Identity, to: int, listening: Identity, seen: bytes = ENDS
) -> tuple[Greeting, Greeting]:
    """Let two sides speak until one has nothing more to say; `seen`: by who listens."""
    one = Greeting(connecting, to, frozenset(), ENDS)
    two = Greeting(listening, None, frozenset({2, 3, HOST}), seen)
    said = one.first()
    turns = (two, one)
    while said:
        side = turns[0]
        assert len(said) == side.wanted
        said = side.take(said)
        turns = turns[::-1]
    return one, two


def test_two_sides_that_share_a_secret_are_greeted() -> None:
    one, two = greet(identity(3), 1, identity(1))
    assert (one.done, two.done, one.failed, two.failed) == (True, True, "", "")
    assert one.hello is not None
    assert two.hello is not None
    assert (one.hello.number, two.hello.number) == (1, 3)


def test_the_host_takes_the_devices_number_of_samples_and_hears_of_their_session() -> None:
    device = identity(1, in_flight=3)
    device.session = 7
    one, two = greet(identity(HOST, in_flight=0), 1, device)
    assert one.done
    assert two.done
    assert one.hello is not None
    assert (one.hello.in_flight, one.hello.session) == (3, 7)


@pytest.mark.parametrize(
    ("host", "held", "outdone"),
    [
        ((0, 5), (0, 0), False),  # no other has been there
        ((0, 5), (3, 0), False),
        ((0, 5), (3, 7), True),
        ((3, 5), (3, 7), True),
        ((3, 7), (3, 5), False),
        ((4, 5), (3, 7), False),
        ((2, 7), (3, 7), False),  # it has the device itself
    ],
)
def test_of_two_hosts_the_later_has_a_device_and_both_sides_know(
    host: tuple[int, int], held: tuple[int, int], outdone: bool
) -> None:
    sides = identity(HOST, in_flight=0), identity(1)
    for side, claim in zip(sides, (host, held), strict=True):
        side.session, side.host = claim
    one, two = greet(sides[0], 1, sides[1])
    assert (one.done, two.done) == (True, True)
    assert (one.is_outdone, two.is_outdone) == (outdone, outdone)


def test_devices_that_have_heard_of_different_hosts_are_greeted() -> None:
    sides = identity(3), identity(1)
    for side, claim in zip(sides, ((3, 5), (4, 7)), strict=True):
        side.session, side.host = claim
    one, two = greet(sides[0], 1, sides[1])
    assert (one.done, two.done) == (True, True)
    assert (one.is_outdone, two.is_outdone) == (False, False)


@pytest.mark.parametrize(
    ("connecting", "to", "words"),
    [
        (identity(3, secret=b"another secret !"), 1, NO_SECRET),
        (identity(3, split=OTHER_SPLIT), 1, "a package of another split"),
        (identity(3), 0, "a number that is not expected there"),
        (identity(0), 1, "a number that is not expected there"),
        (identity(3, in_flight=4), 1, "another number of samples in flight"),
    ],
)
def test_what_is_wrong_is_told_apart_on_both_sides(
    connecting: Identity, to: int, words: str
) -> None:
    one, two = greet(connecting, to, identity(1))
    assert not one.done
    assert not two.done
    assert two.failed == f"has {words}"
    assert one.failed == f"refuses this side, which has {words}"


def test_who_listens_must_prove_itself_too() -> None:
    one = Greeting(identity(3), 1, frozenset(), ENDS)
    two = Greeting(identity(1), None, frozenset({3}), ENDS)
    answer = one.take(two.take(one.first()))
    proof = bytearray(two.take(answer))
    proof[-1] ^= 1
    assert one.take(bytes(proof)) == b""
    assert (one.done, one.failed) == (False, f"has {NO_SECRET}")


def test_a_proof_is_of_no_use_a_second_time() -> None:
    one = Greeting(identity(3), 1, frozenset(), ENDS)
    two = Greeting(identity(1), None, frozenset({3}), ENDS)
    hello = one.first()
    proof = one.take(two.take(hello))
    again = Greeting(identity(1), None, frozenset({3}), ENDS)
    again.take(hello)
    again.take(proof)
    assert (again.done, again.failed) == (False, f"has {NO_SECRET}")


def test_a_proof_is_of_no_use_on_a_connection_between_other_addresses() -> None:
    one, two = greet(identity(3), 1, identity(1), seen=bytes(35) + b"1")
    assert (one.done, two.done) == (False, False)
    assert two.failed == f"has {NO_SECRET}"


def test_a_proof_sent_back_to_who_made_it_is_of_no_use() -> None:
    one = Greeting(identity(3), 1, frozenset(), ENDS)
    hello = one.first()
    mirrored = bytearray(hello)
    mirrored[10:12], mirrored[12:14] = hello[12:14], hello[10:12]
    proof = one.take(bytes(mirrored))
    assert proof
    one.take(proof)
    assert (one.done, one.failed) == (False, f"has {NO_SECRET}")


def test_another_program_on_the_port_is_no_device() -> None:
    one = Greeting(identity(3), 1, frozenset(), ENDS)
    one.first()
    assert one.take(b"HTTP/1.1 400 Bad Request".ljust(one.wanted, b" ")) == b""
    assert one.failed == "gives no greeting: something else speaks there"
    two = Greeting(identity(1), None, frozenset({3}), ENDS)
    assert two.take(bytes(two.wanted)) == b""
    assert two.failed == "gives no greeting: something else speaks there"
