"""Small hosts in network namespaces: slow links between them, and nothing left behind."""

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import hosts as places
import pytest
from calibrate_hosts import compute, exchange, on_all
from hosts import GROUPS, NAMESPACES, PREFIX, hosts
from patience import LONG

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0
    or not (GROUPS / "cpu.cfs_quota_us").exists()
    or not all(map(shutil.which, ("ip", "tc", "nsenter", "sysctl"))),
    reason="hosts need root, iproute2, nsenter and control groups of version 1",
)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that were ended may take long to be gone."""
    monkeypatch.setattr("hosts.PATIENCE", LONG)


def left(maker: int) -> list[str]:
    found = f"{PREFIX}{maker}-*"
    return sorted(path.name for place in (NAMESPACES, GROUPS) for path in place.glob(found))


def test_a_link_passes_what_it_may() -> None:
    with hosts(2) as made:
        made.limit_links(40)
        # So many that what had come before the clock was started is little of them.
        found = on_all(made, partial(exchange, made, 64_000, 250))
    assert min(found) > 0.9 * 64_000 * 8 / 40e6  # it may be slower on a busy machine, never faster


def test_a_host_computes_with_its_share() -> None:
    with hosts(1) as made:
        made.limit_processors(0.2)
        (found,) = on_all(made, lambda _: compute(0.1))
    assert found > 0.8 * 0.1 / 0.2


def test_hosts_are_gone_afterwards() -> None:
    began, begin = os.pipe()

    def work() -> None:
        os.write(begin, b"!")
        signal.pause()

    with hosts(2) as made:
        made.fork(0, work)
        os.read(began, 1)
        assert len(left(os.getpid())) == 5  # two control groups, and a switch
    assert left(os.getpid()) == []
    _, status = os.wait()
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def test_what_a_killed_process_made_goes_with_the_next_start() -> None:
    source = "import hosts, os; h = hosts.hosts(2); h.__enter__(); os.kill(os.getpid(), 9)"
    folder = Path(places.__file__).parent
    killed = subprocess.Popen([sys.executable, "-c", source], cwd=folder)
    assert killed.wait() == -signal.SIGKILL
    assert len(left(killed.pid)) == 5
    with hosts(1):
        assert left(killed.pid) == []
