"""`forerun infra`: what there is to run on, found out or read from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forerun.cli.common import Json, print_json, results, shown, table
from forerun.quantities import amount, money, number

if TYPE_CHECKING:
    from forerun.infrastructure import Infrastructure, Partition

app = typer.Typer(
    name="infra",
    help="""What there is to run on: partitions, boards, links, storage, prices, limits.

An operator describes it once, in a file of YAML. `forerun infra detect > cluster.yaml` begins one.
""",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.command("detect")
def detect(
    local: Annotated[
        bool, typer.Option("--local", help="This machine alone, though it belongs to a cluster.")
    ] = False,
    json: Json = False,
) -> None:
    """Describe this machine, or the Slurm cluster that it belongs to, as YAML.

    Prices, power, links and storage are for you to add: nothing tells them.
    """
    from forerun.infrastructure import detection

    found = detection.machine() if local else detection.detect()
    if json:
        print_json(found.model_dump(mode="json", exclude_none=True))
    else:
        typer.echo(found.to_yaml(), nl=False)


@app.command("show")
def show(
    infrastructure: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A file of YAML, or the name of a profile that ships with forerun.",
            show_default=False,
        ),
    ],
    json: Json = False,
) -> None:
    """Check a description and print what it says."""
    from forerun.infrastructure import Infrastructure

    found = Infrastructure.load(Path(infrastructure))
    if json:
        print_json(found.model_dump(mode="json", exclude_none=True))
    else:
        _print(found)


@app.command("profiles")
def profiles(json: Json = False) -> None:
    """List the descriptions that ship with forerun, to start from or to try."""
    from forerun.infrastructure.description import profiles as shipped

    known = {name: _about(path) for name, path in shipped().items()}
    if json:
        print_json({"profiles": known})
        return
    _tabulate(("profile", "what it describes"), known.items())


def _tabulate(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    made = table(*heads)
    for row in rows:
        made.add_row(*map(shown, row))
    results().print(made)


def _about(path: Path) -> str:
    """The comment in the first line of a profile."""
    with path.open() as file:
        return file.readline().removeprefix("#").strip()


def _print(found: Infrastructure) -> None:
    scheduler = "no scheduler" if found.scheduler == "none" else found.scheduler
    container = "no containers" if found.container == "none" else found.container
    typer.echo(f"{found.name}: {scheduler}, {container}")
    if found.partitions:
        rows = [_row(name, part, found.currency) for name, part in found.partitions.items()]
        heads = ("partition", "nodes", "processors", "memory", "accelerators", "an hour", "power")
        _tabulate(heads, rows)
    if found.boards:
        rows = [
            (
                name,
                str(board.count),
                f"{board.processors.cores} cores, {board.processors.microarchitecture}",
                amount(board.memory, "bytes"),
                _rate(board.link.bandwidth),
                f"{number(board.power)} W",
            )
            for name, board in found.boards.items()
        ]
        _tabulate(("boards", "count", "processors", "memory", "link", "power"), rows)
    if found.storage:
        rows = [
            (
                name,
                store.kind,
                _rate(store.bandwidth),
                _rate(store.total) if store.total else "",
                "of each node" if store.local else "shared",
                store.path,
            )
            for name, store in found.storage.items()
        ]
        _tabulate(("storage", "kind", "a node", "all nodes", "", "path"), rows)


def _rate(value: float) -> str:
    """As people write it: links and disks are sold by powers of ten."""
    from forerun._documents import written

    return str(written(float(f"{value:.3g}"), "rate"))


def _row(name: str, part: Partition, currency: str) -> tuple[str, ...]:
    processors, devices = part.processors, part.accelerators
    cores = f"{processors.all_cores} cores, {processors.microarchitecture}"
    memory = f" with {amount(devices.memory, 'bytes')}" if devices and devices.memory else ""
    price = "" if part.price is None else money(part.price.node, currency)
    if part.price is not None and part.price.device:
        price += f" + {money(part.price.device, currency)} a device"
    power = "" if part.power is None else f"{number(part.power.node)} W"
    if part.power is not None and part.power.device:
        power += f" + {number(part.power.device)} W a device"
    return (
        f"{name}{' (default)' if part.default else ''}",
        str(part.nodes) + (f", {part.limits.nodes} a job" if part.limits.nodes else ""),
        cores,
        amount(part.memory, "bytes"),
        f"{devices.count} x {devices.model or devices.kind}{memory}" if devices else "",
        price,
        power,
    )
