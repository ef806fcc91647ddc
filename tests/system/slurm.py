"""A Slurm cluster on this machine: real daemons, on ports and in a folder of their own.

    with cluster({"n": Nodes(4, cpus=64)}, {"standard": Partition()}) as made:
        made.run("sbatch", "--wait", "job.sh")

Nodes may have more processors than the machine (Slurm only counts them), and their GPUs are files
that Slurm never opens. Jobs are real: they run on this machine, as whoever submits them.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo", "scontrol")
PATIENCE = 300.0  # seconds for what takes far less, unless the machine stands still
ENDING = 10.0  # seconds for a daemon to end by itself
PR_SET_PDEATHSIG = 1

CONFIG = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
EnforcePartLimits=ALL
SlurmdTimeout=30
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/linux
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.txt
GresTypes=gpu
"""


@dataclass(frozen=True)
class Nodes:
    """Nodes of one kind."""

    count: int = 4
    cpus: int = 2
    memory: int = 4000  # MiB
    gpus: int = 0
    model: str = ""  # of the GPUs
    features: Sequence[str] = ()

    @property
    def gres(self) -> str:
        return ":".join(filter(None, ("gpu", self.model, str(self.gpus)))) if self.gpus else ""


@dataclass(frozen=True)
class Partition:
    """What jobs are sent to: kinds of nodes by the first letters of their names; all, if none."""

    kinds: Sequence[str] = ()
    walltime: str = "01:00:00"
    most_nodes: str = "UNLIMITED"
    default: bool = False


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs: what a program needs to know to use it."""

    folder: Path
    nodes: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, repr=False)

    def run(self, *words: str, timeout: float = PATIENCE) -> str:
        """What a program prints that uses this cluster; an error where it fails."""
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=timeout
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    def lose(self, node: str) -> None:
        """Let a node vanish, as without power: its daemon and all that runs there, at once."""
        self.daemons[f"slurmd-{node}"].kill()
        marks = (
            f"SLURM_CONF={self.folder}/slurm.conf".encode(),
            f"SLURMD_NODENAME={node}".encode(),
        )
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if set(marks) <= set((process / "environ").read_bytes().split(b"\0")):
                    _kill_with_step(process)


def why_not() -> str:
    """Why this machine can have no such cluster; empty where it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        installs = "on Debian, `make system` as root installs it"
        return f"{missing[0]} of Slurm is not on this machine: {installs}"
    return "" if os.geteuid() == 0 else "starting Slurm's daemons takes root"


