"""What an image was made of, to the byte, so that the same plan gives the same image tomorrow.

A lock holds the exact version and the hash of each of Python's packages (as pip finds them for the
image's Python and machine), the digest of the base image where it is known, the hashes of the
application's files, and forerun's version. It has no time in it: the same again is the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from forerun import __version__
from forerun._documents import Table, read_json, validated
from forerun.deploying.image import ImageSpec, Machine, plain_name
from forerun.errors import InputError

_HASH = r"^[0-9a-f]{64}$"
_CHUNK = 2**20  # bytes

Hash = Annotated[str, Field(pattern=_HASH)]
Version = Annotated[str, Field(pattern=r"^[0-9][A-Za-z0-9.+]{0,63}$")]


def _line(text: str) -> str:
    if len(text) > 300 or not text.isprintable():
        raise ValueError("a text of one line, without control characters")
    return text


Line = Annotated[str, AfterValidator(_line)]


class Package(Table):
    """One of Python's packages: the very file that is installed, and its licence."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,98}[a-z0-9])?$")]
    version: Version
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,253}$")]
    sha256: Hash
    spdx: Line = ""  # its licence as an SPDX expression
    licence: Line = ""  # or in its own words, where it has no such expression
    source: bool = False  # built from it, and not only unpacked


class Lock(Table):
    """All that an image is made of."""

    forerun: Version
    base: Line
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    python: Annotated[str, Field(pattern=r"^3\.[0-9]{1,2}$")]
    machine: Machine
    index: Line = ""
    packages: Annotated[tuple[Package, ...], Field(strict=False)] = ()
    system: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    files: dict[Line, Hash] = Field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Self:
        """The lock of a file."""
        return validated(cls, read_json(path), f"{path}: ")

    def to_json(self) -> str:
        """The file that holds it: sorted, so that the same is written in the same way."""
        document = self.model_dump(mode="json")
        return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @property
    def digest_of_all(self) -> str:
        """By which an image can be known to be that of a lock."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def requirements(self) -> str:
        """What pip is given: these files, and no others."""
        lines = [f"# Made by forerun {self.forerun}.", "--require-hashes", "--only-binary :all:"]
        lines += [f"--no-binary {one.name}" for one in self.packages if one.source]
        lines += [f"--extra-index-url {self.index}"] if self.index else []
        for one in self.packages:
            lines.append(f"{one.name}=={one.version} --hash=sha256:{one.sha256}")
        return "\n".join(lines) + "\n"

    def check(self, spec: ImageSpec) -> None:
        """InputError unless it is a lock of this image."""
        expected = f"a lock of the image {spec.name} as it is now: make it again"
        for name in ("base", "digest", "python", "machine", "index"):
            if getattr(self, name) != getattr(spec, name):
                found = f"{name} {getattr(self, name) or 'not given'}"
                raise InputError("lock", found, expected)
        if self.system != spec.system_packages:
            raise InputError("lock", f"Debian's {', '.join(self.system) or 'nothing'}", expected)
        known = {one.name: one for one in self.packages}
        built = {plain_name(name) for name in spec.source}
        for name, version in spec.packages.items():
            one = known.get(plain_name(name))
            if one is None or not same_version(one.version, version):
                raise InputError("lock", f"{name} {one.version if one else 'missing'}", expected)
        if {one.name for one in self.packages if one.source} != built:
            raise InputError("lock", "other packages built from source", expected)
        if set(self.files) != set(spec.files):
            raise InputError("lock", "other files of the application", expected)


def lock_of(spec: ImageSpec, project: Path | None = None, python: str | None = None) -> Lock:
    """The lock of an image, by asking pip what it would install; nothing is installed.

    `project` is where the application's files are; `python` one whose pip is asked, if not ours.
    """
    from forerun.deploying.resolving import resolve

    return made(spec, resolve(spec, python) if spec.packages else (), project)


def made(spec: ImageSpec, packages: tuple[Package, ...], project: Path | None = None) -> Lock:
    """The lock of an image whose packages are known."""
    if spec.files and project is None:
        raise InputError("lock", "no project", "the directory with the application's files")
    lock = Lock(
        forerun=__version__,
        base=spec.base,
        digest=spec.digest,
        python=spec.python,
        machine=spec.machine,
        index=spec.index,
        packages=tuple(sorted(packages, key=lambda one: one.name)),
        system=spec.system_packages,
        files={name: digest_of(inside(project, name)) for name in spec.files} if project else {},
    )
    lock.check(spec)
    return lock


def same_version(found: str, asked: str) -> bool:
    """Whether a version is the one asked for: 2.13.0+cpu is 2.13.0, and 2.13.0 is 2.13."""
    if "+" not in asked:
        found = found.partition("+")[0]
    return _padded(found) == _padded(asked)


def _padded(version: str) -> str:
    while version.endswith(".0"):
        version = version.removesuffix(".0")
    return version


def inside(project: Path, name: str) -> Path:
    """A file of the application; InputError where it lies outside its project, by a link too."""
    path = project / name
    try:
        found = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise InputError(str(path), "no file", "a file of the application") from None
    if not found.is_relative_to(project.resolve()) or not found.is_file():
        raise InputError(str(path), "a way out of it", "a file inside the project")
    return found


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def sbom(spec: ImageSpec, lock: Lock) -> str:
    """What an image consists of and under which licences, as CycloneDX 1.6 has it, in JSON."""
    version = {"version": lock.digest} if lock.digest else {}
    parts: list[dict[str, Any]] = [
        {"type": "container", "bom-ref": f"base/{lock.base}", "name": lock.base, **version}
    ]
    parts += [
        {"type": "library", "bom-ref": purl, "name": name, "purl": purl}
        for name in lock.system
        for purl in [f"pkg:deb/debian/{name.replace('+', '%2B')}"]
    ]
    parts += [_component(one) for one in lock.packages]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "container", "bom-ref": f"image/{spec.name}", "name": spec.name},
            "tools": {
                "components": [{"type": "application", "name": "forerun", "version": lock.forerun}]
            },
        },
        "components": sorted(parts, key=lambda one: str(one["bom-ref"])),
    }
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _component(one: Package) -> dict[str, Any]:
    purl = f"pkg:pypi/{one.name}@{one.version.replace('+', '%2B')}"
    licences: list[dict[str, Any]] = []
    if one.spdx:
        licences = [{"expression": one.spdx}]
    elif one.licence:
        licences = [{"license": {"name": one.licence}}]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": one.name,
        "version": one.version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": one.sha256}],
        **({"licenses": licences} if licences else {}),
    }
