"""The frameworks, and an environment for each: made with venv and pip, and stamped when whole.

An environment without a stamp, or with the stamp of other requirements, is gone on with where it
was left: pip keeps what is already right.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

from forerun.errors import InputError
from forerun.workloads.home import environments_directory

State = Literal["ready", "outdated", "unfinished", "missing"]
Say = Callable[[str], None]

_HERE = Path(__file__).parent
_STAMP = "forerun.json"
_PIP_OPTIONS = ("--disable-pip-version-check", "--no-input", "--progress-bar=off")
_IMAGES = ("lenet", "mnist-cnn", "resnet50")
# What an environment tells of itself, once its framework can be imported.
_ASK = """
import importlib, importlib.metadata, json, platform, sys
modules, packages = json.loads(sys.argv[1])
for name in modules:
    importlib.import_module(name)
versions = {name: importlib.metadata.version(name) for name in packages}
print(json.dumps({"python": platform.python_version(), "versions": versions}))
"""


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework that a workload is written in, and what its environment takes."""

    name: str
    modules: tuple[str, ...]  # that must be importable
    megabytes: int  # on the disk
    networks: tuple[str, ...] = _IMAGES
    newest_python: tuple[int, int] | None = None

    @property
    def script(self) -> Path:
        """The training script."""
        return _HERE / f"train_{self.name}.py"

    @property
    def requirements(self) -> Path:
        """The pinned packages, as pip reads them."""
        return _HERE / f"requirements-{self.name}.txt"

    @property
    def exporting(self) -> Path:
        """What writing a trained network as ONNX takes besides; there need be no such file.

        It is no part of the framework, nor of an image that only trains.
        """
        return _HERE / f"requirements-{self.name}-export.txt"

    @property
    def packages(self) -> tuple[str, ...]:
        """The names of the pinned packages."""
        return tuple(re.findall(r"^([\w.-]+)==", self.requirements.read_text(), re.MULTILINE))

    @property
    def version(self) -> str:
        """The version of the framework itself, which is pinned first."""
        pinned = re.findall(r"^[\w.-]+==(\S+)", self.requirements.read_text(), re.MULTILINE)
        return str(pinned[0])

    @property
    def directory(self) -> Path:
        """The environment; never the bare name, which would shadow a package beside scripts."""
        return environments_directory() / f"{self.name}-env"

    @property
    def python(self) -> Path:
        """The environment's Python."""
        return self.directory / "bin" / "python"

    @property
    def log(self) -> Path:
        """What venv and pip said the last time."""
        return environments_directory() / f"{self.name}-env.log"

    @property
    def stamp(self) -> Path:
        """The file that is written last."""
        return self.directory / _STAMP


FRAMEWORKS = {
    made.name: made
    for made in (
        Framework("pytorch", ("torch",), 1030, (*_IMAGES, "transformer")),
        Framework("tensorflow", ("tensorflow",), 1600),
        Framework("mxnet", ("mxnet",), 300, newest_python=(3, 11)),
        Framework("jax", ("jax", "flax", "optax"), 760),
    )
}


def state(framework: Framework) -> State:
    """Whether the environment is there and whole, for the requirements as they are now."""
    if not framework.directory.is_dir():
        return "missing"
    found = facts(framework)
    if found is None or not framework.python.exists():
        return "unfinished"
    return "ready" if found.get("requirements") == _digest(framework) else "outdated"


