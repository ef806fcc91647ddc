"""What the verbs that run a split are told: its inputs, where it runs, and the right answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from forerun.cli.common import note
from forerun.cli.split_common import board_names, infrastructure, numbers
from forerun.errors import InputError

if TYPE_CHECKING:
    from forerun.splitting.bench import Setting
    from forerun.splitting.comparing import Answers
    from forerun.splitting.inputs import Samples
    from forerun.splitting.split import Split

    Fed = Samples | list[dict[str, Any]]

Inputs = Annotated[
    list[Path] | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help="A picture (PNG, JPEG …), or an array of samples (.npy); may be given again.",
        show_default="random numbers",
    ),
]
Against = Annotated[
    Path | None,
    typer.Option(
        metavar="NETWORK.onnx",
        help="Compare the answers with those of the whole network in one process.",
        show_default=False,
    ),
]
Secret = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --on: the secret that the devices were started with.",
        show_default=False,
    ),
]
_PICTURES = "Pictures"
Mean = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C",
        help="What is taken off each channel, of pixels from 0 to 1.",
        show_default="the network's, else ImageNet's; 0 of grey",
        rich_help_panel=_PICTURES,
    ),
]
Std = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C",
        help="What each channel is divided by then.",
        show_default="the network's, else ImageNet's; 1 of grey",
        rich_help_panel=_PICTURES,
    ),
]
Crop = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="How much of the shorter side is kept, from the middle.",
        rich_help_panel=_PICTURES,
    ),
]


def samples_of(
    split: Split, files: Sequence[Path] | None, mean: str | None, std: str | None, crop: float
) -> tuple[Iterator[str], Fed]:
    """What the samples are called, and the samples: of the files, or one of random numbers."""
    from forerun.splitting.comparing import random_samples
    from forerun.splitting.inputs import Pixels, Samples

    if not files:
        note("no --input: the network sees random numbers")
        return iter(["random numbers"]), list(random_samples(split.inputs, 1, seed=0))
    known = split.normal or (None, None)
    pixels = Pixels(_each("--mean", mean) or known[0], _each("--std", std) or known[1], crop)
    found = Samples(files, split.inputs, pixels)
    return found.names, found


def _each(option: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    return tuple(numbers(option, text, "a number for each channel: 0.485,0.456,0.406"))


def right_answers(
    split: Split, network: Path | None, samples: Iterable[Any]
) -> list[Answers] | None:
    """What the whole network says of each sample; None where nobody wants to know."""
    from forerun.splitting.comparing import Whole
    from forerun.splitting.graph import Graph

    if network is None:
        return None
    if Graph.load(network).digest != split.document["network"]:
        raise InputError(str(split.folder), "a split of another network", f"one of {network}")
    whole = Whole(network)
    return [whole.run(sample) for sample in samples]


class Where(NamedTuple):
    """Where a split is run, as it was asked for: on boards that wait, or on this machine."""

    on: str | None
    boards: str | None
    secret: Path | None

    def found(self, split: Split) -> tuple[tuple[str, ...], bytes]:
        """The addresses of the devices, and their secret; none of both on this machine."""
        if self.on is None:
            for option, given in (("--secret-file", self.secret), ("--boards", self.boards)):
                if given is not None:
                    raise InputError(option, given, "none without --on")
            return (), b""
        from forerun.splitting.device.command import read_secret
        from forerun.splitting.packages import as_input_error
        from forerun.splitting.places import addressed

        if self.secret is None:
            expected = "the secret that the devices were started with"
            raise InputError("--secret-file", "none", expected)
        places = addressed(infrastructure(self.on), split.devices, board_names(self.boards))
        with as_input_error():
            known = read_secret(self.secret)
        return tuple(place.address for place in places), known


def setting_of(split: Split, wire: str | None, in_flight: int, where: Where) -> Setting:
    """How and where the split is run."""
    from forerun.splitting.bench import Setting

    return Setting(wire, in_flight, *where.found(split))
