"""Small hosts on this machine: each has a network namespace, a slow link, a share of a processor.

A switch (a bridge in a namespace of its own) joins them, so that no interface or address outside
these namespaces is touched. Links are limited both ways by token buckets that hold 5 kB. Shares
are quotas of control groups (version 1) in periods of 20 ms: such a host is real enough to be
modelled, but it catches up after it has waited, so its speed is not to be quoted for a slow one's.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PREFIX = "forerun-"  # of the names, then the process that made them: forerun-4711-0
NAMESPACES = Path("/run/netns")
GROUPS = Path("/sys/fs/cgroup/cpu")
MEMORY = Path("/sys/fs/cgroup/memory")  # groups of boards only: see boards.py
PERIOD = 20_000  # µs
INTERFACE = "eth0"
NETWORK = "10.77.0.0/24"
BURST = "5kb"
LATENCY = "100ms"  # for which a bucket keeps frames waiting before it drops some,
WINDOW = 250_000  # bytes that a connection may send ahead: too few for that
# Larger frames than usual: eight hosts that all send leave two processors time to compute.
MTU = 4000
LATE = 1.015  # of a link's rate: so small a bucket loses tokens whenever it is woken late
PATIENCE = 10.0  # seconds for processes that were ended to be gone
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Hosts:
    """Hosts with the same link rate and the same share of a processor, both of which may change."""

    maker: int  # the process that made them
    count: int
    late: float = LATE

    def name(self, host: int | str) -> str:
        """The name of a host's namespace and control group."""
        return f"{PREFIX}{self.maker}-{host}"

    def address(self, host: int) -> str:
        """Of a host on the network that they share."""
        return f"10.77.0.{host + 1}"

    def make(self) -> None:
        """Make the switch and the hosts, with links and shares that are not limited yet."""
        switch = self.name("switch")
        run("ip", "netns", "add", switch)
        inside(switch, "ip", "link", "add", "bridge", "type", "bridge")
        inside(switch, "ip", "link", "set", "bridge", "up")
        for host in range(self.count):
            namespace, port = self.name(host), f"port{host}"
            run("ip", "netns", "add", namespace)
            (GROUPS / namespace).mkdir()
            (GROUPS / namespace / "cpu.cfs_period_us").write_text(str(PERIOD))
            mtu = ("mtu", str(MTU))
            pair = ("type", "veth", "peer", "name", INTERFACE, *mtu, "netns", namespace)
            inside(switch, "ip", "link", "add", port, *mtu, *pair)
            inside(switch, "ip", "link", "set", port, "master", "bridge", "up")
            inside(namespace, "ip", "link", "set", "lo", "up")
            inside(namespace, "ip", "address", "add", f"{self.address(host)}/24", "dev", INTERFACE)
            inside(namespace, "ip", "link", "set", INTERFACE, "up")
            inside(namespace, "sysctl", "-w", f"net.ipv4.tcp_wmem=4096 65536 {WINDOW}")

    def limit_links(self, megabits: float) -> None:
        """Let every host send and receive so many megabits of payload a second."""
        for host in range(self.count):
            for namespace, device in (
                (self.name(host), INTERFACE),
                (self.name("switch"), f"port{host}"),
            ):
                limit = bucket(device, megabits, self.late)
                inside(namespace, "tc", "qdisc", "replace", *limit)

    def limit_processors(self, share: float | None) -> None:
        """Give every host this share of one processor; None: as much as there is."""
        quota = -1 if share is None else round(share * PERIOD)
        for host in range(self.count):
            (GROUPS / self.name(host) / "cpu.cfs_quota_us").write_text(str(quota))

    def fork(self, host: int, work: Callable[[], object]) -> int:
        """Do this work in a process of its own on a host, which ends with this one; its pid."""
        parent = os.getpid()
        if pid := os.fork():
            return pid
        code = 1
        try:
            libc = ctypes.CDLL(None)
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            (GROUPS / self.name(host) / "cgroup.procs").write_text(str(os.getpid()))
            with (NAMESPACES / self.name(host)).open() as namespace:
                entered = libc.setns(namespace.fileno(), CLONE_NEWNET) == 0
            if entered and os.getppid() == parent:
                work()
                code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)


def bucket(device: str, megabits: float, late: float) -> tuple[str, ...]:
    """What `tc` is told to let so many megabits of payload a second out of a device.

    The rate is that of what programs send: with the payload of a frame go 66 bytes of headers, and
    as many of an acknowledgement with every other frame that comes the other way. `late` makes up
    for tokens that are lost, by calibration.
    """
    payload = MTU - 52
    bits = round(megabits * 1e6 * late * (payload + 66 + 33) / payload)
    limit = ("rate", f"{bits}bit", "burst", BURST, "latency", LATENCY)
    return ("dev", device, "root", "tbf", *limit)


@contextmanager
def hosts(count: int, late: float = LATE) -> Iterator[Hosts]:
    """Hosts that are gone afterwards; those that an earlier process left behind go first."""
    remove_left_behind()
    made = Hosts(os.getpid(), count, late)
    try:
        made.make()
        yield made
    finally:
        remove(f"{PREFIX}{os.getpid()}-")


def remove_left_behind() -> None:
    """Remove the hosts whose makers are gone, however they ended."""
    places = (NAMESPACES, GROUPS, MEMORY)
    found = {path.name for place in places for path in place.glob(f"{PREFIX}*")}
    for name in found:
        maker = re.match(rf"{PREFIX}(\d+)-", name)
        if maker and not Path("/proc", maker[1]).exists():
            remove(maker[0])


def remove(prefix: str) -> None:
    """End what runs on the hosts with this prefix, and remove them."""
    for group in (group for place in (GROUPS, MEMORY) for group in place.glob(f"{prefix}*")):
        limit = time.monotonic() + PATIENCE
        while not removed(group):
            if time.monotonic() > limit:
                raise RuntimeError(f"{group}: its processes do not end")
            time.sleep(0.01)
    for namespace in NAMESPACES.glob(f"{prefix}*"):
        run("ip", "netns", "delete", namespace.name)


def removed(group: Path) -> bool:
    """End the processes of a control group and remove it; False while they are busy leaving."""
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def stolen() -> float:
    """Seconds of processors that were others' since the start, where this machine is a guest."""
    ticks = Path("/proc/stat").read_text().split()[8]
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def run(*words: str) -> None:
    """Run a command; what it complains of becomes the error."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


def inside(namespace: str, *words: str) -> None:
    """Run a command in a network namespace."""
    run("nsenter", f"--net={NAMESPACES / namespace}", *words)
