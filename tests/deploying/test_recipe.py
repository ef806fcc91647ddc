"""Recipes: golden files of each flavour in both formats, and strings that mean harm."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from forerun import __version__
from forerun._documents import validated
from forerun.deploying.blocks import FORMATS, Format
from forerun.deploying.choice import image_of
from forerun.deploying.image import Flavour, ImageSpec
from forerun.deploying.lock import Lock, Package, made
from forerun.deploying.recipe import FILES, render
from forerun.errors import InputError
from forerun.factors import Point
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate
from forerun.planning.request import Request

GOLDEN = Path(__file__).parent / "golden"
BASE = "docker.io/library/debian:bookworm-slim"
CLUSTER = Infrastructure.model_validate(
    {
        "name": "c",
        "partitions": {
            "cpu": {
                "nodes": 4,
                "processors": {"microarchitecture": "zen3", "cores": 4},
                "memory": "16 GiB",
            },
            "gpu": {
                "nodes": 1,
                "processors": {"microarchitecture": "icelake", "cores": 8},
                "memory": "64 GiB",
                "accelerators": {"kind": "nvidia"},
            },
        },
    }
)
LEVERS = {"threads": 2, "affinity": "close", "allocator": "jemalloc", "precision": "bfloat16"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('trained')\n")
    return tmp_path


def chosen(project: Path, flavour: Flavour, partition: str, framework: str) -> ImageSpec:
    command = "python train.py --batch {batch}"
    request = Request.model_validate(
        {
            "name": "LeNet 5",
            "application": {
                "command": command,
                "framework": framework,
                "directory": str(project),
            },
        }
    )
    candidate = Candidate(Point({"batch": 64, **LEVERS}), partition, 1)
    return image_of(candidate, request, CLUSTER, flavour)


def locked(spec: ImageSpec, project: Path) -> Lock:
    """A lock with hashes of its own making: pip is not asked."""
    packages = tuple(
        Package(
            name=name,
            version=version,
            file=f"{name}-{version}-py3-none-any.whl",
            sha256=f"{number:064x}",
        )
        for number, (name, version) in enumerate(sorted(spec.packages.items()))
    )
    return made(spec, packages, project)


def case(name: str, project: Path) -> tuple[ImageSpec, Lock | None]:
    if name == "official":
        return chosen(project, "official", "gpu", "tensorflow"), None
    if name == "locked":
        digest = "sha256:" + "5" * 64
        spec = replace(chosen(project, "pip", "cpu", "pytorch"), digest=digest)
        return spec, locked(spec, project)
    return chosen(project, "pip" if name == "pip" else "source", "cpu", "pytorch"), None


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["official", "pip", "locked", "source"])
def test_golden(name: str, form: Format, project: Path) -> None:
    found = render(*_arguments(name, form, project)).replace(__version__, "VERSION")
    # The hash of a lock changes with forerun's version, which is in it.
    found = re.sub("(forerun.lock.*sha256:)[0-9a-f]{64}", r"\1HASH", found)
    golden = GOLDEN / f"{name}.{FILES[form]}"
    if os.environ.get("GOLDEN") == "write":
        golden.write_text(found)
    assert found == golden.read_text(), "GOLDEN=write pytest … writes it anew"


def _arguments(name: str, form: Format, project: Path) -> tuple[ImageSpec, Format, Lock | None]:
    spec, lock = case(name, project)
    return spec, form, lock


def test_the_same_image_is_the_same_bytes_whatever_the_order(project: Path) -> None:
    spec = chosen(project, "pip", "cpu", "pytorch")
    turned = replace(
        spec,
        packages=dict(reversed(list(spec.packages.items()))),
        environment=dict(reversed(list(spec.environment.items()))),
    )
    for form in FORMATS:
        assert render(spec, form) == render(turned, form) == render(spec, form)


def test_a_lock_of_another_image_is_refused(project: Path) -> None:
    spec, lock = case("locked", project)
    other = replace(spec, packages={**spec.packages, "numpy": "2.4.5"})
    with pytest.raises(InputError) as refused:
        render(other, "docker", lock)
    assert str(refused.value) == (
        "lock: found numpy 2.4.6, expected a lock of the image lenet-5 as it is now: make it again"
    )


def test_the_entry_is_the_same_in_both_formats() -> None:
    spec = ImageSpec("a", "pip", BASE, entry=("/opt/venv/bin/python", "train.py", "--batch=64"))
    assert render(spec, "docker").endswith(
        'ENTRYPOINT ["/opt/venv/bin/python", "train.py", "--batch=64"]\n'
    )
    assert render(spec, "apptainer").endswith(
        '%runscript\n    exec /opt/venv/bin/python train.py --batch=64 "$@"\n'
    )


# What means something to a shell, a Dockerfile, a definition file, pip or apt-get; and around it
# what makes it look like one of our values.
HARM = (
    *("$(touch CANARY)", "`touch CANARY`", "; touch CANARY", "| touch CANARY", "&& touch CANARY"),
    *("\ntouch CANARY", "\nRUN touch CANARY", "\r\nRUN touch CANARY", "\n%post\ntouch CANARY"),
    *("'; touch CANARY; '", '"; touch CANARY; "', '"$(touch CANARY)"', "\\\ntouch CANARY"),
    *("\\", "${IFS}touch${IFS}CANARY", "{{ CANARY }}", "<<EOF", "../../etc/passwd", "/etc/passwd"),
    *("--index-url=http://canary.example", "-o=Dpkg::Pre-Invoke::=touch", "\x00", "\x1b[2J"),
    *("\u2028RUN touch CANARY", "\u0085RUN touch CANARY", "\u202e", "*", "~root", "!touch", "#"),
    *("> CANARY", "$HOME", "%test", "[ and-cuda ]", "@sha256:", "git+https://canary.example"),
)
AROUND = (
    *("{}", "a{}", "{}a", "a {} b", "1.0{}", "/app/{}", "sha256:{}", "https://a.example/{}"),
    *("regex[{}]", "numpy[{}"),  # names that are compared without what is in brackets
)
HOSTILE = [around.format(harm) for harm in HARM for around in AROUND]
HARMLESS = re.compile(r"[A-Za-z0-9_@%+=:,./ ;()~\[\]-]*", re.ASCII)
FULL = ImageSpec(
    name="a",
    flavour="source",
    base=BASE,
    digest="sha256:" + "1" * 64,
    framework="pytorch",
    version="2.13.0",
    microarchitecture="x86_64_v3",
    system=("libgomp1",),
    build=("make",),
    packages={"numpy": "2.4.6", "regex": "2026.11.9"},
    source=("regex",),
    index="https://a.example/simple",
    allocator="jemalloc",
    environment={"OMP_NUM_THREADS": "2"},
    files=("train.py",),
    entry=("/opt/venv/bin/python", "train.py"),
    labels={"a.b": "c"},
    test=("/opt/venv/bin/python", "-c", "import sys"),
)


def with_each(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Changes that put a text into each place of a spec that a text can be in."""
    for one in fields(FULL):
        value = getattr(FULL, one.name)
        if isinstance(value, str):
            yield one.name, {one.name: text}
        elif isinstance(value, tuple):
            for place in range(len(value)):
                yield one.name, {one.name: (*value[:place], text, *value[place + 1 :])}
        else:
            name = next(iter(value))
            yield one.name, {one.name: {**value, name: text}}
            yield one.name, {one.name: {**value, text: value[name]}}


