"""What a machine and a Slurm cluster say of themselves."""

import os
from pathlib import Path

import pytest
from patience import LONG

from forerun.errors import ForerunWarning, InputError
from forerun.infrastructure import Infrastructure, detection

# As scontrol 23.11 prints them, shortened.
PARTITIONS = """\
PartitionName=cpu AllowGroups=ALL Default=YES MaxNodes=4 MaxTime=2-00:00:00 Nodes=n[1-3]
PartitionName=gpu AllowGroups=ALL Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=g[1-2]
PartitionName=empty Default=NO MaxNodes=1 MaxTime=30:00 Nodes=(null)
"""
NODES = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=32 AvailableFeatures=zen3,fast Gres=(null) OS=Linux 6.1 #1 SMP RealMemory=257000 Sockets=2 ThreadsPerCore=2 Partitions=cpu
NodeName=n2 Arch=x86_64 CoresPerSocket=32 AvailableFeatures=zen3,fast Gres=(null) OS=Linux 6.1 #1 SMP RealMemory=257000 Sockets=2 ThreadsPerCore=2 Partitions=cpu
NodeName=n3 Arch=x86_64 CoresPerSocket=64 AvailableFeatures=(null) Gres=(null) RealMemory=515000 Sockets=2 ThreadsPerCore=1 Partitions=cpu
NodeName=g1 Arch=aarch64 CoresPerSocket=16 AvailableFeatures=mc Gres=gpu:a100:8(S:0-1) RealMemory=1000000 Sockets=1 ThreadsPerCore=1 Partitions=gpu
NodeName=g2 Arch=aarch64 CoresPerSocket=16 AvailableFeatures=mc Gres=gpu:a100:8(S:0-1) RealMemory=1000000 Sockets=1 ThreadsPerCore=1 Partitions=gpu
"""  # noqa: E501


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs may take long to answer."""
    monkeypatch.setattr(detection, "ASK", LONG)


def test_this_machine(tmp_path: Path) -> None:
    found = detection.machine()
    node = found.partition("local")
    assert node.processors.threads == len(os.sched_getaffinity(0))
    assert 2**28 < node.memory < 2**50
    file = tmp_path / "here.yaml"
    file.write_text(found.to_yaml())
    assert Infrastructure.load(file) == found


@pytest.mark.parametrize(
    ("line", "limits", "memory"),
    [
        ("0::/box/run", {"box/memory.max": "104857600", "box/run/memory.max": "max"}, 100),
        ("0::/elsewhere", {"memory.max": "104857601"}, 100),
        ("4:cpu,memory:/box", {"memory/box/memory.limit_in_bytes": "209715200"}, 200),
        ("4:cpu:/box", {"cpu/box/memory.limit_in_bytes": "209715200"}, None),
        ("0::/box", {"box/memory.max": str(2**60)}, None),
        ("4:memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
    ],
)
def test_memory_is_what_the_control_group_may_use(
    tmp_path: Path, line: str, limits: dict[str, str], memory: int | None
) -> None:
    (tmp_path / "cgroup").write_text(f"{line}\n")
    for name, text in limits.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    host = detection.memory(tmp_path / "none", tmp_path / "groups")
    found = detection.memory(tmp_path / "cgroup", tmp_path / "groups")
    assert found == (host if memory is None else memory * 2**20)


def test_a_slurm_cluster_has_a_partition_for_each_kind_of_node() -> None:
    found = detection.slurm_partitions(PARTITIONS, NODES)
    assert {name: part.nodes for name, part in found.items()} == {"cpu": 2, "cpu-2": 1, "gpu": 2}
    cpu, other, gpu = found.values()
    assert (cpu.processors.microarchitecture, cpu.processors.all_cores) == ("zen3", 64)
    assert (cpu.processors.threads, cpu.memory) == (64, 257000 * 2**20)
    assert (cpu.limits.walltime, cpu.limits.nodes, cpu.default) == (2 * 86400, 4, True)
    assert (other.queue, other.default, other.features) == ("cpu", False, ())
    assert gpu.accelerators is not None
    assert (gpu.accelerators.count, gpu.accelerators.model) == (8, "a100")
    assert (gpu.limits.walltime, gpu.limits.nodes, gpu.queue) == (None, None, None)
    assert (gpu.processors.microarchitecture, gpu.features) == ("aarch64", ("mc",))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2-00:00:00", 172800),
        ("24:00:00", 86400),
        ("30:00", 1800),
        ("90", 5400),
        ("UNLIMITED", None),
        ("0", None),
        ("Partition_Limit", None),
        ("1-nan", None),
    ],
)
def test_times_as_slurm_writes_them(text: str, seconds: float | None) -> None:
    assert detection.walltime_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:a100:8(S:0-1)", (8, "a100", "nvidia")),
        ("gpu:4", (4, "", "nvidia")),
        ("gpu", (1, "", "nvidia")),
        ("nic:2,gpu:mi250:4", (4, "mi250", "amd")),
        ("gpu:1g.5gb:7(S:0)", (7, "1g.5gb", "nvidia")),
        ("gpu:4(S:0-1),gpumem:80", (4, "", "nvidia")),
        ("gpumem:80", None),
        ("gpu:0", None),
        ("(null)", None),
    ],
)
def test_accelerators_as_slurm_writes_them(text: str, found: tuple[int, str, str] | None) -> None:
    gres = detection._gres(text)
    assert (gres and (gres.count, gres.model, gres.kind)) == found


