"""The description of an infrastructure, as a file holds it: checked, with a unit to everything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from forerun import _documents
from forerun._documents import Count, NotNegative, Table, read_yaml, validated, written
from forerun.errors import InputError

Scheduler = Literal["slurm", "pbs", "kubernetes", "none"]
Container = Literal["apptainer", "singularity", "docker", "podman", "none"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}", re.ASCII)
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", re.ASCII)
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]"
_ADDRESS = re.compile(rf"(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?", re.ASCII)


def _named(name: str) -> str:
    """A name that a job script, a path and a table can hold."""
    if not _NAME.fullmatch(name):
        raise ValueError("a name of letters, digits, and . _ + -")
    return name


def _featured(name: str) -> str:
    """A name, or several that a site has joined: CPU_GEN:SKX."""
    if not all(map(_NAME.fullmatch, re.split("[:=/]", name))):
        raise ValueError("a name of letters, digits, and . _ + - : = /")
    return name


def _plain(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a text of one line, without control characters")
    return text


def _addressed(text: str) -> str:
    """A host's name or its address, with a port where it has one of its own: pi1.local:7000."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"] or 1) < 2**16:
        raise ValueError("a host or its address, with a port or without: 10.0.0.2:7000")
    return text


def _user(name: str) -> str:
    if not _USER.fullmatch(name):
        raise ValueError("a user's name of letters, digits, and . _ -")
    return name


def _known(name: str) -> str:
    from archspec.cpu import TARGETS

    if name not in TARGETS:
        raise ValueError("a microarchitecture that archspec knows, such as zen3 or x86_64_v3")
    return name


Name = Annotated[str, AfterValidator(_named)]
Names = Annotated[tuple[Name, ...], Field(strict=False)]
Features = Annotated[tuple[Annotated[str, AfterValidator(_featured)], ...], Field(strict=False)]
Text = Annotated[str, AfterValidator(_plain)]
Addresses = Annotated[tuple[Annotated[str, AfterValidator(_addressed)], ...], Field(strict=False)]
Microarchitecture = Annotated[str, AfterValidator(_known)]
# In a file that we write, with the unit that fits.
Duration = Annotated[_documents.Duration, PlainSerializer(partial(written, kind="duration"))]
Size = Annotated[_documents.Size, PlainSerializer(partial(written, kind="size"))]
Rate = Annotated[_documents.Rate, PlainSerializer(partial(written, kind="rate"))]


