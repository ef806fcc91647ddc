"""What pip would install: its real answer, from an index of our own making."""

import base64
import hashlib
import json
import ssl
import subprocess
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from patience import ENDLESS, LONG

from forerun.deploying import resolving
from forerun.deploying.image import ImageSpec
from forerun.deploying.lock import digest_of, lock_of
from forerun.deploying.resolving import listed, packages_of, platforms
from forerun.errors import InputError

BASE = "docker.io/library/debian:bookworm-slim"


def wheel(folder: Path, name: str, *lines: str, tag: str = "py3-none-any") -> Path:
    """A wheel with nothing in it."""
    path = folder / f"{name}-1.0-{tag}.whl"
    info = f"{name}-1.0.dist-info"
    texts = {
        f"{info}/METADATA": "\n".join(
            ("Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *lines, "")
        ),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = ""
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in texts.items():
            archive.writestr(file, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            record += f"{file},sha256={digest.decode().rstrip('=')},{len(text)}\n"
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index with two packages, of which one needs the other and has a source as well."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "tiny-1.0.tar.gz").write_bytes(b"a source that nobody unpacks here")
    made = {
        "tiny": [
            wheel(files, "tiny", "Requires-Dist: tinier>=1", "License-Expression: MIT"),
            files / "tiny-1.0.tar.gz",
        ],
        "tinier": [
            wheel(files, "tinier", "Classifier: License :: OSI Approved :: BSD License"),
        ],
    }
    for name, paths in made.items():
        page = tmp_path / "simple" / name / "index.html"
        page.parent.mkdir(parents=True)
        links = (
            f'<a href="{one.as_uri()}#sha256={digest_of(one)}">{one.name}</a>' for one in paths
        )
        page.write_text(f"<!DOCTYPE html><html><body>{' '.join(links)}</body></html>")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    return files


def test_pip_tells_what_it_would_install(index: Path) -> None:
    lock = lock_of(ImageSpec("a", "pip", BASE, packages={"tiny": "1.0"}))
    assert [(one.name, one.version, one.file, one.source) for one in lock.packages] == [
        ("tinier", "1.0", "tinier-1.0-py3-none-any.whl", False),
        ("tiny", "1.0", "tiny-1.0-py3-none-any.whl", False),
    ]
    assert [one.sha256 for one in lock.packages] == [
        digest_of(index / one.file) for one in lock.packages
    ]
    assert [(one.spdx, one.licence) for one in lock.packages] == [("", "BSD License"), ("MIT", "")]


def test_what_is_built_is_locked_by_its_source(index: Path) -> None:
    spec = ImageSpec("a", "source", BASE, packages={"tiny": "1.0"}, source=("tiny",))
    built = {one.name: one for one in lock_of(spec).packages}["tiny"]
    assert (built.file, built.source) == ("tiny-1.0.tar.gz", True)
    assert built.sha256 == digest_of(index / "tiny-1.0.tar.gz")


def test_what_an_official_image_has_is_not_asked_for(index: Path) -> None:
    assert index.is_dir()
    spec = ImageSpec("a", "official", BASE, packages={"tiny": "1.0"})
    assert [one.name for one in lock_of(spec).packages] == ["tiny"]


def test_a_package_without_a_source(index: Path) -> None:
    assert index.is_dir()
    spec = ImageSpec("a", "source", BASE, packages={"tinier": "1.0"}, source=("tinier",))
    with pytest.raises(InputError) as refused:
        lock_of(spec)
    assert str(refused.value) == (
        "lock, tinier 1.0: found no source, expected a package that has a .tar.gz"
    )


def test_a_version_that_no_index_has(index: Path) -> None:
    assert index.is_dir()
    with pytest.raises(InputError) as refused:
        lock_of(ImageSpec("a", "pip", BASE, packages={"tiny": "2.0"}))
    assert str(refused.value) == (
        "lock, pip: found No matching distribution found for tiny==2.0, "
        "expected versions that its index has for the image's Python"
    )


def test_another_machine(index: Path) -> None:
    assert index.is_dir()
    with pytest.raises(InputError, match="expected a machine of the image's kind, ppc64le"):
        lock_of(ImageSpec("a", "pip", BASE, packages={"tiny": "1.0"}, machine="ppc64le"))


def test_a_python_that_is_not_there(index: Path) -> None:
    assert index.is_dir()
    with pytest.raises(InputError, match="expected a Python with pip"):
        lock_of(ImageSpec("a", "pip", BASE, packages={"tiny": "1.0"}), python="/nowhere/python")


def test_wheels_of_an_older_system_do_too() -> None:
    found = list(platforms("x86_64"))
    assert found[0] == "manylinux_2_28_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "linux_x86_64"} <= set(found)


def test_a_licence_that_is_a_whole_text_is_not_kept() -> None:
    told = {"name": "A.b", "version": "1", "license": "Copyright\nAll of it", "classifier": []}
    archive = {"hash": "sha256=" + "a" * 64}
    info = {"url": "https://a.example/x/A.b-1-py3-none-any.whl#x", "archive_info": archive}
    (found,) = packages_of({"install": [{"metadata": told, "download_info": info}]})
    assert (found.name, found.licence, found.file) == ("a-b", "Copyright", "A.b-1-py3-none-any.whl")


@pytest.mark.parametrize(
    "report", [{}, {"install": [1]}, {"install": [{"metadata": {}, "download_info": {}}]}]
)
def test_a_report_of_something_else(report: dict[str, object]) -> None:
    with pytest.raises(InputError, match="expected packages with their hashes"):
        packages_of(report)


def test_a_project_with_a_pip_of_its_own_is_not_run(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pip.py").write_text("open('CANARY', 'w')\n")
    monkeypatch.chdir(tmp_path / "project")
    spec = ImageSpec("a", "source", BASE, packages={"tiny": "1.0"}, source=("tiny",))
    built = {one.name: one for one in lock_of(spec).packages}["tiny"]
    assert built.sha256 == digest_of(index / "tiny-1.0.tar.gz")  # by PIP_INDEX_URL as before
    assert [one.name for one in Path().iterdir()] == ["pip.py"]


def test_an_index_writes_no_line_of_its_own(index: Path, tmp_path: Path) -> None:
    assert index.is_dir()
    page = tmp_path / "simple" / "tiny" / "index.html"
    link = f"tiny-1.0[%0A--find-links=canary.example].tar.gz#sha256={'a' * 64}"
    page.write_text(page.read_text().replace("<body>", f'<body><a href="{link}">x</a>'))
    spec = ImageSpec("a", "source", BASE, packages={"tiny": "1.0"}, source=("tiny",))
    with pytest.raises(InputError) as refused:
        lock_of(spec)
    assert str(refused.value).startswith("the index's page of tiny: file: found tiny-1.0[")
    assert str(refused.value).isprintable()


HASH = "a" * 64


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ({"files": [{"filename": "a.tar.gz", "hashes": {"sha256": HASH}}]}, [("a.tar.gz", HASH)]),
        ({"files": [{"filename": ["a"], "hashes": {"sha256": HASH}}]}, []),
        ({"files": [{"filename": "a", "hashes": {"sha256": 1}}, {"hashes": None}]}, []),
        ({"files": [1]}, []),
        ({"files": 1}, []),
        ([], []),
        ("[" * 100_000, []),
        (f'<a href="x/a%20b.tar.gz#sha256={HASH}">', [("a b.tar.gz", HASH)]),
    ],
)
def test_pages_of_an_index(page: object, found: list[tuple[str, str]], tmp_path: Path) -> None:
    text = page if isinstance(page, str) else json.dumps(page)
    (tmp_path / "index.html").write_text(text)
    assert list(listed(f"{tmp_path.as_uri()}/")) == found


class Index(BaseHTTPRequestHandler):
    """Leads elsewhere, or never comes to an end."""

    def do_GET(self) -> None:
        if self.path == "/slow/":
            self.send_response(200)
            self.end_headers()
            for _ in range(20 * ENDLESS):
                self.wfile.write(b" ")
                time.sleep(0.05)
        elif self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/").rstrip("/"))
            self.end_headers()
        else:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f'<a href="a.tar.gz#sha256={HASH}">'.encode())

    def log_message(self, *_: object) -> None:
        """Nothing is said."""


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The addresses of an index by https, whose certificate is trusted, and of one by http."""
    key, trusted = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    words += ["-keyout", str(key), "-out", str(trusted)]
    subprocess.run(words, check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    made = [ThreadingHTTPServer(("localhost", 0), Index) for _ in range(2)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted, key)
    made[0].socket = context.wrap_socket(made[0].socket, server_side=True)
    for one in made:
        one.daemon_threads = True
        threading.Thread(target=one.serve_forever, args=(0.05,), daemon=True).start()
    yield (
        f"https://localhost:{made[0].server_address[1]}",
        f"http://localhost:{made[1].server_address[1]}",
    )
    for one in made:
        one.shutdown()
        one.server_close()


def test_an_index_leads_to_https_alone(servers: tuple[str, str]) -> None:
    secure, other = servers
    assert list(listed(f"{secure}/a/")) == [("a.tar.gz", HASH)]
    assert list(listed(f"{secure}/to/{secure}/a/")) == [("a.tar.gz", HASH)]
    assert list(listed(f"{secure}/to/{other}/a/")) == []
    assert list(listed(f"{other}/a/")) == []


def test_an_index_that_never_ends(
    servers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "READING", 0.2)
    began = time.monotonic()
    assert list(listed(f"{servers[0]}/slow/")) == []
    assert time.monotonic() - began < 2 * LONG
