"""Infrastructures as files hold them."""

from pathlib import Path

import pytest

from forerun.errors import InputError
from forerun.infrastructure import Infrastructure, Storage
from forerun.infrastructure.description import profiles

SMALL = """
name: small
scheduler: slurm
partitions:
  cpu:
    nodes: 2
    processors: {microarchitecture: zen3, cores: 8}
    memory: 64 GiB
    price: {node: 1}
    limits: {walltime: 2h, nodes: 1}
storage:
  home: {bandwidth: 100 MB/s, total: 150 MB/s}
  scratch: {bandwidth: 2 GB/s, local: true}
"""


def load(tmp_path: Path, text: str) -> Infrastructure:
    file = tmp_path / "infra.yaml"
    file.write_text(text)
    return Infrastructure.load(file)


def test_a_file_is_read_with_its_units(tmp_path: Path) -> None:
    found = load(tmp_path, SMALL)
    part = found.partition("cpu")
    assert (part.memory, part.limits.walltime, part.most_nodes) == (64 * 2**30, 7200, 1)
    assert (part.processors.threads, part.processors.all_cores) == (8, 8)
    assert list(found.reach("cpu")) == ["home", "scratch"]


def test_what_is_written_is_read_as_it_was(tmp_path: Path) -> None:
    for path in profiles().values():
        found = Infrastructure.load(path)
        assert load(tmp_path, found.to_yaml()) == found


def test_profiles_are_found_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(profiles()) == {"boards", "gpu-cluster", "laptop", "workstations"}
    assert Infrastructure.load(Path("gpu-cluster")).partition("gpu").accelerators is not None
    monkeypatch.chdir(tmp_path)
    (tmp_path / "laptop").write_text(SMALL)  # a file of one's own goes first
    assert Infrastructure.load(Path("laptop")).name == "small"


def test_nodes_share_what_a_storage_has() -> None:
    shared = Storage(bandwidth=100.0, total=150.0)
    assert (shared.rate(1), shared.rate(2), shared.rate(3)) == (100, 75, 50)
    assert Storage(bandwidth=100.0).rate(8) == 100


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("nodes: 2", "nodes: 0"), "partitions.cpu.nodes: found 0, expected at least 1"),
        (("zen3", "zen99"), "partitions.cpu.processors.microarchitecture: found zen99"),
        (("cores: 8", "cores: 8, threads: 4"), "at least as many threads as cores (8)"),
        (("64 GiB", "64 GiB/s"), "partitions.cpu.memory: found 64 GiB/s, expected bytes"),
        (("64 GiB", "much"), "a size such as 40 GB"),
        (("2h", "soon"), "limits.walltime: found soon"),
        (("scheduler: slurm", "scheduler: lsf"), "scheduler: found lsf, expected 'slurm'"),
        (("price:", "prise:"), "partitions.cpu.prise: found a field of that name, expected one of"),
        (("{node: 1}", "{node: -1}"), "price.node: found -1, expected at least 0"),
        (("{node: 1}", "{node: .inf}"), "price.node: found inf"),
        (("name: small", "name: 'a b'"), "name: found a b, expected a name of letters"),
        (("  cpu:", "  'c\\npu':"), "expected a name of letters"),
        (("    memory: 64 GiB\n", ""), "partitions.cpu.memory: found none, expected a value"),
        (("price:", "storage: [tape]\n    price:"), "storage that is described, not tape (of cpu)"),
        (("price:", "default: 1\n    price:"), "default: found 1, expected true or false"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    assert change[0] in SMALL
    with pytest.raises(InputError) as refused:
        load(tmp_path, SMALL.replace(*change, 1))
    assert told in str(refused.value)
    assert "infra.yaml" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_it_must_have_something_to_run_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected partitions or boards"):
        load(tmp_path, "name: empty\n")


def test_two_defaults_are_one_too_many(tmp_path: Path) -> None:
    cpu = "\n".join(SMALL.splitlines()[4:10]).replace("cpu:", "{}:") + "\n    default: true\n"
    text = "name: two\npartitions:\n" + cpu.replace("{}", "a", 1) + cpu.replace("{}", "b", 1)
    text = text.replace("{}:", "a:", 1)
    with pytest.raises(InputError, match="one default partition, not a and b"):
        load(tmp_path, text)


def test_a_partition_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="small, partition: found gpu, expected one of cpu"):
        load(tmp_path, SMALL).partition("gpu")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match="a file, or one of the profiles boards"):
        Infrastructure.load(Path("nowhere"))


BOARDS = """
name: shelf
boards:
  pi:
    count: 2
    processors: {microarchitecture: cortex_a72, cores: 4}
    memory: 1 GiB
    link: {bandwidth: 95 Mbit/s, latency: 200us}
"""


def test_boards_say_how_fast_they_are_and_where(tmp_path: Path) -> None:
    board = load(tmp_path, BOARDS).boards["pi"]
    assert (board.speed, board.addresses, board.user) == (None, (), "")
    told = "    speed: 0.35\n    addresses: [10.0.0.2:7000, pi2.local]\n    user: pi\n"
    board = load(tmp_path, BOARDS + told).boards["pi"]
    assert board.speed == 0.35
    assert board.addresses == ("10.0.0.2:7000", "pi2.local")
    assert board.user == "pi"
    written = load(tmp_path, BOARDS + told).to_yaml()
    assert load(tmp_path, written).boards["pi"] == board


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("speed: 0", "boards.pi.speed: found 0, expected more than 0"),
        ("addresses: [a]", "expected as many addresses as boards (2)"),
        ("addresses: [a, a]", "expected an address of its own for each board"),
        ("addresses: [a, 'b;rm']", "addresses.1: found b;rm, expected a host or its address"),
        ("addresses: [a, 'b:70000']", "found b:70000, expected a host or its address"),
        ("addresses: [a, '-oProxyCommand=x']", "expected a host or its address"),
        ("user: '-l'", "boards.pi.user: found -l, expected a user's name"),
        ('directory: "a\\nb"', "expected a text of one line"),
    ],
)
def test_boards_that_are_wrong(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(InputError) as refused:
        load(tmp_path, f"{BOARDS}    {line}\n")
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_boards_are_as_many_as_a_split_can_have_devices(tmp_path: Path) -> None:
    assert load(tmp_path, BOARDS.replace("count: 2", "count: 1024")).boards["pi"].count == 1024
    with pytest.raises(InputError, match=r"boards\.pi\.count: found 1025, expected at most 1024"):
        load(tmp_path, BOARDS.replace("count: 2", "count: 1025"))
