"""All connections of a device, or of the host: made, greeted, waited for, and made again.

One thread does everything, and waits for all connections at once: a device has one weak processor,
and handing messages from thread to thread costs more than reading them. While the device computes,
the kernel's buffers send and receive; they are made large enough for that.

Of two, the one with the larger number connects, so the host connects to every device. Who has
connected but not been greeted yet can make a device keep no more than a greeting, for 5 s; what it
can make the kernel's buffers hold, only the system limits. Where such connections are too many, one
gives way of those from the address that has most: who floods a device keeps out no other address.

Nothing that is said before a greeting is done ends anything: who is refused tells it, and tries
again until its time is over. A host that finds a device taken by another asks for it as a later
one, unless it has had that device itself: then the other came later, and this one ends. So of
several hosts at a time one is left.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from .faults import LinkError, SilenceError
from .greeting import SECONDS, Greeting
from .sockets import end_of, kept_alive, resolved, tuned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .greeting import Hello, Identity
    from .links import Link

_MOST_STRANGERS = 16  # connections that have not been greeted, at a time
_MOST_WAITING = 128  # connections that the kernel has made and we have not looked at
_MOST_LINES = 50  # that those who are not greeted can make us write
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between attempts to connect
_TELL_AFTER = 1.0  # seconds for which a break is not worth a line: at the end everything breaks


class _Meeting:
    """A connection that is being made and greeted."""

    def __init__(
        self, connection: socket.socket, name: str, source: str, link: Link | None = None
    ) -> None:
        """`source`: who has connected, without the port; `link`: where this side connects."""
        self.socket, self.name, self.source, self.link = connection, name, source, link
        self.greeting: Greeting  # as soon as it is connected
        self.until = time.monotonic() + SECONDS
        self.data = b""


class _Down:
    """Since when a link is down, why, and when to connect again."""

    def __init__(self) -> None:
        self.since = self.next_try = time.monotonic()
        self.why = ""
        self.pause = _FIRST_PAUSE
        self.is_met = self.is_told = False


class Network:
    """The links of one side, and all that it waits for."""

    def __init__(
        self,
        me: Identity,
        links: Iterable[Link],
        timeout: float,
        opened: Callable[[Link], None],
        tell: Callable[[str], None],
        start_within: float | None = None,
    ) -> None:
        """`opened` is called with each link that is open again; `tell` with lines for people.

        A link may be down for `timeout` seconds; before the first host has come for `start_within`,
        where that is said: nothing is lost as long as nobody asks.
        """
        self.me, self.timeout, self.breaks = me, timeout, 0
        self._start_within = start_within
        self.links = {link.peer: link for link in links}
        self._opened, self._tell = opened, tell
        self._callers = frozenset(link.peer for link in self.links.values() if link.address is None)
        self._down = {link: _Down() for link in self.links.values()}
        self._been_open: set[Link] = set()
        self._places: dict[Link, tuple[int, Any]] = {}  # of their addresses, once they are found
        self._poller = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._meetings: list[_Meeting] = []
        self._listening: socket.socket | None = None
        self._told: set[tuple[str, int, str]] = set()  # of whom, its number, and why
        self._largest = max((link.memory.nbytes for link in self.links.values()), default=0)
        for link in self.links.values():
            link.broke = self._broke

    def listen(self, listening: socket.socket) -> None:
        """Take connections from a bound socket."""
        tuned(listening, self._largest)
        listening.setblocking(False)
        listening.listen(_MOST_WAITING)
        self._listening = listening
        self.watch(listening.fileno(), self._accept)

    def watch(self, descriptor: int, handler: Callable[[int], None]) -> None:
        """Call a handler whenever there is something to read."""
        self._poller.register(descriptor, select.EPOLLIN)
        self._handlers[descriptor] = handler

    def wait(self, seconds: float | None = None) -> list[tuple[int, int]]:
        """Wait for something to do, so many seconds at most; hand it to `handle`."""
        if self._down or self._meetings:
            due = self._due()
            seconds = due if seconds is None else min(due, seconds)
        return self._poller.poll(seconds)

    def handle(self, events: list[tuple[int, int]]) -> None:
        """Send and receive what can be, greet, and connect again."""
        for descriptor, event in events:
            handler = self._handlers.get(descriptor)
            if handler is not None:
                handler(event)
        if self._down or self._meetings:
            self._tend()

    def missing(self) -> list[Link]:
        """The links that are down."""
        return [*self._down]

    def down_for(self, link: Link) -> float:
        """For how many seconds a link has been down."""
        down = self._down.get(link)
        return 0.0 if down is None else time.monotonic() - down.since

    def why(self, link: Link) -> str:
        """Why a link is down, as far as is known."""
        down = self._down.get(link)
        return down.why if down is not None else ""

    def finish(self, seconds: float) -> None:
        """Send what is queued, for so many seconds at most, and close everything."""
        until = time.monotonic() + seconds
        links = [link for link in self.links.values() if link.is_open]
        while any(link.is_sending for link in links) and time.monotonic() < until:
            self._poller.poll(0.01)
            for link in links:
                link.flush()
        for link in links:
            link.close()
        for meeting in self._meetings:
            meeting.socket.close()
        if self._listening is not None:
            self._listening.close()
        self._poller.close()

    def _due(self) -> float:
        """Seconds until something is to be done that nobody wakes us for."""
        now, limit = time.monotonic(), self._limit()
        times = [meeting.until for meeting in self._meetings]
        for link, down in self._down.items():
            times.append(down.since + limit)
            if link.address is not None and not down.is_met:
                times.append(down.next_try)
        return min(max(0.0, min(times) - now), 1.0)

    def _limit(self) -> float:
        """The seconds for which a link may be down."""
        return self.timeout if self._start_within is None else self._start_within

    def _tend(self) -> None:
        now, limit = time.monotonic(), self._limit()
        for meeting in [one for one in self._meetings if one.until <= now]:
            self._fail(meeting, f"no greeting within {SECONDS:g} s")
        for link, down in [*self._down.items()]:
            if now - down.since > limit:
                why = f": {down.why}" if down.why else ""
                raise SilenceError(link.peer, f"{link.name} has not answered for {limit:g} s{why}")
            if not down.is_told and link in self._been_open and now - down.since > _TELL_AFTER:
                down.is_told = True
                self._tell(f"{link.name}: the connection broke ({down.why}); waiting for it")
            if link.address is not None and not down.is_met and down.next_try <= now:
                self._connect(link, link.address, down, now)

    def _connect(self, link: Link, address: tuple[str, int], down: _Down, now: float) -> None:
        down.next_try = now + down.pause
        down.pause = min(2 * down.pause, _LONGEST_PAUSE)
        try:
            # Kept once it is found: asking takes long, and this thread has all else to do.
            if link not in self._places:
                self._places[link] = resolved(address)
            family, place = self._places[link]
            connection = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            down.why = error.strerror or str(error)
            return
        tuned(connection, self._largest)
        connection.setblocking(False)
        code = connection.connect_ex(place)
        if code not in (0, errno.EINPROGRESS):
            down.why = os.strerror(code)
            connection.close()
            return
        down.is_met = True
        meeting = _Meeting(connection, link.name, link.name, link)
        self._meet(meeting, select.EPOLLOUT, self._connected)

    def _connected(self, meeting: _Meeting, _event: int) -> None:
        connection, link = meeting.socket, meeting.link
        assert link is not None
        try:
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            ends = end_of(connection.getsockname()) + end_of(connection.getpeername())
            meeting.greeting = Greeting(self.me, link.peer, frozenset(), ends)
            self._poller.modify(connection.fileno(), select.EPOLLIN)
            self._handlers[connection.fileno()] = partial(self._greet, meeting)
            connection.send(meeting.greeting.first())
        except OSError as error:
            self._fail(meeting, error.strerror or str(error))

    def _accept(self, _event: int) -> None:
        """Look at all who have come: an honest one may be behind many others."""
        assert self._listening is not None
        for _ in range(_MOST_WAITING):
            try:
                connection, place = self._listening.accept()
            except BlockingIOError:
                return
            except OSError:  # it has gone again
                continue
            connection.setblocking(False)
            self._make_room()
            meeting = _Meeting(connection, f"{place[0]} port {place[1]}", place[0])
            ends = end_of(place) + end_of(connection.getsockname())
            meeting.greeting = Greeting(self.me, None, self._callers, ends)
            self._meet(meeting, select.EPOLLIN, self._greet)

    def _make_room(self) -> None:
        """Where strangers are too many, the oldest goes of those whose address has most."""
        strangers = [one for one in self._meetings if one.link is None]
        if len(strangers) >= _MOST_STRANGERS:
            counts = Counter(one.source for one in strangers)
            one_of_most = max(strangers, key=lambda one: counts[one.source])
            self._fail(one_of_most, "too many connections at once")

    def _meet(
        self, meeting: _Meeting, events: int, handler: Callable[[_Meeting, int], None]
    ) -> None:
        self._meetings.append(meeting)
        descriptor = meeting.socket.fileno()
        self._poller.register(descriptor, events)
        self._handlers[descriptor] = partial(handler, meeting)

    def _greet(self, meeting: _Meeting, _event: int) -> None:
        greeting, connection = meeting.greeting, meeting.socket
        try:
            data = connection.recv(greeting.wanted - len(meeting.data))
            if not data:
                self._fail(meeting, "it closed the connection during the greeting")
                return
            meeting.data += data
            if len(meeting.data) == greeting.wanted:
                answer = greeting.take(meeting.data)
                meeting.data = b""
                if answer:
                    connection.send(answer)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(meeting, error.strerror or str(error))
            return
        if greeting.failed:
            self._refuse(meeting)
        elif greeting.done and greeting.is_outdone:
            self._part(meeting)
        elif greeting.done:
            self._welcome(meeting)

    def _refuse(self, meeting: _Meeting) -> None:
        failed, hello = meeting.greeting.failed, meeting.greeting.hello
        assert hello is not None
        self._fail(meeting, f"it {failed}")
        if meeting.link is not None:
            line = f"{meeting.name} {failed}; trying again"
        else:
            said = f"{meeting.name}, which says it is {self._name(hello.number)},"
            line = f"{said} {failed}; its connection was closed"
        self._tell_once((meeting.source, hello.number, failed), line)

    def _part(self, meeting: _Meeting) -> None:
        """Another host has the device: one that is new there outdoes it, any other has lost it."""
        link, hello = meeting.link, meeting.greeting.hello
        assert hello is not None
        self._fail(meeting, "another host has it")
        if link is None:  # the device is this side: the other one knows now
            return
        self._down[link].next_try = time.monotonic()
        if (hello.session, hello.host) < (self.me.session, self.me.host):
            return  # it has been outdone by now
        if link in self._been_open:
            told = f"{link.name}: another host came later and has taken the devices"
            raise LinkError(link.peer, told)
        self.me.outdo(hello.session)

    def _name(self, number: int) -> str:
        return "the host" if number == self.me.devices else f"device {number}"

    def _tell_once(self, what: tuple[str, int, str], line: str) -> None:
        if what in self._told or len(self._told) >= _MOST_LINES:
            return
        self._told.add(what)
        self._tell(line)
        if len(self._told) == _MOST_LINES:
            self._tell("further connections that are refused are not told of")

    def _fail(self, meeting: _Meeting, why: str) -> None:
        self._forget(meeting)
        meeting.socket.close()
        if meeting.link is not None and meeting.link in self._down:
            down = self._down[meeting.link]
            down.why, down.is_met = why, False

    def _forget(self, meeting: _Meeting) -> None:
        self._meetings.remove(meeting)
        descriptor = meeting.socket.fileno()
        del self._handlers[descriptor]
        with suppress(OSError):
            self._poller.unregister(descriptor)

    def _welcome(self, meeting: _Meeting) -> None:
        """The other side is who it says: its connection replaces the one that there was."""
        hello = meeting.greeting.hello
        assert hello is not None
        self._forget(meeting)
        link = self.links[hello.number]
        if link.is_open:
            self._handlers.pop(link.fileno(), None)
        link.session, link.in_flight = hello.session, hello.in_flight
        link.said = meeting.greeting.session
        if link.peer == self.me.devices:
            self._host_came(hello)
        kept_alive(meeting.socket, self.timeout)
        link.open(meeting.socket, self._poller)
        self._handlers[link.fileno()] = partial(_serve, link)
        self._down.pop(link, None)
        self._been_open.add(link)
        self._opened(link)

    def _host_came(self, hello: Hello) -> None:
        """Remember which host has the device. Who is missing when the first comes has time anew."""
        self.me.session, self.me.host = max(self.me.session, hello.session), hello.host
        if self._start_within is not None:
            self._start_within = None
            for down in self._down.values():
                down.since = time.monotonic()

    def _broke(self, link: Link, why: str) -> None:
        self._handlers.pop(link.fileno(), None)
        link.close()
        self.breaks += 1
        down = self._down[link] = _Down()
        down.why = why


def _serve(link: Link, event: int) -> None:
    if event & select.EPOLLOUT:
        link.flush()
    if event & ~select.EPOLLOUT:
        link.receive()
