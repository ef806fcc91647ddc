"""Find out what this machine is, or what a Slurm cluster says of itself."""

from __future__ import annotations

import math
import os
import platform
import re
import selectors
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from forerun._documents import validated
from forerun.errors import ForerunWarning, InputError
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
MOST = 64 * MIB  # bytes of an answer
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
_TIME = re.compile(r"(?:(\d{1,6})-)?(\d{1,9}(?::\d{1,9}){0,2})", re.ASCII)
_MOST_NODES = 10**6  # a limit beyond it is none
# A model may begin with a digit, as parts of a GPU do (1g.5gb), but a number alone is a count.
_GRES = re.compile(r"(?:^|,)gpu(?![^:,(])(?::([^:,(]*[^\d:,(][^:,(]*))?(?::(\d+))?")
_ANSWER = "an answer"
_NO_CLUSTER = "Could not establish a configuration source"


def detect() -> Infrastructure:
    """This machine as one partition of one node; of a Slurm cluster, its partitions."""
    if shutil.which("scontrol") and shutil.which("sinfo"):
        try:
            return slurm()
        except InputError as error:
            if _NO_CLUSTER not in str(error):
                raise
        told = "Slurm's programs are here, but they know of no cluster: this machine is described"
        warnings.warn(told, ForerunWarning, stacklevel=2)
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
    return re.sub(r"[^A-Za-z0-9_.+-]", "-", text).strip("-._+")[:64] or otherwise


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
    model = rows[0][0].strip()
    alike = sum(row[0].strip() == model for row in rows)
    shown = "".join(c for c in model if c.isprintable())
    return Accelerators(count=alike, kind="nvidia", model=shown, memory=_mebibytes(rows[0][2]))


def _mebibytes(text: str) -> float | None:
    """Bytes; None where a device says that it has none of its own, or nothing that is a number."""
    try:
        found = float(text) * MIB
    except ValueError:
        return None
    return found if math.isfinite(found) and found > 0 else None


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
        silent = subprocess.DEVNULL
        done = subprocess.run(words, stdout=silent, stderr=silent, timeout=ASK, check=False)
        return done.returncode == 0
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
    document = {"name": name, "scheduler": "slurm", "container": container()}
    return validated(
        Infrastructure, {**document, "partitions": described}, "scontrol show partition: "
    )


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
    described: dict[str, Partition] = {}
    for fields in map(_fields, partitions.splitlines()):
        name = fields.get("PartitionName", "")
        for number, (kind, count) in enumerate(kinds.get(name, {}).items(), start=1):
            most = _whole(fields.get("MaxNodes", ""))
            limits = Limits(
                walltime=walltime_seconds(fields.get("MaxTime", "")),
                nodes=most if isinstance(most, int) and 0 < most <= _MOST_NODES else None,
            )
            label, further = name, number
            while number > 1 and (label in kinds or label in described):
                label, further = f"{name}-{further}", further + 1
            described[label] = kind.model_copy(
                update={
                    "nodes": count,
                    "limits": limits,
                    "queue": None if number == 1 else name,
                    "default": fields.get("Default") == "YES" and number == 1,
                }
            )
    return described


def _node(fields: Mapping[str, str]) -> Partition:
    """A node as a partition of one; InputError, which names it, where it says what cannot be."""
    cores = _whole(fields.get("CoresPerSocket", "1"))
    each = _whole(fields.get("ThreadsPerCore", "1"))
    numbers = isinstance(cores, int) and isinstance(each, int)
    features = [f for f in fields.get("AvailableFeatures", "").split(",") if f and f != "(null)"]
    family = {"x86_64": "x86_64", "aarch64": "aarch64", "ppc64le": "ppc64le"}
    memory = fields.get("RealMemory", "1")
    return validated(
        Partition,
        {
            "nodes": 1,
            "processors": {
                "count": _whole(fields.get("Sockets", "1")),
                "microarchitecture": _feature(features)
                or family.get(fields.get("Arch", ""), "x86_64"),
                "cores": cores,
                "threads": int(cores) * int(each) if numbers else each,
            },
            "memory": _mebibytes(memory) or memory,
            "accelerators": _gres(fields.get("Gres", "")),
            "features": tuple(features),
        },
        f"scontrol show node {fields.get('NodeName', '')}: ",
    )


def _whole(text: str) -> int | str:
    """The number that a text is; else the text, for whoever checks it to name."""
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else text


def _feature(features: Iterable[str]) -> str | None:
    """A microarchitecture that the operator has named among the features."""
    from archspec.cpu import TARGETS

    return next((feature for feature in features if feature in TARGETS), None)


def _gres(text: str) -> Accelerators | None:
    """`gpu:a100:8(S:0-1)`, `gpu:2` or `gpu`; Slurm does not say whose they are."""
    found = _GRES.search(text)
    if found is None:
        return None
    model, count = found[1] or "", _whole(found[2] or "1")
    if count == 0:
        return None
    amd = re.match(r"mi\d|gfx|radeon", model, re.IGNORECASE)
    document = {"count": count, "kind": "amd" if amd else "nvidia", "model": model}
    return validated(Accelerators, document, f"scontrol show node: Gres={text}: ")


def walltime_seconds(text: str) -> float | None:
    """Seconds of Slurm's `2-00:00:00`, `24:00:00` or `30:00`; none where it sets no limit."""
    found = _TIME.fullmatch(text)
    if found is None:  # UNLIMITED, or the limit of something else
        return None
    parts = [float(part) for part in found[2].split(":")]
    seconds = 0.0
    for part in parts:
        seconds = 60 * seconds + part
    if len(parts) == 1:
        seconds *= 60  # minutes alone
    return 86400 * float(found[1] or 0) + seconds or None


def _fields(line: str) -> dict[str, str]:
    """`Name=Value` by name; a value goes on until the next name."""
    return {
        name: value.strip()
        for name, value in re.findall(r"(\w[\w:]*)\s*=\s*(.*?)(?=\s+\w[\w:]*\s*=|\s*$|\n)", line)
    }


def _said(words: list[str], expected: str = _ANSWER, check: bool = True) -> str:
    """What a program of this machine prints; InputError where it fails, or does not end."""
    try:
        code, said, complained = _printed(words, expected)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(" ".join(words), error, expected) from None
    if code and check:
        last = (complained.strip().splitlines() or ["no output"])[-1]
        raise InputError(" ".join(words), last, expected)
    return said


def _printed(words: list[str], expected: str) -> tuple[int, str, str]:
    """The exit code, the output and the errors of a program, of which none may be without end."""
    until, pipe = time.monotonic() + ASK, subprocess.PIPE
    with (
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process,
        selectors.DefaultSelector() as ready,
    ):
        said: dict[object, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
        try:
            for stream in filter(None, (process.stdout, process.stderr)):
                ready.register(stream, selectors.EVENT_READ)
            while ready.get_map():
                for key, _ in ready.select(max(0.0, until - time.monotonic())):
                    piece = os.read(key.fd, MIB)
                    said[key.fileobj] += piece
                    if not piece:
                        ready.unregister(key.fileobj)
                    if len(said[key.fileobj]) > MOST:
                        found = f"more than {MOST // MIB} MiB"
                        raise InputError(" ".join(words), found, expected)
                if time.monotonic() > until:
                    raise subprocess.TimeoutExpired(words, ASK)
            code = process.wait(max(0.0, until - time.monotonic()))
        except BaseException:
            process.kill()
            raise
    output, errors = (text.decode(errors="replace") for text in said.values())
    return code, output, errors
