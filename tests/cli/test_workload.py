from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from forerun.errors import InputError
from forerun.workloads.data import SETS, DataSet
from forerun.workloads.environments import FRAMEWORKS, Framework

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORERUN_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def pytorch() -> Path:
    """An environment that looks finished."""
    made = FRAMEWORKS["pytorch"]
    made.python.parent.mkdir(parents=True)
    made.python.touch()
    told = {"python": "3.11.7", "versions": {"torch": "2.13.0+cpu"}}
    made.stamp.write_text(json.dumps(told))
    return made.python


@pytest.mark.usefixtures("pytorch")
def test_list_tells_what_is_set_up_and_what_is_not(forerun: Forerun, home: Path) -> None:
    done = forerun("workload", "list")
    assert done.code == 0
    assert done.out.startswith(f"{home} has environments and data")
    assert "outdated (1.0 GB)" in done.out
    assert "torch 2.13.0+cpu" in done.out
    assert "missing (1.6 GB)" in done.out
    last = done.out.splitlines()[-1]
    assert last == "to set up: forerun workload setup pytorch | tensorflow | mxnet | jax | data"


def test_list_as_json(forerun: Forerun, pytorch: Path, home: Path) -> None:
    document = forerun("workload", "list", "--json").document
    assert document["home"] == str(home)
    first, *others = document["frameworks"]
    assert first["state"] == "outdated"
    assert first["environment"] == str(pytorch.parents[1])
    assert first["networks"] == ["lenet", "mnist-cnn", "resnet50", "transformer"]
    assert [other["state"] for other in others] == ["missing"] * 3
    assert [one["ready"] for one in document["data"]] == [False] * 5


@pytest.mark.parametrize("verb", ["list", "command pytorch"])
@pytest.mark.usefixtures("pytorch")
def test_the_fields_are_those_that_are_described(forerun: Forerun, verb: str) -> None:
    document = forerun("workload", *verb.split(), "--json").document
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text("utf-8")
    section = page.split(f"\n## forerun workload {verb.split()[0]}\n")[1].split("\n## ")[0]
    assert set(document) == set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_command_is_ready_to_be_measured(forerun: Forerun, pytorch: Path, home: Path) -> None:
    done = forerun("workload", "command", "pytorch")
    script = str(FRAMEWORKS["pytorch"].script)
    assert shlex.split(done.out) == [str(pytorch), script, "--data", str(home / "data")]
    document = forerun("workload", "command", "pytorch", "--json").document
    assert document["words"] == shlex.split(done.out)


def test_a_folder_with_odd_characters_is_quoted(
    forerun: Forerun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "a {b} 'c'"
    monkeypatch.setenv("FORERUN_HOME", str(odd))
    made = FRAMEWORKS["jax"]
    made.python.parent.mkdir(parents=True)
    made.python.touch()
    made.stamp.write_text("{}")
    printed = forerun("workload", "command", "jax").out
    assert shlex.split(printed)[-1] == f"{odd}/data".replace("{b}", "{{b}}")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["setup", "caffe"], "workload setup: found caffe, expected one of pytorch, tensorflow,"),
        (["command", "caffe"], "workload command: found caffe, expected one of pytorch,"),
        (["command", "mxnet"], "mxnet: found no environment, expected one made by"),
        (["setup", "jax", "--python", "/no/python"], "--python: found /no/python, expected a Py"),
        ([], "Missing command"),
    ],
)
def test_what_is_wrong_is_one_line(forerun: Forerun, words: list[str], line: str) -> None:
    done = forerun("workload", *words)
    assert done.code == 2
    assert done.err.startswith(f"forerun: error: {line}")
    assert len(done.err.splitlines()) == 1


def test_where_one_cannot_be_set_up_the_others_are(
    forerun: Forerun, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def set_up(framework: Framework, *_: object) -> None:
        if framework.name in ("tensorflow", "mxnet"):
            raise InputError(framework.name, "Python 3.12", "Python 3.11 or older")
        made.append(framework.name)

    def prepare(one: DataSet, *_: object) -> None:
        made.append(one.name)
        if one.name == "digits":
            raise InputError("mxnet", "Python 3.12", "Python 3.11 or older")

    monkeypatch.setattr("forerun.workloads.environments.set_up", set_up)
    monkeypatch.setattr("forerun.workloads.data.prepare", prepare)
    done = forerun("workload", "setup", "all")
    assert done.code == 2
    assert made[:2] == ["pytorch", "jax"]
    assert set(made[2:]) == set(SETS)
    assert done.err.splitlines() == [
        "forerun: warning: mxnet: found Python 3.12, expected Python 3.11 or older",
        "forerun: error: tensorflow: found Python 3.12, expected Python 3.11 or older",
    ]


def test_without_npm_the_digits_are_still_set_up(
    forerun: Forerun, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home))
    done = forerun("workload", "setup", "data", "--json")
    assert done.code == 2
    assert (home / "data" / "digits-images.npy").is_file()
    assert done.err.splitlines()[-1].startswith("forerun: error: npm: found no such program")
