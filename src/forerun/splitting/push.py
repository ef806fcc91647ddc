"""Bring a device's package to its board, with the program that runs it, by ssh.

Everything goes through one connection, as an archive that the board's own `tar` unpacks: neither
scp nor rsync nor Python is needed for it there. No shell is used on this side. The board's shell
reads one name, which is refused unless it consists of characters that mean nothing to it.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import NamedTuple

from forerun.errors import InputError
from forerun.splitting import device
from forerun.splitting.device.program import Program
from forerun.splitting.device.reading import checked_file, read_program
from forerun.splitting.packages import as_input_error

_PROGRAM = Path(device.__file__).parent
_TARGET = re.compile(
    r"(?:([A-Za-z0-9_][A-Za-z0-9_.-]*)@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9_.-]*)"
    r":((?:~/|/)?[A-Za-z0-9_.+][A-Za-z0-9_.+/-]*)?",
    re.ASCII,
)
_FOLDER = "forerun"  # below the user's home on the board, where nothing else was said
_CONNECTING = 15  # seconds
_SECRET = "secret"


class Pushed(NamedTuple):
    """Where things are on the board: what `device_command` takes."""

    folder: str
    program: str
    package: str
    secret: str | None


class Target(NamedTuple):
    """A board, as `user@board:folder` says it."""

    host: str  # with the user, as ssh takes it
    folder: str

    @classmethod
    def of(cls, text: str) -> Target:
        """Read it; InputError for anything that a shell or ssh might read in another way."""
        found = _TARGET.fullmatch(text)
        folder = (found[3] or _FOLDER).removeprefix("~/") if found else ""
        if found is None or ".." in folder.split("/"):
            raise InputError(
                "target", text, "user@board:folder, of letters, digits, and . _ + - in names"
            )
        host = found[2].strip("[]")
        return cls(f"{found[1]}@{host}" if found[1] else host, folder.rstrip("/") or "/")


def push(
    package: str | Path,
    target: str,
    *,
    port: int | None = None,
    config: str | Path | None = None,
    secret: str | Path | None = None,
) -> Pushed:
    """Copy a package, and what runs it, to a folder of a board; where everything is there.

    `config` is a file for `ssh -F`; `secret` a file that goes along, readable for the user alone.
    The package is checked before it goes; files that the board has are replaced.
    """
    board = Target.of(target)
    with as_input_error():
        program = read_program(Path(package))
        for segment in program.segments:
            checked_file(program, segment)
    name = f"device-{program.device}"
    words = [*_ssh(port, config), "--", board.host, _unpacking(board.folder)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        try:
            with tarfile.open(
                fileobj=running.stdin, mode="w|", format=tarfile.USTAR_FORMAT
            ) as file:
                _fill(file, program, name, None if secret is None else Path(secret))
        except BrokenPipeError:
            pass  # the other side says why
        finally:
            _, said = running.communicate()
    if running.returncode:
        lines = said.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1].strip() if lines else f"ssh ends with code {running.returncode}"
        raise InputError(f"{target}: {why}")
    places = [f"{board.folder}/{one}" for one in (_PROGRAM.name, name, _SECRET)]
    return Pushed(board.folder, places[0], places[1], places[2] if secret is not None else None)


def _ssh(port: int | None, config: str | Path | None) -> list[str]:
    """ssh without questions: what it would ask is told as an error instead."""
    found = shutil.which("ssh")
    if found is None:
        raise InputError("ssh is not on this machine, which brings packages to boards")
    words = [found, "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECTING}"]
    if port is not None:
        if not 1 <= port <= 65535:
            raise InputError("port", port, "1 to 65535")
        words += ["-p", str(port)]
    return words if config is None else [*words, "-F", str(config)]


def _unpacking(folder: str) -> str:
    """For the board's shell. The name has been checked: it needs no quotes.

    What is put there runs with the secret: the folder must be one that nobody else can change.
    """
    checks = f"test -O {folder} && test ! -L {folder}"
    checks += f' && test -z "$(find {folder} -prune \\( -perm -020 -o -perm -002 \\))"'
    told = f"echo {folder}: found a link, or what others have or may change, expected mode 0700 >&2"
    return (
        f"umask 077 && mkdir -p {folder} && if {checks}; "
        f"then tar -x -f - -C {folder}; else {told}; exit 1; fi"
    )


def _fill(file: tarfile.TarFile, program: Program, name: str, secret: Path | None) -> None:
    if secret is not None:
        _add(file, _SECRET, secret.read_bytes(), 0o600)
    for source in sorted(_PROGRAM.glob("*.py")):
        _add(file, f"{_PROGRAM.name}/{source.name}", source.read_bytes(), 0o644)
    for part in ["package.json", *(one.file for one in program.segments)]:
        _add(file, f"{name}/{part}", (program.folder / part).read_bytes(), 0o644)


def _add(file: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    """With nobody's name and no time: the same package is the same archive."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    file.addfile(entry, io.BytesIO(content))
