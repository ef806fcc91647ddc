"""What pip would install into an image, from its own report; nothing is installed or built."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit

from forerun._documents import validated
from forerun.deploying.image import ImageSpec, plain_name
from forerun.deploying.lock import Package
from forerun.errors import InputError, one_line

PATIENCE = 900.0  # seconds: pip fetches what tells it of nothing but itself
READING = 120.0  # seconds in which an index's page is read, however slowly it comes
# Without -I a file pip.py of the current directory, which may be anybody's project, is run instead.
_PIP = ("-I", "-m", "pip", "--disable-pip-version-check")
_GLIBC = range(28, 4, -1)  # minor versions whose wheels run on Debian 10 and whatever is later
_LARGEST = 2**26  # bytes of an index's page
_PYPI = "https://pypi.org/simple"
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.2"
_LINK = re.compile(r'href="([^"#]+)#sha256=([0-9a-f]{64})"')


def resolve(spec: ImageSpec, python: str | None = None) -> tuple[Package, ...]:
    """The packages of an image with all that they need, each by its file."""
    if platform.machine() != spec.machine or sys.platform != "linux":
        here = f"{sys.platform} on {platform.machine()}"
        expected = f"a machine of the image's kind, {spec.machine}, or a lock that was made on one"
        raise InputError("lock", here, expected)
    asked = python or sys.executable
    found = packages_of(_report(spec, asked))
    built = {plain_name(name) for name in spec.source}
    indices = [*([spec.index] if spec.index else []), *_indices(asked)] if built else []
    return tuple(_built(one, indices) if one.name in built else one for one in found)


def packages_of(report: Mapping[str, Any]) -> tuple[Package, ...]:
    """The packages of a report of `pip install --report`."""
    try:
        return tuple(_package(one) for one in report["install"])
    except (AttributeError, KeyError, TypeError):
        raise InputError("pip's report", "something else", "packages with their hashes") from None


def _package(one: Mapping[str, Any]) -> Package:
    told, archive = one["metadata"], one["download_info"]["archive_info"]
    digest = archive.get("hashes", {}).get("sha256") or archive["hash"].removeprefix("sha256=")
    document = {
        "name": plain_name(told["name"]),
        "version": told["version"],
        "file": unquote(urlsplit(one["download_info"]["url"]).path).rpartition("/")[2],
        "sha256": digest,
        "spdx": _line(told.get("license_expression") or ""),
        "licence": "" if told.get("license_expression") else _licence(told),
    }
    return validated(Package, document, f"pip's report, {document['name']}: ")


def _licence(told: Mapping[str, Any]) -> str:
    """What a package says of its licence; not the whole text, which some put there."""
    own = str(told.get("license") or "").strip()
    if own and "\n" not in own and own != "UNKNOWN":
        return _line(own)
    kinds = (str(one) for one in told.get("classifier") or ())
    named = [one.rpartition(" :: ")[2] for one in kinds if one.startswith("License :: ")]
    return _line(", ".join(named)) or _line(own.partition("\n")[0])


def _line(text: str) -> str:
    return one_line(str(text).strip())[:200]


def _report(spec: ImageSpec, python: str) -> Mapping[str, Any]:
    words = [
        *(python, *_PIP, "install", "--dry-run", "--ignore-installed", "--quiet"),
        *("--no-input", "--only-binary", ":all:"),
        *("--implementation", "cp", "--python-version", spec.python),
    ]
    for name in platforms(spec.machine):
        words += ["--platform", name]
    if spec.flavour == "official":
        words.append("--no-deps")  # the image has what they need
    if spec.index:
        words += ["--extra-index-url", spec.index]
    asked = [f"{name}=={version}" for name, version in sorted(spec.packages.items())]
    with tempfile.TemporaryDirectory(prefix="forerun-") as folder:
        report = Path(folder, "report.json")
        _run([*words, "--report", str(report), "--", *asked])
        return dict(json.loads(report.read_text(encoding="utf-8")))


def platforms(machine: str) -> Iterator[str]:
    """The tags of wheels that an image's machine can use, the newest first."""
    yield from (f"manylinux_2_{minor}_{machine}" for minor in _GLIBC)
    yield from (f"manylinux{year}_{machine}" for year in (2014, 2010, 1))
    yield f"linux_{machine}"


def _run(words: list[str]) -> str:
    """What a program printed; InputError where it fails."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
        )
    except OSError as error:
        raise InputError("lock", f"{words[0]}: {error}", "a Python with pip") from None
    except subprocess.TimeoutExpired:
        raise InputError("lock", f"no answer in {PATIENCE:g} s", "pip's index in reach") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in said if line.startswith("ERROR")] or said
        found = errors[-1].removeprefix("ERROR: ") if errors else f"exit code {done.returncode}"
        raise InputError("lock, pip", found, "versions that its index has for the image's Python")
    return done.stdout


def _built(one: Package, indices: Sequence[str]) -> Package:
    """A package with the file of its source instead of its wheel's, as an index lists it.

    pip would run the package's own program to tell this.
    """
    for index in dict.fromkeys(indices):
        for file, digest in listed(f"{index.rstrip('/')}/{one.name}/"):
            stem = file.removesuffix(".tar.gz")
            if stem != file and plain_name(stem) == plain_name(f"{one.name}-{one.version}"):
                own = {**one.model_dump(), "file": file, "sha256": digest, "source": True}
                return validated(Package, own, f"the index's page of {one.name}: ")
    raise InputError(f"lock, {one.name} {one.version}", "no source", "a package that has a .tar.gz")


def _indices(python: str) -> Iterator[str]:
    """Where pip looks, by its settings and variables: `global.index-url='https://…'`."""
    own: list[str] = []
    more: list[str] = []
    for line in _run([python, *_PIP, "config", "list"]).splitlines():
        name, _, value = line.partition("=")
        if name.endswith(".index-url"):
            own.append(value.strip("'\""))
        elif name.endswith(".extra-index-url"):
            more += value.strip("'\"").replace("\\n", " ").split()
    yield from own[-1:] or [_PYPI]  # variables come last
    yield from more


def listed(page: str) -> Iterator[tuple[str, str]]:
    """The files of an index's page and their hashes; none where there is no such page."""
    if page.startswith("file://"):
        page += "index.html"
    elif not page.startswith("https://"):
        return
    try:
        text = _read(page)
    except (OSError, URLError, ValueError):
        return
    try:
        files = [one for one in json.loads(text)["files"] if isinstance(one.get("hashes"), dict)]
        found = [(one.get("filename"), one["hashes"].get("sha256")) for one in files]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found = [(unquote(link.rpartition("/")[2]), digest) for link, digest in _LINK.findall(text)]
    for file, digest in found:
        if isinstance(file, str) and isinstance(digest, str):
            yield file, digest


def _read(page: str) -> str:
    """A page of an index; OSError where it does not come, or leads to where anybody may answer."""
    asked = urllib.request.Request(page, headers={"Accept": _ACCEPT})
    until = time.monotonic() + READING
    found = bytearray()
    with urllib.request.build_opener(_Secure).open(asked, timeout=60) as answer:
        while chunk := answer.read1(2**16):
            found += chunk
            if len(found) > _LARGEST or time.monotonic() > until:
                raise OSError("a page without an end")
    return found.decode(errors="replace")


class _Secure(urllib.request.HTTPRedirectHandler):
    """Follows an index to other places of https alone."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not newurl.startswith("https://"):
            raise HTTPError(newurl, code, "not https", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)
