"""What a device has done since it was ready."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine
    from .network import Network
    from .pace import Pace


class Totals:
    """Counts from when it is made."""

    def __init__(self, engine: Engine, network: Network, pace: Pace) -> None:
        self._engine, self._network, self._pace = engine, network, pace
        self._cpu, self._clock = time.process_time(), time.monotonic()

    def so_far(self) -> dict[str, object]:
        """As JSON holds it; seconds and bytes."""
        engine, program = self._engine, self._engine.schedule.program
        names = {
            peer: "host" if peer == program.devices else str(peer) for peer in self._network.links
        }
        cpu = time.process_time() - self._cpu - self._pace.overhead
        found: dict[str, object] = {
            "device": program.device,
            "samples": engine.finished,
            "abandoned": engine.abandoned,
            "seconds": time.monotonic() - self._clock,
            "computing_seconds": cpu,
            "paced_seconds": cpu / self._pace.speed,
            "waiting_seconds": engine.waiting,
            "idle_seconds": engine.idle,
            "sent_bytes": {
                names[peer]: link.sent_bytes for peer, link in self._network.links.items()
            },
            "sent_messages": {
                names[peer]: link.sent_messages for peer, link in self._network.links.items()
            },
            "received_bytes": {
                names[peer]: link.received_bytes for peer, link in self._network.links.items()
            },
            "broken_connections": self._network.breaks,
            "memory_bytes": peak_memory(),
        }
        if engine.errors is not None:
            found["wire_errors"] = {str(key): value for key, value in engine.errors.items()}
        return found


def peak_memory() -> int:
    """The largest resident memory that this process has had, in bytes; 0 where nobody says."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return 1024 * int(found[1]) if found else 0
