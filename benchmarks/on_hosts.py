"""Run a training script as one worker on each of several hosts, for a while.

    python on_hosts.py MAKER WORKERS SHARE SECONDS SCRIPT [ARGUMENTS]

The script is unchanged: it finds RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as any launcher
sets them. What takes long to import is imported once, before the workers are forked. They have
all of the processors until the first of them prints its first epoch; then every host gets its
SHARE, a line says so, and all are ended once SECONDS and enough epochs have passed; the last line
says how many processors the host of this machine, if it is a guest, took away from then on. What
takes far longer hangs, and is ended too.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from importlib import import_module

from hosts import INTERFACE, Hosts, stolen

IMPORTED = ("numpy", "torch._dynamo", "torch.distributed", "torch.multiprocessing")
THROTTLED, STOLEN = "processors throttled", "processors stolen: "
FEWEST = 4  # epochs from there on
HANGS = 120  # seconds beyond SECONDS
PORT = 29500  # in the first host's own namespace, where nobody else is


def main(maker: str, workers: str, share: str, seconds: str, *script: str) -> int:
    """Start the workers, and end them when enough is known."""
    signal.alarm(round(float(seconds)) + HANGS)
    hosts = Hosts(int(maker), int(workers))
    hosts.limit_processors(None)
    for name in IMPORTED:
        import_module(name)
    printed, end = os.pipe()
    pids = [
        hosts.fork(host, partial(work, hosts, host, end, script)) for host in range(hosts.count)
    ]
    os.close(end)
    try:
        return watch(hosts, printed, float(share), float(seconds))
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def work(hosts: Hosts, rank: int, printed: int, script: tuple[str, ...]) -> None:
    """Be one of the workers; what the first one prints is watched."""
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(hosts.count),
        "MASTER_ADDR": hosts.address(0),
        "MASTER_PORT": str(PORT),
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "OMP_NUM_THREADS": "1",
    }
    if rank == 0:
        os.dup2(printed, sys.stdout.fileno())
    os.close(printed)
    sys.argv = list(script)
    runpy.run_path(script[0], run_name="__main__")


def watch(hosts: Hosts, printed: int, share: float, seconds: float) -> int:
    """Pass on what the first worker prints until that is enough; 1 where it ends before."""
    epochs, start, before = 0, 0.0, 0.0
    with os.fdopen(printed) as lines:
        for line in lines:
            print(line, end="", flush=True)
            epochs += line.startswith("epoch ")
            passed = time.monotonic() - start
            if epochs and not start:
                hosts.limit_processors(share)
                print(THROTTLED, flush=True)
                start, before = time.monotonic(), stolen()
            elif epochs > FEWEST and passed > seconds:
                print(f"{STOLEN}{(stolen() - before) / passed:.3f}", flush=True)
                return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
