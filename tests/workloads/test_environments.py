"""Environments for a framework so small that pip has nothing to fetch for it."""

import json
import shutil
from pathlib import Path

import pytest

from forerun.errors import InputError
from forerun.workloads import environments
from forerun.workloads.environments import FRAMEWORKS, Framework, facts, set_up, state, words

TINY = Framework("tiny", ("json",), 1)


def silent(_: str) -> None:
    """Hears what is said, and does nothing."""


@pytest.fixture(autouse=True)
def requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the tiny framework requires: pip, which every environment has."""
    monkeypatch.setenv("FORERUN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(environments, "_HERE", tmp_path)
    file = tmp_path / "requirements-tiny.txt"
    file.write_text("# Nothing is fetched.\npip>=20\n")
    return file


@pytest.fixture
def unmade(requirements: Path) -> Path:
    """An environment whose Python does what a shell script says, so that none is made."""
    program = TINY.python
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\ncase "$3" in *version_info*) echo 3 11;;'
        ' pip) echo fetched;; *) echo "{}";; esac\n'
    )
    program.chmod(0o755)
    return requirements


def test_an_environment_is_made_installed_into_tried_and_stamped(requirements: Path) -> None:
    said: list[str] = []
    passed: list[str] = []
    assert state(TINY) == "missing"
    set_up(TINY, said.append, passed.append)
    assert state(TINY) == "ready"
    assert words(TINY) == [str(TINY.python), str(TINY.script)]
    found = facts(TINY)
    assert found is not None
    assert found["python"].startswith("3.")
    assert any("already satisfied: pip>=20" in line for line in passed)
    assert "already satisfied" in TINY.log.read_text()
    assert said == [
        "tiny: making the environment",
        "tiny: installing pip>=20",
        "tiny: importing it",
        f"tiny: ready in {TINY.directory}",
    ]
    set_up(TINY, said.append, passed.append)
    assert said[-1] == f"tiny: already in {TINY.directory}"
    requirements.write_text("pip>=21\n")
    assert state(TINY) == "outdated"


def test_what_was_interrupted_is_gone_on_with(unmade: Path) -> None:
    assert state(TINY) == "unfinished"
    said: list[str] = []
    set_up(TINY, said.append, silent)
    assert said[0] == "tiny: installing pip>=20"
    assert state(TINY) == "ready"
    unmade.write_text("pip>=21\n")
    set_up(TINY, silent, silent)
    assert state(TINY) == "ready"


def test_what_exporting_takes_is_installed_too_and_is_no_part_of_the_framework(
    unmade: Path,
) -> None:
    unmade.write_text("torch==2.13.0\n")
    TINY.exporting.write_text("# To write ONNX.\nonnx==1.23.2\n")
    said: list[str] = []
    set_up(TINY, said.append, silent)
    assert said[0] == "tiny: installing torch==2.13.0, onnx==1.23.2"
    assert (TINY.packages, TINY.version) == (("torch",), "2.13.0")
    TINY.exporting.write_text("onnx==1.24.0\n")
    assert state(TINY) == "outdated"


@pytest.mark.usefixtures("unmade")
def test_a_failed_installation_is_one_line_with_the_log() -> None:
    TINY.python.write_text(
        '#!/bin/sh\ncase "$3" in *version_info*) echo 3 11;;'
        ' *) echo first; echo "ERROR: no match"; exit 1;; esac\n'
    )
    with pytest.raises(InputError) as caught:
        set_up(TINY, silent, silent)
    assert str(caught.value) == (
        f"tiny, installing pip>=20: found ERROR: no match, expected success; see {TINY.log}"
    )
    assert TINY.log.read_text() == "first\nERROR: no match\n"
    assert state(TINY) == "unfinished"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"requirements": "other"}'])
@pytest.mark.usefixtures("unmade")
def test_a_damaged_stamp_is_no_stamp(content: str) -> None:
    TINY.stamp.write_text(content)
    assert state(TINY) != "ready"


def test_nothing_runs_before_it_is_set_up() -> None:
    with pytest.raises(InputError, match="expected one made by `forerun workload setup tiny`"):
        words(TINY)


def test_mxnet_needs_an_old_python(tmp_path: Path) -> None:
    newer = tmp_path / "python3.13"
    newer.write_text("#!/bin/sh\necho 3 13\n")
    newer.chmod(0o755)
    with pytest.raises(InputError, match=r"found Python 3.13, expected Python 3\.11 or older"):
        set_up(FRAMEWORKS["mxnet"], silent, silent, str(newer))
    assert state(FRAMEWORKS["mxnet"]) == "missing"


def test_a_python_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--python: found .*, expected a Python that runs"):
        set_up(TINY, silent, silent, str(tmp_path / "python"))


def test_a_full_disk_is_seen_before_anything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 10**6

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage)
    with pytest.raises(InputError, match="found 1 MB free, expected at least 2 MB for tiny"):
        set_up(TINY, silent, silent)
    assert state(TINY) == "missing"


def test_a_stamp_says_what_is_installed(unmade: Path) -> None:
    unmade.write_text("torch==2.13.0\n# A note.\nnumpy==2.4.6\n")
    assert TINY.packages == ("torch", "numpy")
    set_up(TINY, silent, silent)
    assert json.loads(TINY.stamp.read_text())["framework"] == "tiny"


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_no_environment_is_named_as_a_package(name: str) -> None:
    assert FRAMEWORKS[name].directory.name == f"{name}-env"
