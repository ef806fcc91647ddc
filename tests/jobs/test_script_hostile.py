"""Every hostile string in every field of a job: refused, or text and nothing else.

Scripts without a scheduler are run; those for one are compared, word by word, with the script of a
harmless string.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from hostile import ARITHMETIC, CANARY, COMMANDS, STRINGS, VARIABLES
from job_specs import PLAIN
from patience import LONG

from forerun.errors import InputError
from forerun.jobs.script import Scheduler, render
from forerun.jobs.spec import Container, JobSpec, Runtime, Staging, commands

MARK = "zzz9zzz"  # harmless, and in no template
MARKS = {"folder": f"/{MARK}", "source": f"/{MARK}"}  # for fields that take paths alone
SCHEDULERS: tuple[Scheduler, ...] = ("slurm", "pbs", "none")
IMAGE = Container("apptainer", "image.sif")

# How a string gets into each field.
FIELDS: dict[str, Callable[[str], JobSpec]] = {
    "name": lambda text: replace(PLAIN, name=text),
    "words, program": lambda text: replace(PLAIN, words=(text, "x")),
    "words, argument": lambda text: replace(PLAIN, words=("x", text, "y")),
    "words, mpi": lambda text: replace(PLAIN, words=("x", text), launcher="mpi"),
    "words, torchrun": lambda text: replace(
        PLAIN, words=("python", "x.py", text), launcher="torchrun"
    ),
    "words, image": lambda text: replace(PLAIN, words=("x", text), container=IMAGE),
    "folder": lambda text: replace(PLAIN, folder=text),
    "folder, below": lambda text: replace(PLAIN, folder=f"/{text}"),
    "uid": lambda text: replace(PLAIN, uid=text),
    "directory": lambda text: replace(PLAIN, directory=f"/{text}"),
    "environment, name": lambda text: replace(PLAIN, environment={text: "x"}),
    "environment, value": lambda text: replace(PLAIN, environment={"X": text}),
    "environment, image": lambda text: replace(PLAIN, environment={"X": text}, container=IMAGE),
    "queue": lambda text: replace(PLAIN, queue=text),
    "features": lambda text: replace(PLAIN, features=("x", text)),
    "hosts": lambda text: replace(PLAIN, hosts=(text,)),
    "account": lambda text: replace(PLAIN, account=text),
    "qos": lambda text: replace(PLAIN, qos=text),
    "array": lambda text: replace(PLAIN, array=text),
    "after": lambda text: replace(PLAIN, after=text),
    "begin": lambda text: replace(PLAIN, begin=text),
    "output": lambda text: replace(PLAIN, output=text),
    "errors": lambda text: replace(PLAIN, errors=text),
    "mail_to": lambda text: replace(PLAIN, mail_to=text, mail_on=("end",)),
    "mail_to, name": lambda text: replace(PLAIN, mail_to=f"{text}@example.org"),
    "variables": lambda text: replace(PLAIN, variables=("X", text)),
    "prologue, program": lambda text: replace(PLAIN, prologue=((text, "x"),)),
    "prologue, argument": lambda text: replace(PLAIN, prologue=(("x", text),)),
    "epilogue, program": lambda text: replace(PLAIN, epilogue=((text, "x"),)),
    "epilogue, argument": lambda text: replace(PLAIN, epilogue=(("x", text),)),
    "source": lambda text: replace(PLAIN, source=text),
    "source, file": lambda text: replace(PLAIN, source=f"https://example.org/{text}"),
    "source, git": lambda text: replace(PLAIN, source=f"https://example.org/{text}.git"),
    "source, directory": lambda text: replace(PLAIN, source=f"/{text}"),
    "build": lambda text: replace(PLAIN, source="/x", build=((text, "x"), ("x", text))),
    "build, image": lambda text: replace(PLAIN, source="/x", build=(("x", text),), container=IMAGE),
    "staging, source": lambda text: replace(PLAIN, staging=Staging(f"/{text}", "/x")),
    "staging, target": lambda text: replace(PLAIN, staging=Staging("/x", f"/{text}")),
    "container, image": lambda text: replace(PLAIN, container=Container("docker", text)),
    "container, binds": lambda text: replace(PLAIN, container=replace(IMAGE, binds=(text,))),
    "container, bind of docker": lambda text: replace(
        PLAIN, container=Container("docker", "x", (f"/{text}",))
    ),
    "container, bind of ch-run": lambda text: replace(
        PLAIN, container=Container("charliecloud", "x", (f"/{text}",))
    ),
    "container, bind of podman": lambda text: replace(
        PLAIN, container=Container("podman", "x", (f"/{text}",))
    ),
    "container, bind of singularity": lambda text: replace(
        PLAIN, container=Container("singularity", "x", (text,))
    ),
    "container, image of apptainer": lambda text: replace(
        PLAIN, container=Container("apptainer", text)
    ),
    "container, image of singularity": lambda text: replace(
        PLAIN, container=Container("singularity", text)
    ),
    "container, image of podman": lambda text: replace(PLAIN, container=Container("podman", text)),
    "container, image of ch-run": lambda text: replace(
        PLAIN, container=Container("charliecloud", text)
    ),
    "staging, nodes": lambda text: replace(
        PLAIN, nodes=2, staging=Staging(f"/from/{text}", f"/to/{text}")
    ),
    "made_by": lambda text: replace(PLAIN, made_by=(text, f"x {text}")),
}
# Where one scheduler's script shows it all, or one cannot do it.
SCHEDULERS_OF: dict[str, tuple[Scheduler, ...]] = {
    **{field: ("none",) for field in FIELDS if " of " in field},
    "staging, nodes": ("slurm", "pbs"),
}
EACH = [(field, one) for field in FIELDS for one in SCHEDULERS_OF.get(field, SCHEDULERS)]
# No string of the corpus is one of these.
ALWAYS_REFUSED = {"uid", "array", "after", "begin", "mail_to"}


def script(field: str, text: str, scheduler: Scheduler, expand: bool = False) -> str | None:
    """The script with a string in a field; None where it is refused, in one line."""
    refusal = ""
    try:
        return render(replace(FIELDS[field](text), expand=expand), scheduler)
    except InputError as error:
        refusal = str(error)
    assert refusal.isprintable()
    assert len(refusal) < 500
    return None


harmless = cache(script)


def test_no_field_that_takes_strings_is_forgotten() -> None:
    held = {field.partition(",")[0] for field in FIELDS}
    numbers = {"nodes", "processes", "cores", "accelerators", "memory", "memory_per_core"}
    closed = {"launcher", "accelerator", "mail_on"}  # names from a table, or they would be refused
    others = {"expand", "exclusive", "copy_environment", "walltime", "requeues", "warning"}
    assert held == {one.name for one in fields(JobSpec)} - numbers - closed - others
    assert len(STRINGS) >= 200


@pytest.mark.parametrize(("field", "scheduler"), EACH)
def test_a_string_stays_one_word_where_it_stands(field: str, scheduler: Scheduler) -> None:
    taken = 0
    for text in STRINGS:
        absolute = field in ("output", "errors") and text.startswith("/")
        mark = f"/{MARK}" if absolute else MARKS.get(field, MARK)
        expected, found = harmless(field, mark, scheduler), script(field, text, scheduler)
        if found is None:
            continue
        taken += 1
        assert text.isprintable()
        assert expected is not None
        assert directive_names(found) == directive_names(expected)
        if field in ("source", "source, file"):  # what it is decides what is done with it
            lines = [
                one for one in found.splitlines() if "--url" in one or "forerun_source=/" in one
            ]
            assert any(word.endswith(text) for line in lines for word in words(line))
        elif field != "name":  # PBS takes a part of it
            assert_same_but_for(mark, text, found, expected)
    assert (taken == 0) == (field in ALWAYS_REFUSED)


def assert_same_but_for(mark: str, text: str, found: str, expected: str) -> None:
    """A script is that of the harmless string, with another word in its place."""
    lines, others = found.splitlines(), expected.splitlines()
    assert len(lines) == len(others)
    for line, other in zip(lines, others, strict=True):
        if mark not in other:
            assert line == other
        elif other.startswith("# "):
            assert line == other.replace(mark, text)
        elif line != other.replace(mark, shlex.quote(text)):
            assert words(line) == [word.replace(mark, text) for word in words(other)]


def words(line: str) -> list[str]:
    text = line.replace("program=(", "program=( ").removesuffix(")")
    return shlex.split(text.removesuffix(" \\"))


def directive_names(text: str) -> list[str]:
    """The options that a scheduler reads, wherever it looks for them."""
    lines = [line for line in text.splitlines() if line.startswith(("#SBATCH", "#PBS", "#BSUB"))]
    return [re.split(r"[= ]", line.split(" ", 1)[1], maxsplit=1)[0] for line in lines]


@pytest.mark.parametrize(("field", "scheduler"), EACH)
def test_variables_change_no_directive(field: str, scheduler: Scheduler) -> None:
    expected = directive_names(script(field, MARKS.get(field, MARK), scheduler) or "")
    for text in (text for text in STRINGS if "${" in text):
        found = script(field, text, scheduler, expand=True)
        if found is not None and expected:
            assert directive_names(found) == expected


@pytest.mark.parametrize("runtime", get_args(Runtime))
def test_no_runtime_is_forgotten(runtime: Runtime) -> None:
    names = {
        container.runtime
        for field, make in FIELDS.items()
        if "image" in field and (container := make(MARK).container)
    }
    assert runtime in names


HARMLESS = [text for text in STRINGS if text.isprintable()]
SHOWS = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['X']]))"


@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_no_string_runs_anything(tmp_path: Path, part: int, expand: bool) -> None:
    for number, text in enumerate(HARMLESS[part::4]):
        if expand and "${" not in text:
            continue
        folder = tmp_path / str(number)
        code, output = run(folder, text, expand)
        canaries = [path for path in folder.rglob("*") if CANARY in path.name]
        assert not canaries, text
        if not expand:
            assert code == 0, (text, output)
            assert json.loads(output.splitlines()[0]) == [[text, "end"], text], text


# Runs what it is to run inside, and forgets the image.
RUNTIME = '#!/bin/sh\nwhile test "$1" != --; do shift; done\nshift\nexec "$@"\n'


@pytest.mark.parametrize("expand", [False, True])
def test_no_string_runs_anything_around_an_image(tmp_path: Path, expand: bool) -> None:
    (tmp_path / "ch-run").write_text(RUNTIME)
    (tmp_path / "ch-run").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    for number, text in enumerate((*COMMANDS[::4], *(one for one in HARMLESS if "${" in one))):
        folder = tmp_path / str(number)
        code, output = run(folder, text, expand, Container("charliecloud", f"x{text}"), path)
        assert not [one for one in folder.rglob("*") if CANARY in one.name], text
        if not expand:
            assert code == 0, (text, output)
            assert json.loads(output.splitlines()[0]) == [[text, "end"], text], text


def run(
    folder: Path,
    text: str,
    expand: bool,
    container: Container | None = None,
    path: str = os.environ["PATH"],
) -> tuple[int, str]:
    """Run a job with a string wherever a shell reads it; its exit code and what it printed."""
    (folder / "in").mkdir(parents=True)
    programs = ((text,),) if text and not text.startswith("-") else ()
    spec = replace(
        PLAIN,
        words=(sys.executable, "-I", "-S", "-c", SHOWS, text, "end"),
        expand=expand,
        folder=str(folder),
        directory=str(folder / "in"),
        environment={"X": text},
        prologue=(("true", text),),
        epilogue=(("true", text), *programs),
        source=str(folder),
        build=(("true", text),),
        made_by=(text,),
        container=container,
    )
    (folder / "job.sh").write_text(render(spec, "none"))
    environment = {**os.environ, "HOME": str(folder), "PATH": path}
    done = subprocess.run(
        ["bash", folder / "job.sh"], cwd=folder / "in", env=environment, timeout=LONG
    )
    return done.returncode, (folder / "job.out").read_text()


def assigned(name: str, value: str) -> str | None:
    """The line by which a script sets a variable; None where it is refused."""
    try:
        text = render(replace(PLAIN, environment={name: value}), "none")
    except InputError:
        return None
    (line,) = [one for one in text.splitlines() if one.startswith(f"export {name}=")]
    assert line == f"export {name}={shlex.quote(value)}"
    return line


@pytest.fixture(scope="module")
def of_bash() -> list[str]:
    """Every variable that bash has without being told, and those of its manual."""
    command = ["env", "-i", "bash", "--norc", "-c", "compgen -v"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert {"RANDOM", "OPTIND", "BASH_VERSINFO"} <= set(listed)
    return sorted({*VARIABLES, *listed})


def test_no_variable_of_the_shell_runs_its_value(tmp_path: Path, of_bash: list[str]) -> None:
    values = (ARITHMETIC, *COMMANDS)
    taken = [name for name in of_bash if assigned(name, ARITHMETIC)]
    assert {"HOME", "LANG", "LC_ALL", "PATH", "TERM", "TMPDIR"} <= set(taken)
    assert not {"BASH_ENV", "ENV", "HISTCMD", "OPTIND", "PS4", "RANDOM", "SRANDOM"} & set(taken)
    names = (*taken, "X", "LD_PRELOAD", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PYTHONPATH")
    # Each in a shell of its own, and read as the script does; a tick says that nothing broke.
    lines = [
        f"({assigned(name, value)}; : ${name}; [[ -n ${name} ]]; cd /; set +u; echo -n .)"
        for name in names
        for value in values
    ]
    (tmp_path / "all.sh").write_text("set -euo pipefail\n" + "\n".join(lines))
    done = subprocess.run(["bash", "all.sh"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "." * len(names) * len(values)
    assert [path.name for path in tmp_path.iterdir()] == ["all.sh"]


def test_a_shell_that_did_run_a_value_would_be_seen(tmp_path: Path) -> None:
    for name in ("HISTCMD", "OPTIND", "RANDOM", "SRANDOM"):
        line = f"set -euo pipefail; export {name}={shlex.quote(ARITHMETIC)}"
        subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True)
        (tmp_path / CANARY).unlink()


@pytest.mark.parametrize("name", ["RANDOM", "BASH_ENV", "PS4", "BASH_ANYTHING", "HOSTNAME"])
def test_no_variable_of_the_shell_is_handed_over_either(name: str) -> None:
    with pytest.raises(InputError, match=name):
        render(replace(PLAIN, variables=(name,)), "slurm")


@pytest.mark.parametrize("text", [text for text in HARMLESS if len(text) < 200])
def test_commands_are_words_or_refused(text: str) -> None:
    try:
        found = commands("prologue", f"true {text}")
    except InputError:
        return
    for command in found:
        spec = replace(PLAIN, prologue=(command,))
        (line,) = [one for one in render(spec, "none").splitlines() if one.startswith("true")]
        assert tuple(shlex.split(line)) == command


def test_a_shell_that_did_run_a_string_would_be_seen(tmp_path: Path) -> None:
    for text in COMMANDS[:4]:
        subprocess.run(["bash", "-c", f"echo {text}"], cwd=tmp_path, capture_output=True)
        (tmp_path / CANARY).unlink()
