"""Images without a registry: a base image made on this machine, and buildah to build on it.

    with builder(folder, root_of(folder), base) as made:
        made.build(context, "lenet")
        made.run("lenet", "python", "/app/train.py")

A recipe's FROM finds the base image under the very name that it asks for; nothing is pulled. It is
one such as a site makes: it knows the index of wheels that this machine's pip asks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

MIRROR = "http://deb.debian.org/debian"
PROGRAMS = ("buildah", "debootstrap")
PATIENCE = 600.0  # seconds that one step may take
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

CONFIG = """\
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=30000:30000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""
# What a start that was refused has left is in the next one's way; its log says why it was.
DEBOOTSTRAP = """\
rm -rf "$1"
debootstrap --variant=minbase bookworm "$1" "$2" && exit
code=$?
cat "$1/debootstrap/debootstrap.log" >&2
exit "$code"
"""
POLICY = {"default": [{"type": "insecureAcceptAnything"}]}
# What an archive of packages says that has them, and has no time: asked again after these seconds.
BUSY = re.compile(
    r"\b(429\W+Too Many Requests|50[234]\W+(Bad Gateway|Service Unavailable|Gateway))"
)
WAITS = (15.0, 30.0, 60.0, 120.0, 240.0)


class RefusedError(RuntimeError):
    """An archive of packages had no time for us, however often it was asked."""


def why_not() -> str:
    """Why this machine can build no images; empty where it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{missing[0]} is not on this machine: on Debian, `make system` as root installs it"
    return "" if os.geteuid() == 0 else "making a base image takes root"


def tried(
    words: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A program that has ended; an error with what it said where it failed.

    Where an archive of packages had no time it is run again, from its beginning.
    """
    busy = ""
    for wait in (0.0, *WAITS):
        time.sleep(wait)
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            env=env,
            cwd=cwd,
        )
        if done.returncode == 0:
            return done
        said = done.stderr + done.stdout
        if (found := BUSY.search(said)) is None:
            last = " / ".join(said.strip().splitlines()[-8:])
            raise RuntimeError(f"{' '.join(words)}: {last or done.returncode}")
        busy = found[0]
    asked = f"{len(WAITS) + 1} times in {sum(WAITS) / 60:.0f} minutes"
    raise RefusedError(f"an archive of packages answered {busy!r} {asked}")


def root_of(folder: Path, compiled: bool = True) -> Path:
    """The files of a small Debian, without its devices, which would be copied byte by byte.

    `compiled` is what pip does with the packages that it installs: it takes half of its time.
    """
    root = folder / "debian"
    tried(["sh", "-c", DEBOOTSTRAP, "sh", str(root), MIRROR])
    shutil.rmtree(root / "dev")
    (root / "dev").mkdir()
    shutil.rmtree(root / "var/cache/apt/archives", ignore_errors=True)
    (root / "var/cache/apt/archives/partial").mkdir(parents=True)
    _set_up_pip(root, compiled)
    return root


def folders_of_pip() -> list[str]:
    """The folders with wheels that pip is set to look in here: builds see them at their places."""
    found = []
    for place in (urlsplit(word) for words in _pip_settings().values() for word in words):
        if place.scheme in ("", "file"):
            path = Path(place.path)
            found.append(str(path.parent if place.scheme == "file" else path))
    return list(dict.fromkeys(found))


def _pip_settings() -> dict[str, list[str]]:
    """Where pip looks for packages by its settings here."""
    asked = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    found: dict[str, list[str]] = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        key, words = name.rpartition(".")[2], value.strip("'\"").replace("\\n", " ").split()
        if key in ("index-url", "extra-index-url", "find-links"):
            found.setdefault(key, []).extend(
                word for word in words if word not in found.get(key, ())
            )
    return found


def _set_up_pip(root: Path, compiled: bool) -> None:
    """Let pip find inside what it finds here, and where; and places to bind its folders at.

    Certificates may not lie where the image's own are to be installed.
    """
    lines = [f"{key} =\n    " + "\n    ".join(words) for key, words in _pip_settings().items()]
    if CERTIFICATES.exists():
        shutil.copy(CERTIFICATES, root / "opt/certificates.crt")
        lines.append("cert = /opt/certificates.crt")
    lines += [] if compiled else ["[install]", "no-compile = true"]
    (root / "etc/pip.conf").write_text("\n".join(["[global]", *lines, ""]))
    for path in folders_of_pip():
        Path(f"{root}{path}").mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class Builder:
    """buildah, with a storage and settings of its own."""

    folder: Path
    base: str  # the name of the base image
    environment: Mapping[str, str] = field(repr=False)

    def buildah(self, *words: str, cwd: Path | None = None) -> str:
        """What buildah says."""
        done = tried(["buildah", *words], env=self.environment, cwd=cwd)
        return done.stdout + done.stderr

    def import_base(self, root: Path) -> None:
        """Make the base image of a Debian's files."""
        container = self.buildah("from", "scratch").strip()
        tried(["cp", "--archive", f"{root}/.", self.buildah("mount", container).strip()])
        self.buildah("umount", container)
        self.buildah("config", "--env", f"PATH={PATH}", container)
        policy = ("--signature-policy", str(self.folder / "policy.json"))
        quick = ("--rm", "--quiet", "--disable-compression")
        self.buildah("commit", *policy, *quick, container, self.base)

    def build(self, context: Path, name: str) -> str:
        """Build the Dockerfile of a folder; what was said meanwhile."""
        policy = ("--signature-policy", str(self.folder / "policy.json"))
        how = ("--network=host", "--isolation=chroot", "--pull=never", "--format=docker")
        volumes = [f"--volume={path}:{path}:ro" for path in folders_of_pip()]
        return self.buildah("build", *policy, *how, *volumes, "-t", name, ".", cwd=context)

    def run(self, image: str, *words: str) -> str:
        """What a program prints in a new container of an image."""
        policy = ("--signature-policy", str(self.folder / "policy.json"))
        made = self.buildah("from", *policy, "--pull=never", f"localhost/{image}")
        container = made.strip().splitlines()[-1]
        try:
            how = ("--isolation=chroot", "--network=host")
            done = tried(["buildah", "run", *how, container, "--", *words], env=self.environment)
            return done.stdout
        finally:
            self.buildah("rm", container)

    def push(self, layout: Path) -> None:
        """Write the base image into a folder, as registries keep one."""
        policy = ("--signature-policy", str(self.folder / "policy.json"))
        self.buildah("push", *policy, "--format=oci", self.base, f"oci:{layout}:base")


@contextmanager
def builder(folder: Path, root: Path, base: str) -> Iterator[Builder]:
    """A builder that has a Debian's files as its base image, under the name that recipes have."""
    (folder / "containers.conf").write_text(CONFIG)
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    (folder / "policy.json").write_text(json.dumps(POLICY))
    environment = {
        **os.environ,
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "BUILDAH_ISOLATION": "chroot",
        "TMPDIR": str(folder),
    }
    made = Builder(folder, base, environment)
    try:
        made.import_base(root)
        yield made
    finally:
        subprocess.run(["buildah", "rmi", "--all", "--force"], env=environment, capture_output=True)