@contextmanager
def cluster(
    nodes: Mapping[str, Nodes],
    partitions: Mapping[str, Partition],
    name: str = "test",
    settings: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """A cluster all of whose nodes are idle; it ends with the block, or with this process.

    `nodes` are by the first letters of their names, `partitions` by their names; `settings` are
    lines of slurm.conf besides those of CONFIG, or instead of them.
    """
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        folder.chmod(0o755)  # everybody who submits jobs speaks to munged through a socket in it
        (folder / "state").mkdir()
        names = _configure(folder, nodes, partitions, name, settings or {})
        made = Cluster(folder, names, {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")})
        running.enter_context(_daemon(made, "munged", "munged", "--foreground", *_munge(folder)))
        _wait("munged's socket", made, (folder / "munge.socket").exists)  # or slurmd would hang
        running.enter_context(_daemon(made, "slurmctld", "slurmctld", "-D"))
        for node in names:
            running.enter_context(_daemon(made, f"slurmd-{node}", "slurmd", "-D", "-N", node))
        _wait("idle nodes", made, lambda: _idle(made) == len(names))
        running.callback(_cancel_all, made)
        yield made


def _munge(folder: Path) -> list[str]:
    """The options of munged, with a key of its own."""
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    files = ("socket", "key-file", "pid-file", "log-file", "seed-file")
    return [f"--{name}={folder}/munge.{name.removesuffix('-file')}" for name in files]


def _configure(
    folder: Path,
    nodes: Mapping[str, Nodes],
    partitions: Mapping[str, Partition],
    name: str,
    settings: Mapping[str, str],
) -> tuple[str, ...]:
    """Write what Slurm reads; the names of all nodes."""
    host = socket.gethostname().partition(".")[0]
    ports = iter(free_ports(1 + sum(kind.count for kind in nodes.values())))
    kept = [line for line in CONFIG.splitlines(True) if line.partition("=")[0] not in settings]
    config = "".join([*kept, *(f"{key}={value}\n" for key, value in settings.items())])
    lines = [config.format(name=name, host=host, port=next(ports), folder=folder)]
    devices = []
    by_kind = {
        prefix: [f"{prefix}{number}" for number in range(1, kind.count + 1)]
        for prefix, kind in nodes.items()
    }
    for prefix, kind in nodes.items():
        more = f" Gres={kind.gres}" if kind.gpus else ""
        more += f" Feature={','.join(kind.features)}" if kind.features else ""
        for node in by_kind[prefix]:
            lines.append(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={next(ports)} "
                f"CPUs={kind.cpus} RealMemory={kind.memory}{more} State=UNKNOWN\n"
            )
            if kind.gpus:  # without a file the node would be invalid
                model = f" Type={kind.model}" if kind.model else ""
                files = f"/dev/tty[0-{kind.gpus - 1}]" if kind.gpus > 1 else "/dev/tty0"
                devices.append(f"NodeName={node} Name=gpu{model} File={files}\n")
    for partition, one in partitions.items():
        among = ",".join(node for kind in one.kinds or nodes for node in by_kind[kind])
        lines.append(
            f"PartitionName={partition} Nodes={among} Default={'YES' if one.default else 'NO'} "
            f"MaxTime={one.walltime} MaxNodes={one.most_nodes} State=UP\n"
        )
    (folder / "slurm.conf").write_text("".join(lines))
    (folder / "gres.conf").write_text("".join(devices))
    return tuple(node for names in by_kind.values() for node in names)


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now, and that nobody gets who does not ask for them by number."""
    drawn = random.SystemRandom()
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            port = drawn.randrange(10_000, 15_000)  # above that jobs have theirs, then the kernel
            one = held.enter_context(socket.socket())
            with suppress(OSError):
                one.bind(("", port))
                found.append(port)
    return found


@contextmanager
def _daemon(made: Cluster, name: str, *words: str) -> Iterator[None]:
    """A daemon that runs in this block, and no longer than this process."""
    with (made.folder / f"{name}.out").open("wb") as output:
        running = subprocess.Popen(
            words,
            env=made.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_end_with_parent,
        )
    made.daemons[name] = running
    try:
        yield
    finally:
        running.terminate()
        try:
            running.wait(ENDING)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _kill_with_step(process: Path) -> None:
    """Kill a process of a job, but before it what would tell of its end."""
    parent = Path("/proc", (process / "stat").read_text().rpartition(")")[2].split()[1])
    if (parent / "comm").read_text().strip() == "slurmstepd":
        os.kill(int(parent.name), signal.SIGKILL)
    os.kill(int(process.name), signal.SIGKILL)


def _idle(made: Cluster) -> int:
    """How many nodes are ready for jobs."""
    try:
        states = made.run("sinfo", "--noheader", "--Node", "--format=%N %T", timeout=10.0)
    except (RuntimeError, subprocess.TimeoutExpired):
        return 0  # the controller does not answer yet
    return len({line.split()[0] for line in states.splitlines() if line.endswith(" idle")})


def _cancel_all(made: Cluster) -> None:
    """End all jobs: their processes would outlive the daemons."""

    def jobs() -> list[str]:
        return made.run("squeue", "--noheader", "--format=%A").split()

    if left := jobs():
        made.run("scancel", *left)
        _wait("an empty queue", made, lambda: not jobs())


def _wait(what: str, made: Cluster, done: Callable[[], bool]) -> None:
    """Return once it is done; after too long, an error with what the daemons last said."""
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            said = (path.read_text(errors="replace")[-500:] for path in made.folder.glob("*.out"))
            raise RuntimeError(f"Slurm: no {what} within {PATIENCE:.0f} s\n" + "\n".join(said))
        time.sleep(0.1)