def script(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_programs_of_slurm_without_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "scontrol: fatal: Could not establish a configuration source"
    for name in ("scontrol", "sinfo"):
        script(tmp_path, name, f'echo "{said}" >&2; exit 1')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.warns(ForerunWarning, match="know of no cluster: this machine is described"):
        found = detection.detect()
    assert list(found.partitions) == ["local"]
    script(tmp_path, "scontrol", "echo scontrol: error: no answer >&2; exit 1")
    with pytest.raises(InputError, match="--local describes this machine alone"):
        detection.detect()


def test_what_does_not_answer_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (detection.scheduler(), detection.container()) == ("none", "none")
    assert detection.accelerators() is None
    script(tmp_path, "kubectl", "exit 1")
    script(tmp_path, "docker", "exit 1")
    script(tmp_path, "podman", "exit 0")
    assert (detection.scheduler(), detection.container()) == ("none", "podman")


def test_accelerators_as_nvidia_lists_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    script(tmp_path, "nvidia-smi", "echo 'NVIDIA A100-SXM4-40GB, 40960'; echo 'NVIDIA T4, 16384'")
    found = detection.accelerators()
    assert found is not None
    assert (found.count, found.model, found.memory) == (1, "NVIDIA A100-SXM4-40GB", 40 * 2**30)


@pytest.mark.parametrize(
    ("answer", "memory"),
    [
        ("NVIDIA GH200 480GB, [N/A]", None),
        ("Foo, 0", None),
        ("a,b", None),
        ("Foo, inf", None),
        ("Foo, 1", 2**20),
    ],
)
def test_accelerators_without_memory_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, memory: float | None
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    script(tmp_path, "nvidia-smi", f"echo '{answer}'")
    found = detection.accelerators()
    assert found is not None
    assert (found.model, found.memory) == (answer.rpartition(",")[0], memory)


def test_no_kind_of_node_takes_the_name_of_a_partition() -> None:
    """Two kinds in cpu, and a partition that is called cpu-2."""
    partitions = PARTITIONS.replace("PartitionName=gpu", "PartitionName=cpu-2")
    found = detection.slurm_partitions(
        partitions, NODES.replace("Partitions=gpu", "Partitions=cpu-2")
    )
    assert {name: part.nodes for name, part in found.items()} == {"cpu": 2, "cpu-3": 1, "cpu-2": 2}
    assert (found["cpu-3"].queue, found["cpu-2"].queue) == ("cpu", None)


def test_a_limit_beyond_any_cluster_is_none() -> None:
    found = detection.slurm_partitions(PARTITIONS.replace("=4", "=99999999999"), NODES)
    assert found["cpu"].limits.nodes is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("Sockets=2", "Sockets=abc"), "node n1: processors.count: found abc, expected a whole"),
        (("Sockets=2", "Sockets=0"), "node n1: processors.count: found 0, expected at least 1"),
        (("CoresPerSocket=32", "CoresPerSocket=N/A"), "n1: processors.cores: found N/A, expected"),
        (("RealMemory=257000", "RealMemory=N/A"), "node n1: memory: found N/A, expected bytes"),
        (("RealMemory=257000", "RealMemory=0"), "node n1: memory: found 0, expected"),
        (("RealMemory=257000", "RealMemory=nan"), "node n1: memory: found nan, expected"),
        (("zen3,fast", "a b"), "node n1: features.0: found a b, expected a name"),
        (("gpu:a100:8", "gpu:a100:99999999"), "at most 1000000"),
        (("PartitionName=cpu", "PartitionName=c@pu"), "partition: partitions.c@pu: found c@pu"),
        (("Default=NO", "Default=YES"), "show partition: found dict, expected one default"),
    ],
)
def test_what_slurm_cannot_mean_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], told: str
) -> None:
    partitions, nodes = PARTITIONS.replace(*change), NODES.replace(*change)
    if "@" in change[1]:
        nodes = nodes.replace("Partitions=cpu", "Partitions=c@pu")
    for name, text in (("partition", partitions), ("node", nodes), ("config", "ClusterName=_c")):
        (tmp_path / name).write_text(text)
    script(tmp_path, "scontrol", f'cat "{tmp_path}/$2"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(InputError) as refused:
        detection.slurm()
    assert str(refused.value).startswith("scontrol show ")
    assert told in str(refused.value)
    (tmp_path / "partition").write_text(PARTITIONS)
    (tmp_path / "node").write_text(NODES)
    assert detection.slurm().name == "c"


def test_an_answer_without_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "MOST", 2**20)
    script(tmp_path, "endless", "exec yes")
    with pytest.raises(InputError, match="endless: found more than 1 MiB, expected an answer"):
        detection._said([str(tmp_path / "endless")])
