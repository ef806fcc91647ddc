"""Apptainer on a machine whose Debian has none, and a registry on this machine for it to ask.

    with registry(layout) as port:
        # a base image's name is 127.0.0.1:port/… from here on
        Apptainer(unpacked(), folder).build(context, image, mounts)

Debian's package is later than the C library of Debian 12: both are fetched by apt, which checks
who signed them, and unpacked into a folder of their own. Nothing is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from images import MIRROR, tried

PROGRAMS = ("apt-get", "dpkg-deb", "mksquashfs", "patchelf")
PACKAGES = ("apptainer/sid", "libc6/trixie", "libseccomp2/trixie", "libsqlite3-0/trixie")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
STARTER = f"{LIBRARIES}/apptainer/bin/starter"
# A namespace in which root has all capabilities, as Apptainer wants it, and all users are there,
# as apt wants it: in a container root may lack some.
WITHIN = """\
import ctypes, os, sys
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    if ctypes.CDLL(None).unshare(0x10000000):
        os._exit(125)
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    os.execv(sys.argv[1], sys.argv[1:])
os.close(ready[1])
if os.read(ready[0], 1):
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{child}/{name}", "w") as file:
            file.write("0 0 65536")
    os.write(go[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def why_not() -> str:
    """Why this machine can have no Apptainer; empty where it may."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{missing[0]} is not on this machine: on Debian, `make system` as root installs it"
    if os.uname().machine != "x86_64":
        return f"Apptainer is unpacked for x86_64 alone, not for {os.uname().machine}"
    return "" if os.geteuid() == 0 else "building by a definition file takes root"


def unpacked() -> Path:
    """The program, from the cache or fetched; RuntimeError where it cannot be had."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "forerun-tests" / "apptainer"
    program = folder / "usr/bin/apptainer"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        for part in ("lists/partial", "cache/archives/partial", "fetched"):
            (folder / "apt" / part).mkdir(parents=True)
        for package in _fetched(folder / "apt"):
            tried(["dpkg-deb", "--extract", str(package), str(folder)])
        shutil.rmtree(folder / "apt")
        own = str(folder / LIBRARIES)
        for path in (program, folder / STARTER):
            loader = ("--set-interpreter", f"{own}/ld-linux-x86-64.so.2")
            tried(["patchelf", *loader, "--force-rpath", "--set-rpath", own, str(path)])
        # Both programs look for their settings and folders from where they lie themselves.
        shutil.copytree(folder / "etc/apptainer", folder / "usr/etc/apptainer")
        for beside in ("usr", "usr/lib"):
            (folder / beside / "var/lib/apptainer/mnt/session").mkdir(parents=True)
        tried([str(program), "--version"])
        (folder / "ready").touch()
    return program


def _fetched(apt: Path) -> list[Path]:
    """Debian's packages, by an apt that knows of no others and of nothing installed."""
    suites = dict.fromkeys(name.partition("/")[2] for name in PACKAGES)
    lines = [f"deb [signed-by={KEYS}] {MIRROR} {suite} main\n" for suite in suites]
    (apt / "sources.list").write_text("".join(lines))
    (apt / "status").touch()
    settings = {
        "Dir::Etc::SourceList": f"{apt}/sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State": str(apt),
        "Dir::State::Status": f"{apt}/status",
        "Dir::Cache": f"{apt}/cache",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    words = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    tried([*words, "update"])
    tried([*words, "download", *PACKAGES], cwd=apt / "fetched")
    return sorted((apt / "fetched").glob("*.deb"))


@dataclass(frozen=True)
class Apptainer:
    """The program, with a cache and settings of its own."""

    program: Path
    folder: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """With what root lacks in a container not asked for when an image is run."""
        return {
            **os.environ,
            "PATH": f"{self.program.parent}:{os.environ['PATH']}",
            "APPTAINER_CACHEDIR": str(self.folder / "cache"),
            "APPTAINER_TMPDIR": str(self.folder),
            "APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE",
        }

    def build(self, context: Path, image: Path, mounts: Sequence[str]) -> str:
        """Build the definition of a folder, `image.def`; what was said meanwhile."""
        within = [sys.executable, "-c", WITHIN, str(self.program)]
        quick = ["--mksquashfs-args=-noI -noD -noF -noX"]  # not compressed
        bound = ["--bind", ",".join(mounts)] if mounts else []
        words = [*within, "build", "--force", *quick, *bound, str(image), "image.def"]
        done = tried(words, env=self.environment, cwd=context)
        return done.stdout + done.stderr

    def run(self, image: Path, *words: str) -> str:
        """What a program prints in an image, away from all that the image does not have."""
        asked = [str(self.program), "exec", "--contain", "--pwd", "/app", str(image), *words]
        return tried(asked, env=self.environment).stdout

    def labels(self, image: Path) -> dict[str, str]:
        """What an image says of itself."""
        words = [str(self.program), "inspect", "--json", "--labels", str(image)]
        told = json.loads(tried(words, env=self.environment).stdout)
        return dict(told["data"]["attributes"]["labels"])

    def definition(self, image: Path) -> str:
        """The file that an image was built from, which is kept in it."""
        words = [str(self.program), "sif", "dump", "1", str(image)]
        return tried(words, env=self.environment).stdout


@contextmanager
def registry(layout: Path) -> Iterator[int]:
    """The port of a registry on this machine with the one image of a folder (OCI's layout).

    The folder may be filled later: the port is a part of the image's name.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(layout))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(layout: Path) -> type[BaseHTTPRequestHandler]:
    """Manifests and blobs, to read alone, by the protocol of registries."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.rstrip("/") == "/v2":
                self._answer(b"{}", "application/json")
                return
            kind, reference = self.path.split("/")[-2:]
            top = json.loads((layout / "index.json").read_text())["manifests"][0]
            if kind == "manifests" and not reference.startswith("sha256:"):
                reference = top["digest"]
            blob = layout / "blobs/sha256" / reference.removeprefix("sha256:")
            if not blob.is_file():
                self.send_error(404)
                return
            is_top = reference == top["digest"]
            media = top["mediaType"] if is_top else "application/octet-stream"
            self._answer(blob.read_bytes(), media, reference)

        def do_HEAD(self) -> None:
            self.do_GET()

        def _answer(self, body: bytes, media: str, digest: str = "") -> None:
            self.send_response(200)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(body)))
            if digest:
                self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