def facts(framework: Framework) -> dict[str, Any] | None:
    """What the stamp says: the Python and the packages' versions; None where there is none."""
    try:
        found = json.loads(framework.stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def words(framework: Framework) -> list[str]:
    """The command that runs the training script in its environment; InputError before set-up."""
    if state(framework) not in ("ready", "outdated"):
        raise InputError(
            framework.name,
            "no environment",
            f"one made by `forerun workload setup {framework.name}`",
        )
    return [str(framework.python), str(framework.script)]


def set_up(framework: Framework, say: Say, passing: Say, python: str | None = None) -> None:
    """Make the environment, or go on with it, unless it is ready.

    `say` gets the steps, `passing` each line of the programs that do them.
    """
    with _alone(framework, say):
        if state(framework) == "ready":
            say(f"{framework.name}: already in {framework.directory}")
            return
        made = framework.python.exists()
        base = str(framework.python) if made else python or sys.executable
        _check_python(framework, base)
        _check_space(framework)
        framework.stamp.unlink(missing_ok=True)
        with framework.log.open("w", encoding="utf-8") as log:
            steps = _Steps(framework, say, passing, log)
            if not made:
                steps.run("making the environment", base, "-m", "venv", str(framework.directory))
            files = [word for file in _files(framework) for word in ("-r", str(file))]
            install = ("install", *_PIP_OPTIONS, *files)
            pins, own = ", ".join(_pins(framework)), str(framework.python)
            steps.run(f"installing {pins}", own, "-m", "pip", *install)
            asked = json.dumps([framework.modules, framework.packages])
            told = steps.run("importing it", own, "-c", _ASK, asked)
        _write_stamp(framework, json.loads(told))
        say(f"{framework.name}: ready in {framework.directory}")


@dataclass(frozen=True, slots=True)
class _Steps:
    """Runs programs one by one: what they are for is said, what they print is logged."""

    framework: Framework
    say: Say
    passing: Say
    log: TextIO

    def run(self, what: str, python: str, *arguments: str) -> str:
        """The last line that Python prints, with these arguments; InputError where it fails."""
        name, last = self.framework.name, ""
        self.say(f"{name}: {what}")
        with subprocess.Popen(
            [python, "-I", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as step:
            assert step.stdout is not None
            for line in step.stdout:
                self.log.write(line)
                last = line.strip() or last
                self.passing(f"{name}: {line.strip()}")
        if step.returncode != 0:
            found = last or f"exit code {step.returncode}"
            raise InputError(f"{name}, {what}", found, f"success; see {self.framework.log}")
        return last


def _files(framework: Framework) -> list[Path]:
    return [framework.requirements, *(f for f in (framework.exporting,) if f.is_file())]


def _pins(framework: Framework) -> list[str]:
    texts = (file.read_text(encoding="utf-8") for file in _files(framework))
    lines = (line for text in texts for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _write_stamp(framework: Framework, told: dict[str, Any]) -> None:
    document = {"framework": framework.name, "requirements": _digest(framework), **told}
    part = framework.stamp.with_suffix(".part")
    part.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    part.replace(framework.stamp)


def _digest(framework: Framework) -> str:
    return hashlib.sha256("\n".join(_pins(framework)).encode()).hexdigest()


def _check_python(framework: Framework, base: str) -> None:
    """InputError for a Python that is not there, or for which the framework has no packages."""
    ask = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run(
            [base, "-I", "-c", ask], capture_output=True, text=True, check=True, timeout=60
        )
        version = tuple(map(int, done.stdout.split()))
    except (OSError, ValueError, subprocess.SubprocessError):
        raise InputError("--python", base, "a Python that runs") from None
    newest = framework.newest_python
    if newest is not None and version > newest:
        wanted = ".".join(map(str, newest))
        raise InputError(
            f"{framework.name}, {base}",
            f"Python {'.'.join(map(str, version))}",
            f"Python {wanted} or older, for instance --python python{wanted}",
        )


def _check_space(framework: Framework) -> None:
    free = shutil.disk_usage(environments_directory()).free
    needed = 2 * framework.megabytes * 10**6  # what is fetched lies beside what is installed
    if free < needed:
        where, found = str(environments_directory()), f"{free / 1e6:.0f} MB free"
        raise InputError(where, found, f"at least {needed / 1e6:.0f} MB for {framework.name}")


@contextmanager
def _alone(framework: Framework, say: Say) -> Iterator[None]:
    """One set-up of an environment at a time: the second waits, and finds it ready."""
    environments_directory().mkdir(parents=True, exist_ok=True)
    with (environments_directory() / f"{framework.name}-env.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say(f"{framework.name}: waiting for another set-up")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