class Processors(Table):
    """The processors of a node: so many of one kind, each with so many cores."""

    count: Count = 1
    microarchitecture: Microarchitecture
    model: Text = ""
    cores: Count
    threads: Count = 0  # that run at once, on all its cores; as many as cores where not given

    @model_validator(mode="before")
    @classmethod
    def _one_thread_a_core(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "cores" in given:
            return {"threads": given["cores"], **given}
        return given

    @model_validator(mode="after")
    def _threads_on_cores(self) -> Self:
        if self.threads < self.cores:
            raise ValueError(f"at least as many threads as cores ({self.cores})")
        return self

    @property
    def family(self) -> Literal["x86", "arm", "power", "other"]:
        """Whose programs they run."""
        from archspec.cpu import TARGETS

        family = str(TARGETS[self.microarchitecture].family)
        if family.startswith("x86"):
            return "x86"
        if family.startswith(("aarch64", "arm")):
            return "arm"
        return "power" if family.startswith("ppc") else "other"

    @property
    def all_cores(self) -> int:
        """The cores of the node."""
        return self.count * self.cores


class Accelerators(Table):
    """The accelerators of a node."""

    count: Count = 1
    kind: Literal["nvidia", "amd", "intel", "fpga", "tpu"]
    model: Text = ""
    memory: Size | None = None  # of each


class Link(Table):
    """What joins two ends: bytes a second, and seconds until the first one is there."""

    bandwidth: Rate
    latency: Duration | None = None


class Links(Table):
    """The links of a partition: between the devices of a node, and between nodes."""

    inside: Link | None = None
    between: Link | None = None


class Price(Table):
    """What an hour costs: of a node, and of each of its accelerators that is used."""

    node: NotNegative = 0.0
    device: NotNegative = 0.0


class Power(Table):
    """Watts: of a node, and of each of its accelerators that is used."""

    node: NotNegative = 0.0
    device: NotNegative = 0.0


class Limits(Table):
    """What one job may have."""

    walltime: Duration | None = None
    nodes: Count | None = None


class Partition(Table):
    """Nodes of one kind that a job can be sent to."""

    nodes: Count
    processors: Processors
    memory: Size  # of each node
    accelerators: Accelerators | None = None
    links: Links = Links()
    price: Price | None = None
    power: Power | None = None
    limits: Limits = Limits()
    queue: Name | None = None  # the scheduler's name for it, where that is another
    features: Features = ()  # by which the scheduler knows the nodes
    storage: Names | None = None  # what it can reach; None: all
    wait: Duration | None = None  # usual, until a job starts
    default: bool = False

    @property
    def most_nodes(self) -> int:
        """How many nodes one job can have."""
        return min(self.nodes, self.limits.nodes or self.nodes)


class Storage(Table):
    """Where data can lie: bytes a second that one node reads, and all together where less."""

    bandwidth: Rate
    total: Rate | None = None  # of all nodes together; None: each node has its own
    path: Text = ""
    kind: Literal["common", "high", "ssd", "ultra_high"] = "common"
    size: Size | None = None
    local: bool = False  # each node has its own: data must be brought there

    def rate(self, nodes: int) -> float:
        """Bytes a second that each of so many nodes reads."""
        return min(self.bandwidth, (self.total or self.bandwidth * nodes) / nodes)


class Board(Table):
    """Small devices of one kind that serve a network together."""

    count: Annotated[int, Field(ge=1, le=1024)]  # as many as a split can have devices
    processors: Processors
    memory: Size  # of each
    link: Link
    model: Text = ""
    power: NotNegative = 0.0  # watts of each while it computes
    # Of one of its devices, of the machine where layers were timed, as the device runs a network:
    # layers that take 10 ms there take 10 ms / speed. None: nobody has said so.
    speed: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False, strict=False)] | None = None
    addresses: Addresses = ()  # of its devices, in their order; none: nobody connects to them
    user: Annotated[str, AfterValidator(_user)] = ""  # that a package is pushed as
    directory: Text = ""  # that packages are pushed to, on each

    @model_validator(mode="after")
    def _an_address_each(self) -> Self:
        if self.addresses and len(self.addresses) != self.count:
            raise ValueError(f"as many addresses as boards ({self.count})")
        if len(set(self.addresses)) < len(self.addresses):
            raise ValueError("an address of its own for each board")
        return self


class Infrastructure(Table):
    """All of it."""

    name: Name
    scheduler: Scheduler = "none"
    container: Container = "none"
    currency: Text = "EUR"
    partitions: dict[Name, Partition] = Field(default_factory=dict)
    boards: dict[Name, Board] = Field(default_factory=dict)
    storage: dict[Name, Storage] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.partitions and not self.boards:
            raise ValueError("partitions or boards")
        defaults = [name for name, partition in self.partitions.items() if partition.default]
        if len(defaults) > 1:
            raise ValueError(f"one default partition, not {' and '.join(defaults)}")
        for name, partition in self.partitions.items():
            for reached in partition.storage or ():
                if reached not in self.storage:
                    raise ValueError(f"storage that is described, not {reached} (of {name})")
        return self

    @classmethod
    def load(cls, path: Path) -> Self:
        """The infrastructure of a YAML file, or of a profile that ships with forerun, by name."""
        if path.name == str(path) and not path.exists():
            shipped = profiles()
            if str(path) in shipped:
                path = shipped[str(path)]
        if not path.exists():
            listed = ", ".join(profiles())
            raise InputError("infrastructure", path, f"a file, or one of the profiles {listed}")
        return validated(cls, read_yaml(path), f"{path}: ")

    def partition(self, name: str) -> Partition:
        """The partition of this name; InputError where there is none."""
        if name not in self.partitions:
            listed = ", ".join(self.partitions) or "boards alone"
            raise InputError(f"{self.name}, partition", name, f"one of {listed}")
        return self.partitions[name]

    def reach(self, partition: str) -> dict[str, Storage]:
        """The storage that the nodes of a partition reach."""
        wanted = self.partition(partition).storage
        return {n: s for n, s in self.storage.items() if wanted is None or n in wanted}

    def to_yaml(self) -> str:
        """The file that holds it, without what goes without saying."""
        import yaml

        document = self.model_dump(mode="json", exclude_defaults=True)
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def profiles() -> dict[str, Path]:
    """The descriptions that ship with forerun, by name."""
    folder = Path(str(files("forerun.infrastructure").joinpath("profiles")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
