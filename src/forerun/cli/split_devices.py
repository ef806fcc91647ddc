"""`forerun split push` and `device`: bring a split to boards, and be one of its devices."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.common import Json, note, print_json, results, shown, working
from forerun.cli.split_common import Boards, Folder, Wire, board_names, infrastructure, need

if TYPE_CHECKING:
    from forerun.splitting.places import Place

Threads = Annotated[
    int, typer.Option(metavar="N", min=1, max=256, help="Threads that compute a segment.")
]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.1,
        max=999_999,
        help="How long a device waits for the host, or another device, that is gone.",
    ),
]
StartWithin = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0.1,
        max=999_999,
        help="How long a device waits for its first host.",
        show_default="for ever",
    ),
]


def push(
    folder: Folder,
    on: Annotated[
        str,
        typer.Option(
            metavar="BOARDS.yaml",
            help="The boards, with their addresses, the user and the directory there.",
            show_default=False,
        ),
    ],
    boards: Boards = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The secret of all devices, which goes along; made if there is none.",
            show_default="FOLDER.secret",
        ),
    ] = None,
    wire: Annotated[
        Wire, typer.Option(help="For the commands: how devices send numbers to each other.")
    ] = "float32",
    in_flight: Annotated[
        int, typer.Option(metavar="K", min=1, help="For the commands: samples at a time.")
    ] = 1,
    threads: Threads = 1,
    timeout: Timeout = 60.0,
    start_within: StartWithin = None,
    report_error: Annotated[
        bool,
        typer.Option(
            "--report-error",
            metavar="",
            help="For the commands: devices find what the wire loses, for run --report-error.",
        ),
    ] = False,
    python: Annotated[
        str, typer.Option(metavar="PROGRAM", help="For the commands: the boards' Python.")
    ] = "python3",
    ssh_port: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Where the boards' ssh listens.", show_default=False),
    ] = None,
    ssh_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A configuration for ssh.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Copy each board its package, and what runs there, by ssh; print how to start each.

    A board needs Python 3.9 or later with numpy and onnxruntime. The first board of the file, or of
    --boards, is device 0.
    """
    from forerun.splitting.places import addressed
    from forerun.splitting.push import push as bring
    from forerun.splitting.running import device_command
    from forerun.splitting.split import Split

    split = Split.load(folder)
    places = addressed(infrastructure(on), split.devices, board_names(boards))
    secret = _secret(secret_file or Path(f"{folder}.secret"))
    addresses = [place.address for place in places]
    rows: list[dict[str, Any]] = []
    for number, place in enumerate(places):
        to = _target(place)
        with working(f"copying device {number} to {to}"):
            there = bring(
                split.package(number), to, port=ssh_port, config=ssh_config, secret=secret
            )
        assert there.secret is not None
        words = device_command(
            there.package,
            addresses,
            there.secret,
            wire=wire,
            in_flight=in_flight,
            threads=threads,
            timeout=timeout,
            start_within=start_within,
            report_error=report_error,
            python=(python,),
            program=there.program,
        )
        start = shlex.join(words)
        rows.append({"device": number, "board": place.name, "to": to, "start": start})
    document = {"folder": str(folder), "secret": str(secret), "boards": rows}
    if json:
        print_json(document)
    else:
        _print(document, boards)


def _secret(path: Path) -> Path:
    """The file of the secret, which is made where there is none."""
    from forerun.splitting.device.command import read_secret
    from forerun.splitting.packages import as_input_error
    from forerun.splitting.running import new_secret

    if not path.exists():
        new_secret(path)
        note(f"a new secret for the devices: {path}")
    with as_input_error():
        read_secret(path)  # now, not when all is copied
    return path


def _target(place: Place) -> str:
    """The board as ssh and its folder name it."""
    host = f"[{place.host}]" if ":" in place.host else place.host
    user = f"{place.user}@" if place.user else ""
    return f"{user}{host}:{place.directory}"


def _print(document: dict[str, Any], boards: str | None) -> None:
    to = results()
    to.print("on each board, in any order:")
    for row in document["boards"]:
        to.print(f"\n{shown(row['board'])} ({shown(row['to'])}), device {row['device']}")
        to.print(f"$ {shown(row['start'])}", style="bold cyan", soft_wrap=True)
    words = ["forerun", "split", "run", document["folder"], "--on", "BOARDS.yaml"]
    words += [] if boards is None else ["--boards", boards]
    words += ["--secret-file", document["secret"], "--input", "FILE"]
    to.print(f"\nthen here: {shown(shlex.join(words))}", soft_wrap=True)


def device(
    package: Annotated[
        Path,
        typer.Argument(
            metavar="PACKAGE", help="This device's package: FOLDER/device-N.", show_default=False
        ),
    ],
    at: Annotated[
        list[str],
        typer.Option(
            metavar="N=ADDRESS:PORT",
            help="Where each device is, this one included: it listens there alone.",
            show_default=False,
        ),
    ],
    secret_file: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The secret of all devices, mode 0600.", show_default=False
        ),
    ],
    wire: Annotated[Wire, typer.Option(help="How it sends numbers to other devices.")] = "float32",
    in_flight: Annotated[
        int, typer.Option(metavar="K", min=1, help="Samples under way at a time.")
    ] = 1,
    threads: Threads = 1,
    timeout: Timeout = 60.0,
    start_within: StartWithin = None,
    report_error: Annotated[
        bool,
        typer.Option(
            "--report-error", metavar="", help="Find what numbers lose on the wire; it takes time."
        ),
    ] = False,
) -> None:
    """Be one device of many, until the host ends it: what `python3 device` does on a board.

    It prints a line of JSON when it is ready, and one of what it has done.
    """
    need("onnxruntime")
    from forerun.splitting.device.command import main

    words = [str(package), "--secret-file", str(secret_file), "--wire", wire]
    words += ["--in-flight", str(in_flight), "--threads", str(threads), "--timeout", str(timeout)]
    if start_within is not None:
        words += ["--start-within", str(start_within)]
    words += ["--report-error"] if report_error else []
    words += [word for place in at for word in ("--device-at", place)]
    if code := main(words):
        raise typer.Exit(code)
