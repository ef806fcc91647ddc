"""Write a split: a package for each device, and a page about all of them.

The same network and layout give the same bytes. A folder appears whole, or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forerun._documents import read_json
from forerun._values import printable
from forerun.errors import InputError
from forerun.splitting.answers import output_types
from forerun.splitting.graph import Graph
from forerun.splitting.layout import Layout
from forerun.splitting.layout import layout as named_layout
from forerun.splitting.packages import check_document
from forerun.splitting.packing import write_package
from forerun.splitting.segments import programs

FORMAT = 1
EARLY = 0.004  # of a device's multiply-accumulates: about what starting one more segment costs
_LARGEST = 2**26  # bytes of a package's description


@dataclass(frozen=True)
class Split:
    """A network that was cut over devices, as a folder has it."""

    folder: Path
    document: Mapping[str, Any]

    @classmethod
    def load(cls, folder: str | Path) -> Split:
        """Read the folder that `cut` has written."""
        path = Path(folder) / "split.json"
        if not path.is_file():
            raise InputError(
                str(folder), "no split.json", "a folder that forerun split cut has made"
            )
        document = read_json(path, _LARGEST)
        if document.get("format") != FORMAT:
            raise InputError(f"{path}: format", document.get("format"), str(FORMAT))
        check_document(path, document)
        return cls(Path(folder), document)

    @property
    def devices(self) -> int:
        """How many devices it is for."""
        return int(self.document["devices"])

    @property
    def uid(self) -> str:
        """What tells it from all other splits."""
        return str(self.document["split"])

    def package(self, device: int) -> Path:
        """The folder that a device gets."""
        return self.folder / f"device-{device}"

    def description(self, device: int) -> dict[str, Any]:
        """What a device is to do."""
        return read_json(self.package(device) / "package.json", _LARGEST)


def cut(
    graph: Graph,
    layout: Layout,
    folder: str | Path,
    *,
    name: str,
    probes: bool | Collection[str] = False,
    early: bool | float = False,
) -> Split:
    """Cut a network by a layout into a folder that does not exist yet.

    `early` computes rows that others need first, where that leaves enough to do while they travel
    (see `segments.programs`; True takes a usual threshold). `probes` adds what checks look at: the
    parts of all tensors, or of these.
    """
    least = EARLY if early is True else float(early)
    seen = (list(graph.makers) if probes else []) if isinstance(probes, bool) else list(probes)
    found = programs(graph, layout, early=least, probes=seen)
    about = _about(graph, name, len(found), "cut", layout.name, layout.about)
    with new_folder(Path(folder)) as place:
        packages = [write_package(graph, program, place) for program in found]
        finish(place, about, packages)
    return Split.load(folder)


def cut_replicas(graph: Graph, devices: int, folder: str | Path, *, name: str) -> Split:
    """The whole network for each device: samples go round."""
    if devices < 1:
        raise InputError("devices", devices, "at least 1")
    program = programs(graph, named_layout(graph, "whole", (1.0,)))[0]
    about = _about(graph, name, devices, "replicas", "whole", {})
    with new_folder(Path(folder)) as place:
        packages = [
            write_package(graph, replace(program, device=device), place)
            for device in range(devices)
        ]
        finish(place, about, packages)
    return Split.load(folder)


def _about(
    graph: Graph, name: str, devices: int, kind: str, layout: str, details: Mapping[str, Any]
) -> dict[str, Any]:
    def sizes(names: Sequence[str]) -> dict[str, list[int]]:
        return {one: list(graph.tensors[one].dims) for one in names}

    made: dict[str, Any] = {
        "format": FORMAT,
        "network": graph.digest,
        "name": printable("name", name),
        "devices": devices,
        "kind": kind,
        "layout": layout,
        "layout_details": dict(details),
        "inputs": sizes(graph.inputs),
        "outputs": sizes(graph.outputs),
        "types": output_types(graph),
        "precision": "float32",
    }
    if graph.normal is not None:
        made["mean"], made["std"] = map(list, graph.normal)
    return made


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes its name when it is complete."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(str(folder), "something that is there already", "a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        place.chmod(0o777 & ~_umask())
        yield place
        place.replace(folder)  # an empty folder of that name gives way
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def finish(place: Path, about: dict[str, Any], packages: Sequence[dict[str, Any]]) -> None:
    """Give the split its uid, and write what says what everything is.

    The uid is of all that the packages say: devices that know the same one agree on every message,
    not only on what they compute (a segment stands there with its digest).
    """
    said = json.dumps([about, packages], sort_keys=True)
    uid = hashlib.sha256(f"forerun split {said}".encode()).hexdigest()
    shared = {key: about[key] for key in ("format", "network", "name", "devices", "layout", "kind")}
    for package in packages:
        path = place / f"device-{package['device']}" / "package.json"
        path.write_text(json.dumps({**shared, "split": uid, **package}) + "\n")
    (place / "split.json").write_text(json.dumps({**about, "split": uid}, indent=1) + "\n")
