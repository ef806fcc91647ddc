"""Find out what this machine is, or what a Slurm cluster says of itself."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from forerun.errors import InputError
from forerun.infrastructure.description import (
    Accelerators,
    Container,
    Infrastructure,
    Limits,
    Partition,
    Processors,
    Scheduler,
)

ASK = 30.0  # seconds that a program may take to answer
MIB = 2**20
GROUPS = Path("/sys/fs/cgroup")
_VERSION_1, _VERSION_2 = "memory.limit_in_bytes", "memory.max"  # files of control groups
# What answers where there is a scheduler, or a container runtime, that would take our work.
_SCHEDULERS: Mapping[Scheduler, str] = {
    "slurm": "sinfo",
    "pbs": "qstat",
    "kubernetes": "kubectl get --raw /readyz --request-timeout=3s",
}
_CONTAINERS: Mapping[Container, str] = {
    "apptainer": "apptainer --version",
    "singularity": "singularity --version",
    "docker": "docker info",
    "podman": "podman info",
}
_UNLIMITED = ("UNLIMITED", "INFINITE", "NONE", "")
# A model may begin with a digit, as parts of a GPU do (1g.5gb), but a number alone is a count.
_GRES = re.compile(r"(?:^|,)gpu(?![^:,(])(?::([^:,(]*[^\d:,(][^:,(]*))?(?::(\d+))?")
_ANSWER = "an answer"


def detect() -> Infrastructure:
    """This machine as one partition of one node; of a Slurm cluster, its partitions."""
    if shutil.which("scontrol") and shutil.which("sinfo"):
        return slurm()
    return machine()


def machine() -> Infrastructure:
    """This machine alone."""
    node = Partition(
        nodes=1,
        processors=processors(),
        memory=memory(),
        accelerators=accelerators(),
        default=True,
    )
    return Infrastructure(
        name=_name(platform.node(), "this-machine"),
        scheduler=scheduler(),
        container=container(),
        partitions={"local": node},
    )


def memory(proc: Path = Path("/proc/self/cgroup"), groups: Path = GROUPS) -> float:
    """Bytes that this process may use: the machine's, or less where a control group has a limit.

    A group's limit holds for those below it too, so that the least on the way up counts; inside a
    container the way may not be there, but the top is the container's own group.
    """
    import psutil

    least = psutil.virtual_memory().total
    try:
        lines = proc.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, file = (groups / "memory", _VERSION_1) if controllers else (groups, _VERSION_2)
        own = top / path.lstrip("/")
        for group in (own, *own.parents):
            if not group.is_relative_to(top):
                break
            least = min(least, _limit(group / file, least))
    return float(least // MIB * MIB)


def _limit(file: Path, otherwise: int) -> int:
    """The bytes that a file of a control group has; `max` is no limit."""
    try:
        text = file.read_text().strip()
    except OSError:
        return otherwise
    return int(text) if text.isdigit() and int(text) >= MIB else otherwise


def _name(text: str, otherwise: str) -> str:
    """What somebody called it, as a description can hold it."""
    return re.sub(r"[^A-Za-z0-9_.+-]", "-", text).strip("-.")[:64] or otherwise


def processors() -> Processors:
    """The processors that this process may use."""
    import psutil
    from archspec.cpu import host

    usable = len(os.sched_getaffinity(0))
    threads, cores = psutil.cpu_count() or usable, psutil.cpu_count(logical=False) or usable
    # A container or a job may have fewer than the machine: so many are counted, on fewer cores.
    each = max(1, threads // cores)
    cores = max(1, min(cores, -(-usable // each)))
    return Processors(
        microarchitecture=host().name, model=_model(), cores=cores, threads=max(cores, usable)
    )


def _model() -> str:
    """The processor's name as its maker has it; empty where the kernel does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return "".join(c for c in next(found, "") if c.isprintable())


def accelerators() -> Accelerators | None:
    """NVIDIA's, as nvidia-smi lists them: those of one kind, or the first kind's."""
    if not shutil.which("nvidia-smi"):
        return None
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    rows = [line.rpartition(",") for line in _said(query, check=False).splitlines() if "," in line]
    if not rows:
        return None
    model, memory = rows[0][0].strip(), float(rows[0][2])
    alike = sum(row[0].strip() == model for row in rows)
    return Accelerators(count=alike, kind="nvidia", model=model, memory=memory * MIB)


def scheduler() -> Scheduler:
    """The first that answers."""
    return next((name for name, ask in _SCHEDULERS.items() if _answers(ask)), "none")


def container() -> Container:
    """The first runtime that answers."""
    return next((name for name, ask in _CONTAINERS.items() if _answers(ask)), "none")


