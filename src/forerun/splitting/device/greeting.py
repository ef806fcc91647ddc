"""Who is there: both sides of a connection prove that they have the secret, before anything else.

The side that connects sends a hello with a nonce; so does the other. Each then proves its role with
HMAC-SHA256 over both hellos, which hold the nonces, the split, and both numbers, and over both
addresses of the connection as it sees them: nothing of an earlier greeting, of the other direction,
or of another connection is of any use, so nobody can pass a greeting on in order to take part. Nor
can two sides greet each other where addresses are translated between them.

Of several hosts the one that came last has the devices. The hello of a host says the session that
it begins, and a number that it has drawn, in case two begin the same: so there is one order of
hosts, which all devices agree on. The hello of a device says which host has it. One that comes
before that host learns so by a greeting which is proved like any other. Sessions are drawn, too:
those of hosts that come at the same moment differ, and no sample is taken for another's.

What comes after is neither encrypted nor signed: the greeting keeps strangers and mistakes out, not
somebody on the wire. Why a side refuses the other is said before anything is proved: it is for
people, and decides nothing.

Here are only the words; `network` sends and receives them, never more than `wanted` bytes.
"""

from __future__ import annotations

import hmac
import os
import secrets
import struct
from typing import NamedTuple

from .faults import DeviceError
from .links import LAST_SESSION

SECONDS = 5.0  # for all of a greeting
FEWEST_BYTES = 16  # of a secret
_DRAWN = 2**12  # numbers that the next session's is one of

_MAGIC = b"forerun\n"
_VERSION = 3
_HELLO = struct.Struct(">8sBBHHHII32s28s")
_PROOF = struct.Struct(">B32s")
_FINE, _OTHER_VERSION, _OTHER_SPLIT, _OTHER_NUMBER, _OTHER_IN_FLIGHT, _OTHER_SECRET = range(6)
# Of the side that is refused, in the words of the one that refuses.
_REASONS = {
    _OTHER_VERSION: "another version of forerun",
    _OTHER_SPLIT: "a package of another split",
    _OTHER_NUMBER: "a number that is not expected there",
    _OTHER_IN_FLIGHT: "another number of samples in flight",
    _OTHER_SECRET: "another secret (or addresses are translated on the way)",
}


def after(session: int) -> int:
    """A number for a session after one, drawn; DeviceError where none is left."""
    if session + 1 >= LAST_SESSION:
        raise DeviceError(
            f"session: found {session + 1}, expected one below {LAST_SESSION}: "
            "start the devices anew"
        )
    return min(session + 1 + secrets.randbelow(_DRAWN), LAST_SESSION - 1)


class Identity:
    """What a device, or the host, says of itself: the host comes after the last device."""

    def __init__(
        self, number: int, devices: int, split: str, secret: bytes, in_flight: int, host: int = 0
    ) -> None:
        self.number = number
        self.devices = devices
        self.split = bytes.fromhex(split)
        self.secret = secret
        self.in_flight = in_flight  # 0: the host's, which takes what the devices have
        self.session = 0  # the host's; of a device the last one that it has heard of
        self.host = host  # what the host has drawn, or the one that has the device; 0: none has

    def outdo(self, session: int) -> None:
        """Be a later host than that of a session."""
        self.session = max(self.session, after(session))


class Hello(NamedTuple):
    """What the other side says of itself; only a proof makes it true."""

    magic: bytes
    version: int
    status: int
    number: int
    other: int  # whom it believes to be speaking to
    in_flight: int
    session: int
    host: int
    split: bytes
    nonce: bytes


class Greeting:
    """One side of a greeting: takes what came, gives what is to be sent."""

    def __init__(
        self, me: Identity, other: int | None, callers: frozenset[int], ends: bytes
    ) -> None:
        """`other`: whom this side connects to; None where one of the `callers` has connected.

        `ends`: of the connection, the side's that connects first; see `sockets.end_of`.
        """
        self.connects = other is not None
        self.wanted = _HELLO.size  # bytes that the next `take` takes
        self.done = False
        self.failed = ""  # why, where it has
        self.hello: Hello | None = None  # the other side's
        self.session = 0  # that this side has said
        self._me, self._other, self._callers, self._ends = me, other, callers, ends
        self._mine = self._theirs = b""

    def first(self) -> bytes:
        """What the side that connects begins with."""
        assert self._other is not None
        self._mine = self._said(_FINE, self._other)
        return self._mine

    @property
    def is_outdone(self) -> bool:
        """Whether a later host than the one of the two has the device, once all is `done`."""
        me, hello = self._me, self.hello
        assert hello is not None
        if me.devices not in (me.number, hello.number):  # both are devices
            return False
        theirs = (hello.session, hello.host)
        if self.connects:
            return hello.host not in (0, me.host) and theirs > (self.session, me.host)
        return me.host not in (0, hello.host) and theirs < (me.session, me.host)

    def take(self, data: bytes) -> bytes:
        """Take `wanted` bytes; the answer, if there is one. Then look at `done` and `failed`."""
        if self.hello is None:
            return self._take_hello(data)
        return self._take_proof(data)

    def _take_hello(self, data: bytes) -> bytes:
        hello = self.hello = Hello(*_HELLO.unpack(data))
        self._theirs = data
        self.wanted = _PROOF.size
        if hello.magic != _MAGIC:
            self.failed = "gives no greeting: something else speaks there"
            return b""
        if self.connects and hello.status != _FINE:
            self._refused(hello.status)
            return b""
        status = self._status(hello)
        if status != _FINE:
            self.failed = f"has {_REASONS[status]}"
        if self.connects:
            return b"" if self.failed else _PROOF.pack(_FINE, self._proof(True))
        self._mine = self._said(status, hello.number)
        return self._mine

    def _take_proof(self, data: bytes) -> bytes:
        status, proof = _PROOF.unpack(data)
        if self.connects and status != _FINE:
            self._refused(status)
        elif not hmac.compare_digest(proof, self._proof(not self.connects)):
            self.failed = f"has {_REASONS[_OTHER_SECRET]}"
        else:
            self.done = True
        if self.connects:
            return b""
        if self.failed:
            return _PROOF.pack(_OTHER_SECRET, bytes(32))
        return _PROOF.pack(_FINE, self._proof(False))

    def _status(self, hello: Hello) -> int:
        me = self._me
        if hello.version != _VERSION:
            return _OTHER_VERSION
        if hello.split != me.split:
            return _OTHER_SPLIT
        expected = {self._other} if self.connects else self._callers
        if hello.number not in expected or hello.other != me.number:
            return _OTHER_NUMBER
        if hello.in_flight and me.in_flight and hello.in_flight != me.in_flight:
            return _OTHER_IN_FLIGHT
        return _FINE

    def _refused(self, status: int) -> None:
        reason = _REASONS.get(status, "something that it does not like")
        self.failed = f"refuses this side, which has {reason}"

    def _said(self, status: int, other: int) -> bytes:
        me, self.session = self._me, self._me.session
        said = (_MAGIC, _VERSION, status, me.number, other, me.in_flight, me.session, me.host)
        return _HELLO.pack(*said, me.split, os.urandom(28))

    def _proof(self, of_the_one_who_connects: bool) -> bytes:
        role = b"connects" if of_the_one_who_connects else b"listens"
        pair = (self._mine, self._theirs) if self.connects else (self._theirs, self._mine)
        said = b"".join((b"forerun greeting ", role, self._ends, *pair))
        return hmac.new(self._me.secret, said, "sha256").digest()