def verbs(recipe: str) -> list[str]:
    """The instructions of a Dockerfile, or the sections of a definition, in order."""
    words = (line.split(" ")[0] for line in recipe.splitlines())
    return [word for word in words if re.fullmatch(r"[A-Z]+|%\w+|\w+:", word)]


def section(recipe: str, name: str) -> str:
    return recipe.partition(f"%{name}\n")[2].partition("\n\n")[0]


def test_there_are_enough_hostile_strings() -> None:
    assert len(set(HOSTILE)) >= 200


@pytest.mark.parametrize("harm", HARM)
def test_hostile_strings_are_refused_or_harmless(harm: str, tmp_path: Path) -> None:
    plain = {form: verbs(render(FULL, form)) for form in FORMATS}
    refused = 0
    for text in (around.format(harm) for around in AROUND):
        for name, changes in with_each(text):
            try:
                spec = replace(FULL, **changes)
            except InputError as error:
                refused += len(str(error).splitlines()) == 1
                continue
            refused += 1
            if name == "files":  # never in a recipe: the folder that they are copied to is
                assert all(render(spec, form) == render(FULL, form) for form in FORMATS)
                continue
            assert HARMLESS.fullmatch(text), (name, text)
            recipes = {form: render(spec, form) for form in FORMATS}
            assert {form: verbs(recipe) for form, recipe in recipes.items()} == plain
            body = "\n".join(section(recipes["apptainer"], s) for s in ("environment", "test"))
            subprocess.run(["/bin/sh", "-c", body], cwd=tmp_path, capture_output=True, check=False)
            assert not list(tmp_path.iterdir()), (name, text)
    assert refused == len(AROUND) * sum(1 for _ in with_each(harm))


def with_each_of(value: Any, text: str) -> Iterator[Any]:
    """A document with a text in the place of each string in it, of names of fields too."""
    if isinstance(value, str):
        yield text
    elif isinstance(value, list):
        for n, one in enumerate(value):
            yield from ([*value[:n], new, *value[n + 1 :]] for new in with_each_of(one, text))
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from ({**value, name: new} for new in with_each_of(one, text))
            yield {**{key: other for key, other in value.items() if key != name}, text: one}


@pytest.mark.parametrize("harm", HARM)
def test_a_hostile_lock_is_refused_or_changes_nothing(harm: str) -> None:
    packages = tuple(
        Package(
            name=name,
            version=version,
            file="a.tar.gz",
            sha256="a" * 64,
            source=name in FULL.source,
        )
        for name, version in FULL.packages.items()
    )
    image = replace(FULL, files=())
    lock = made(image, packages)
    pins = re.compile("(?<===)[A-Za-z0-9.+]+|(?<=sha256:)[0-9a-f]+")
    plain = pins.sub("", lock.requirements())
    refused = 0
    for text in (harm, f"a{harm}", f"1.0{harm}", "a" * 64 + harm):
        for document in with_each_of(lock.model_dump(mode="json"), text):
            try:
                hostile = validated(Lock, document)
                hostile.check(image)
            except InputError as error:
                refused += len(str(error).splitlines()) == 1
                continue
            refused += 1
            assert text.isprintable()
            written = hostile.requirements().replace(hostile.forerun, __version__)
            assert pins.sub("", written) == plain
    assert refused == 4 * sum(1 for _ in with_each_of(lock.model_dump(mode="json"), ""))


def test_what_passes_does_so_as_one_word() -> None:
    spec = replace(FULL, test=("/usr/bin/env", "a b", ";", "(c)"))
    line = section(render(spec, "apptainer"), "test")
    assert shlex.split(line) == ["/usr/bin/env", "a b", ";", "(c)"]