def _answers(command: str) -> bool:
    """Whether a program is there, and what it asks for too."""
    words = command.split()
    if not shutil.which(words[0]):
        return False
    try:
        return subprocess.run(words, capture_output=True, timeout=ASK, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def slurm() -> Infrastructure:
    """The partitions of the cluster that this machine belongs to."""
    asked = _said(
        ["scontrol", "show", "config"], f"{_ANSWER}; --local describes this machine alone"
    )
    config = _fields(asked.replace("\n", " \n "))
    partitions = _said(["scontrol", "show", "partition", "--oneliner"])
    nodes = _said(["scontrol", "show", "node", "--oneliner"])
    described = slurm_partitions(partitions, nodes)
    if not described:
        raise InputError("scontrol show partition", "no partition with nodes", "at least one")
    name = _name(config.get("ClusterName", ""), "cluster")
    return Infrastructure(name=name, scheduler="slurm", container=container(), partitions=described)


def slurm_partitions(partitions: str, nodes: str) -> dict[str, Partition]:
    """The partitions that `scontrol show` lists, one line each; one for each kind of node in it.

    Where a partition has nodes of several kinds, the first keeps its name and the others get a
    number; their features tell them apart for the scheduler.
    """
    kinds: dict[str, dict[Partition, int]] = {}
    for node in map(_fields, nodes.splitlines()):
        for name in filter(None, node.get("Partitions", "").split(",")):
            found = kinds.setdefault(name, {})
            kind = _node(node)
            found[kind] = found.get(kind, 0) + 1
    described = {}
    for fields in map(_fields, partitions.splitlines()):
        name = fields.get("PartitionName", "")
        for number, (kind, count) in enumerate(kinds.get(name, {}).items(), start=1):
            most = fields.get("MaxNodes", "")
            limits = Limits(
                walltime=_walltime(fields.get("MaxTime", "")),
                nodes=int(most) if most.isdigit() and int(most) > 0 else None,
            )
            described[name if number == 1 else f"{name}-{number}"] = kind.model_copy(
                update={
                    "nodes": count,
                    "limits": limits,
                    "queue": None if number == 1 else name,
                    "default": fields.get("Default") == "YES" and number == 1,
                }
            )
    return described


def _node(fields: Mapping[str, str]) -> Partition:
    """A node as a partition of one."""
    sockets = int(fields.get("Sockets", "1"))
    cores = int(fields.get("CoresPerSocket", "1"))
    threads = cores * int(fields.get("ThreadsPerCore", "1"))
    features = [f for f in fields.get("AvailableFeatures", "").split(",") if f and f != "(null)"]
    family = {"x86_64": "x86_64", "aarch64": "aarch64", "ppc64le": "ppc64le"}
    return Partition(
        nodes=1,
        processors=Processors(
            count=sockets,
            microarchitecture=_feature(features) or family.get(fields.get("Arch", ""), "x86_64"),
            cores=cores,
            threads=threads,
        ),
        memory=float(fields.get("RealMemory", "1")) * MIB,
        accelerators=_gres(fields.get("Gres", "")),
        features=tuple(features),
    )


def _feature(features: Iterable[str]) -> str | None:
    """A microarchitecture that the operator has named among the features."""
    from archspec.cpu import TARGETS

    return next((feature for feature in features if feature in TARGETS), None)


def _gres(text: str) -> Accelerators | None:
    """`gpu:a100:8(S:0-1)`, `gpu:2` or `gpu`; Slurm does not say whose they are."""
    found = _GRES.search(text)
    if found is None:
        return None
    model = found[1] or ""
    amd = re.match(r"mi\d|gfx|radeon", model, re.IGNORECASE)
    return Accelerators(count=int(found[2] or 1), kind="amd" if amd else "nvidia", model=model)


def _walltime(text: str) -> float | None:
    """Seconds of Slurm's `2-00:00:00`, `24:00:00` or `30:00`; none where it sets no limit."""
    if text.upper() in _UNLIMITED:
        return None
    days, _, clock = text.rpartition("-")
    parts = [float(part) for part in clock.split(":")]
    seconds = 0.0
    for part in parts:
        seconds = 60 * seconds + part
    if len(parts) == 1:
        seconds *= 60  # minutes alone
    return 86400 * float(days or 0) + seconds


def _fields(line: str) -> dict[str, str]:
    """`Name=Value` by name; a value goes on until the next name."""
    return {
        name: value.strip()
        for name, value in re.findall(r"(\w[\w:]*)\s*=\s*(.*?)(?=\s+\w[\w:]*\s*=|\s*$|\n)", line)
    }


def _said(words: list[str], expected: str = _ANSWER, check: bool = True) -> str:
    """What a program of this machine prints; InputError where it fails."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=ASK, errors="replace", check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(" ".join(words), error, expected) from None
    if done.returncode and check:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise InputError(" ".join(words), last, expected)
    return done.stdout
