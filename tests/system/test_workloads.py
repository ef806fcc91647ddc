"""The training scripts in their real environments: what each option changes, and two workers.

The environments are set up as a user does it, and kept: the first time takes minutes and 4 GB.
"""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from beds import set_up
from patience import LONG, wait_for
from slurm import free_ports

import forerun
from forerun.workloads.environments import FRAMEWORKS, words
from forerun.workloads.home import data_directory

TINY = {"chunks": "1", "chunk-size": "64", "batch": "16", "kernel": "3"}

# What an option is changed to, and what of the result must change by it. Where a network's line
# changes, its weights have other shapes, so that there is nothing to compare them by.
NETWORK = {
    "kernel": "4",
    "pool": "3",
    "filters": "4",
    "padding": "same",
    "stride": "2",
    "image-size": "24",
}
WEIGHTS = {
    "activation": "tanh",
    "optimiser": "adam",
    "learning-rate": "0.1",
    "dropout": "0.2",
    "chunks": "2",
    "batch": "24",
    "epochs": "2",
    "seed": "1",
}


@dataclass(frozen=True)
class Training:
    """How a training ended, and what it printed."""

    code: int
    out: str
    err: str
    network: str = field(init=False, default="")
    losses: tuple[float, ...] = field(init=False, default=())
    weights: dict[int, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        lines = self.out.splitlines()
        known = re.compile(
            r"network [\w-]+: \d+ parameters, sizes( \d+)+"
            r"|epoch \d+ of \d+: loss (?P<loss>\d+\.\d{4}), \d+\.\d{3} s"
            r"|rank (?P<rank>\d+): weights (?P<weights>[0-9a-f]{16})"
            r"|exported to .+"
        )
        found = [known.fullmatch(line) for line in lines]
        assert all(found), f"not of the lines that all scripts print: {self.out}"
        matches = [one for one in found if one is not None]
        losses = tuple(float(one["loss"]) for one in matches if one["loss"])
        weights = {int(one["rank"]): one["weights"] for one in matches if one["rank"]}
        object.__setattr__(self, "network", lines[0] if lines else "")
        object.__setattr__(self, "losses", losses)
        object.__setattr__(self, "weights", weights)


Train = Callable[..., Training]


# What TensorFlow itself says on processors with VNNI, for instance; no level of its log stops it.
NOTICE = re.compile(
    r"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR\n"
    r"|I0000 .*\] oneDNN custom operations are on\..*\n"
)


@cache
def trained(framework: str, *arguments: str) -> Training:
    """A training with these arguments; the same one runs once."""
    done = subprocess.run(
        [*words(FRAMEWORKS[framework]), *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    return Training(done.returncode, done.stdout, NOTICE.sub("", done.stderr))


@pytest.fixture(scope="session", params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    """Each framework in turn, set up."""
    name: str = request.param
    set_up(name)
    return name


@pytest.fixture(scope="session")
def train(framework: str) -> Train:
    """Train a tiny network in the framework, with these options changed."""

    def call(**changed: str) -> Training:
        options = TINY | {name.replace("_", "-"): value for name, value in changed.items()}
        given = [word for name, value in options.items() for word in (f"--{name}", value)]
        return trained(framework, *given)

    return call


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of all data sets."""
    set_up("data")
    return data_directory()


def test_a_training_prints_its_network_its_epochs_and_its_weights(train: Train) -> None:
    done = train()
    assert (done.code, done.err) == (0, "")
    assert done.network == "network lenet: 60382 parameters, sizes 26 13 11 5"
    assert len(done.losses) == 1
    assert list(done.weights) == [0]


def test_equal_seeds_give_equal_weights(train: Train) -> None:
    again = train(port="0")  # which changes nothing, so that the training runs anew
    assert again.weights == train().weights
    assert again.losses == train().losses


@pytest.mark.parametrize("option", NETWORK)
def test_an_option_changes_the_network(train: Train, option: str) -> None:
    changed = train(**{option: NETWORK[option]})
    assert changed.code == 0, changed.err
    assert changed.network != train().network


@pytest.mark.parametrize("option", WEIGHTS)
def test_an_option_changes_the_weights(train: Train, option: str) -> None:
    changed = train(**{option: WEIGHTS[option]})
    assert changed.code == 0, changed.err
    assert changed.network == train().network
    assert changed.weights != train().weights
    assert len(changed.losses) == (2 if option == "epochs" else 1)


def test_a_data_set_changes_the_network_or_the_weights(train: Train, data: Path) -> None:
    names = ("synthetic", "mnist", "fashion-mnist", "cifar10", "digits")
    done = [train(data=str(data), dataset=name, padding="same") for name in names]
    assert [one.code for one in done] == [0] * len(names), [one.err for one in done]
    assert len({one.weights[0] for one in done}) == len(names)
    sizes = [one.network.split("sizes ")[1] for one in done]
    assert sizes == ["28 14 14 7", "28 14 14 7", "28 14 14 7", "32 16 16 8", "8 4 4 2"]


@pytest.mark.parametrize(
    ("network", "size", "line"),
    [
        ("mnist-cnn", "28", "1199882 parameters, sizes 26 24 12"),
        ("resnet50", "64", "23528522 parameters, sizes 32 16 16 8 4 2"),
    ],
)
def test_a_network_is_the_published_one(train: Train, network: str, size: str, line: str) -> None:
    done = train(network=network, image_size=size, chunk_size="4", batch="4")
    assert done.code == 0, done.err
    assert done.network == f"network {network}: {line}"


def test_two_workers_end_with_equal_weights_other_than_one_workers(train: Train) -> None:
    done = train(workers="2")
    assert (done.code, done.err) == (0, "")
    assert sorted(done.weights) == [0, 1]
    assert done.weights[0] == done.weights[1]
    assert done.weights[0] != train().weights[0]
    assert done.network == train().network
    assert train(workers="2", port="0").weights == done.weights


def test_what_cannot_be_trained_is_refused_in_one_line(train: Train) -> None:
    small = train(kernel="5", pool="4", stride="3")
    none = train(workers="2", dataset="mnist", data="/no/such/folder")
    for done in (small, none):
        assert (done.code, done.out) == (2, "")
        assert len(done.err.splitlines()) == 1
    assert "below 1" in small.err
    assert "/no/such/folder/mnist-images.npy" in none.err


def test_a_worker_that_fails_ends_all(framework: str) -> None:
    endless = ["--workers", "2", "--chunks", "1", "--chunk-size", "64", "--epochs", "1000000"]
    with subprocess.Popen(
        [*words(FRAMEWORKS[framework]), *endless],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as first:
        try:
            assert first.stdout is not None
            next(line for line in first.stdout if line.startswith("epoch 2"))
            workers = children(first.pid)
            os.kill(workers[-1], signal.SIGKILL)
            threading.Thread(target=first.stdout.read, daemon=True).start()
            assert first.wait(LONG / 2) != 0
        finally:
            first.kill()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def children(pid: int) -> list[int]:
    """The processes that a process started, in their order."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# PyTorch's own: the transformer, and workers that something else started.


@pytest.fixture(scope="session")
def train_transformer() -> Train:
    set_up("pytorch")

    def call(**changed: str) -> Training:
        small = {"chunk-size": "16", "chunks": "1", "length": "16", "width": "32"} | changed
        given = [word for name, value in small.items() for word in (f"--{name}", value)]
        return trained("pytorch", "--network", "transformer", *given)

    return call


@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("layers", "1", "29920 parameters, sizes 16 32"),
        ("width", "16", "15296 parameters, sizes 16 16"),
        ("length", "8", "42368 parameters, sizes 8 32"),
        ("heads", "2", "42624 parameters, sizes 16 32"),
    ],
)
def test_the_transformers_options(
    train_transformer: Train, option: str, value: str, line: str
) -> None:
    done = train_transformer(**{option: value})
    assert done.code == 0, done.err
    assert done.network == f"network transformer: {line}"
    assert done.weights != train_transformer().weights


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_trained_network_is_exported_and_can_be_cut(tmp_path: Path, workers: str) -> None:
    set_up("pytorch")
    file = tmp_path / "net.onnx"
    done = trained("pytorch", "--chunks", "1", "--workers", workers, "--export", str(file))
    assert done.code == 0, done.err
    assert f"exported to {file}" in done.out
    assert forerun.split(file, 2, "rows", tmp_path / "halves").check(file) < 1e-4


def test_workers_of_a_launcher_find_each_other() -> None:
    set_up("pytorch")
    command = [*words(FRAMEWORKS["pytorch"]), "--chunks", "1", "--chunk-size", "64"]
    (port,) = free_ports(1)
    told = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        subprocess.Popen(
            command,
            env=os.environ | told | {"RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    out = [process.communicate(timeout=LONG)[0] for process in started]
    first, second = (Training(0, text, "").weights for text in out)
    assert first[0] == second[1]
