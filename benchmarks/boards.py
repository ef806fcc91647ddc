"""Weak boards on a slow network, on this machine: what the figures of split networks stand on.

A board is a network namespace with a link that a token bucket of 5 kB limits both ways, and a
memory group. How fast it computes is not the machine's to say: a quota lets a process that has
waited catch up. So the device's own process paces itself (`--speed`): work of c seconds of
processor ends no earlier than c / speed after it began. The program that asks has a place of its
own in the same network, with a link that is not limited.

The boards share one processor: four of 0.1 core leave it idle most of the time. Their switch and
the links have another, so that no device is charged for their work. That one also takes what
arrives for a board, as far as the kernel does before the program reads it: on a guest such as this
an interrupt costs whoever computes just then about 30 µs, and a board would be charged for those of
the others too. So a board is charged nothing for a frame's way through the kernel, about 2 µs on a
processor of its own, a tenth of a millisecond of processor for 64 kB.

Time can be dilated: a board of 0.1 core on 100 Mbit/s behaves as one of speed 0.35 on 350 Mbit/s
does, 3.5 times slower throughout. Where a machine holds such links within 5 %, DILATION saves time;
this one, a guest, does not (a timer costs it too much), so boards run as they are quoted. For the
same reason frames are larger than Ethernet's: with 1500 bytes four boards that all send and receive
were 4 to 7 % too slow, with 4000 bytes within 1 %.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hosts import (
    CLONE_NEWNET,
    INTERFACE,
    MEMORY,
    MTU,
    NAMESPACES,
    NETWORK,
    Hosts,
    bucket,
    hosts,
    inside,
    run,
)
from processors import awake, divided, only_on, short_turns

CORE, MEGABITS = 0.1, 100.0  # of a board, as it is quoted
DILATION = 1.0
SPEED, RATE = CORE * DILATION, MEGABITS * DILATION  # of a board, as it runs here
LATE = 1.0  # processors that are kept awake are never late
CONGESTION = "cubic"  # what Linux takes where nobody said otherwise, as on a board
STARTING = 60.0  # seconds for a device to be ready
ENDING = 20.0  # seconds for a device that was asked to end
STEP = 0.02  # seconds between two rates of a link that swings
# The process joins its memory group, then becomes the program: nothing of it is counted elsewhere.
JOIN = 'echo $$ >"$0" && exec "$@"'


@dataclass(frozen=True)
class Boards:
    """Boards with the same link, and a place for the program that asks them."""

    hosts: Hosts  # the last one is the asking program's
    own: frozenset[int]  # processors that the boards compute on
    network: frozenset[int]  # those of their switch, and of the program that asks

    @property
    def count(self) -> int:
        """The boards alone."""
        return self.hosts.count - 1

    @property
    def alone(self) -> Hosts:
        """The boards without the asking program's place."""
        return Hosts(self.hosts.maker, self.count, self.hosts.late)

    def address(self, board: int) -> str:
        """Of a board; the number after the last one's is the asking program's."""
        return self.hosts.address(board)

    def prepare(self) -> None:
        """A memory group for each board, an ordinary choice of how TCP behaves, and its link."""
        for board in range(self.hosts.count):
            name = self.hosts.name(board)
            (MEMORY / name).mkdir()
            # By the route: a namespace may not choose what the machine has not allowed to all.
            route = (NETWORK, "dev", INTERFACE, "src", self.address(board))
            inside(name, "ip", "route", "replace", *route, "congctl", CONGESTION)
        for board in range(self.count):
            self._link(board)

    def _link(self, board: int) -> None:
        """Let both ends of a board's link be in the switch, on the network's processors.

        What a board sends costs its own processor what TCP does, as with a network card that cuts
        frames itself; the work of link and switch would be charged to whichever device happens to
        compute. What comes, the board's program reads. Acknowledgements go past what a board has
        waiting: a card's queue holds little, since the kernel waits with more.
        """
        switch, port, up, down = (
            self.hosts.name("switch"),
            *(f"{name}{board}" for name in ("port", "up", "down")),
        )
        mtu = ("mtu", str(MTU))
        inside(switch, "ip", "link", "add", up, *mtu, "type", "veth", "peer", down, *mtu)
        inside(switch, "ip", "link", "set", up, "up")
        inside(switch, "ip", "link", "set", down, "master", "bridge", "up")
        inside(switch, "bridge", "link", "set", "dev", down, "learning", "off", "flood", "off")
        inside(switch, "tc", "qdisc", "add", "dev", port, "ingress")
        rule = ("tc", "filter", "add", "dev", port, "parent", "ffff:", "protocol", "ip")
        short = ("match", "u16", "0", "0xff80", "at", "2")  # packets of less than 128 bytes
        every = ("match", "u32", "0", "0")
        redirect = ("action", "mirred", "egress", "redirect", "dev", up)
        inside(switch, *rule, "prio", "1", "u32", *short, "flowid", "1:1")
        inside(switch, *rule, "prio", "2", "u32", *every, *redirect)
        for namespace, device in (
            (switch, port),
            (switch, down),
            (self.hosts.name(board), INTERFACE),
        ):
            receive_on(namespace, device, self.network)

    def _ends(self) -> list[str]:
        """The devices of the switch by which boards send, and by which they receive."""
        return [f"{name}{board}" for board in range(self.count) for name in ("up", "port")]

    def limit_links(self, megabits: float) -> None:
        """Let every board send and receive so many megabits of payload a second."""
        for device in self._ends():
            limit = bucket(device, megabits, self.hosts.late)
            inside(self.hosts.name("switch"), "tc", "qdisc", "replace", *limit)

    def limit_memory(self, limit: int | None) -> None:
        """Let the processes of each board have so many bytes; None: as many as there are."""
        for board in range(self.count):
            group = MEMORY / self.hosts.name(board)
            files = [group / "memory.limit_in_bytes", group / "memory.memsw.limit_in_bytes"]
            # Memory with swap may never be less than memory alone: widen from the last one.
            for file in files if limit is not None else reversed(files):
                if file.exists():
                    file.write_text(str(-1 if limit is None else limit))

    def killed_for_memory(self, board: int) -> int:
        """How many processes of a board were killed for want of memory."""
        told = (MEMORY / self.hosts.name(board) / "memory.oom_control").read_text()
        return int(dict(line.split() for line in told.splitlines()).get("oom_kill", "0"))

    @contextmanager
    def losing(self, share: float) -> Iterator[None]:
        """Meanwhile lose this share of the frames that come to each board, at random."""
        rule = ("-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP")
        for board in range(self.count):
            inside(self.hosts.name(board), "iptables", "-A", "INPUT", *rule)
        try:
            yield
        finally:
            for board in range(self.count):
                inside(self.hosts.name(board), "iptables", "-D", "INPUT", *rule)

    @contextmanager
    def swinging(self, rate: Callable[[float], float]) -> Iterator[None]:
        """Meanwhile the links' megabits a second are what `rate` says after so many seconds."""
        ended = threading.Event()
        # One `tc` that waits for changes: one for each would take the boards' processors.
        switch = NAMESPACES / self.hosts.name("switch")
        words = ["nsenter", f"--net={switch}", "tc", "-force", "-batch", "-"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, text=True) as program:
            swing = threading.Thread(target=self._swing, args=(rate, program, ended))
            swing.start()
            try:
                yield
            finally:
                ended.set()
                swing.join()

    def _swing(
        self, rate: Callable[[float], float], program: subprocess.Popen[str], ended: threading.Event
    ) -> None:
        assert program.stdin is not None
        start = time.monotonic()
        while not ended.wait(STEP):
            megabits = rate(time.monotonic() - start)
            for device in self._ends():
                words = bucket(device, megabits, self.hosts.late)
                program.stdin.write(f"qdisc change {' '.join(words)}\n")
            program.stdin.flush()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Meanwhile this thread, and those that it starts, make their sockets in that network."""
        asker = NAMESPACES / self.hosts.name(self.count)
        with Path("/proc/thread-self/ns/net").open() as before, asker.open() as network:
            enter(network)
            try:
                yield
            finally:
                enter(before)

    def start(self, board: int, words: Sequence[str], errors: Path) -> subprocess.Popen[str]:
        """Start a program on a board, which dies with this one; its complaints go to a file."""
        name = self.hosts.name(board)
        group = MEMORY / name / "cgroup.procs"
        pinned = ("taskset", "-c", ",".join(map(str, sorted(self.own))))
        there = ("setpriv", "--pdeathsig", "KILL", "nsenter", f"--net={NAMESPACES / name}", *pinned)
        with errors.open("w") as complaints:
            return subprocess.Popen(
                ["sh", "-c", JOIN, str(group), *there, *words],
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )


@contextmanager
def boards(count: int) -> Iterator[Boards]:
    """Boards that are gone afterwards, with whatever runs on them."""
    own, network = divided()
    with awake(), short_turns(), only_on(network), hosts(count + 1, LATE) as made:
        found = Boards(made, own, network)
        found.prepare()
        yield found


def receive_on(namespace: str, device: str, processors: Collection[int]) -> None:
    """Let what comes to a network device be taken by these processors."""
    mask = sum(1 << one for one in processors)
    path = f"/sys/class/net/{device}/queues/rx-0/rps_cpus"
    # `ip netns exec` shows the namespace's own devices there.
    run("ip", "netns", "exec", namespace, "sh", "-c", f"echo {mask:x} >{path}")


def enter(network: IO[str]) -> None:
    """Let this thread be in a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(network.fileno(), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "network namespace cannot be entered", network.name)


def triangle(low: float, high: float, period: float) -> Callable[[float], float]:
    """A rate that goes from `high` down to `low` and back in each `period`, in straight lines."""

    def rate(seconds: float) -> float:
        phase = seconds % period / period
        return low + (high - low) * abs(1 - 2 * phase)

    return rate


def next_line(program: subprocess.Popen[str], seconds: float) -> dict[str, object] | None:
    """The next line that a program prints, which is JSON; None where none comes or it has ended."""
    assert program.stdout is not None
    readable, _, _ = select.select([program.stdout], [], [], seconds)
    line = program.stdout.readline() if readable else ""
    found: dict[str, object] | None = json.loads(line) if line else None
    return found


def end(program: subprocess.Popen[str]) -> None:
    """Ask a program to end, and make it end if it does not."""
    if program.poll() is None:
        program.send_signal(signal.SIGTERM)
    try:
        program.wait(ENDING)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
