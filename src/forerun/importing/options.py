"""What a user may say about the runs of a file: which column is what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from forerun.errors import InputError

# Options that only one format understands.
_ONLY = {
    "study": ("optuna",),
    "pattern": ("sacct",),
    "metric": ("extra-p",),
    "region": ("extra-p",),
    "status": ("csv", "tsv"),
}


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Columns are named as in the file; an empty option leaves the choice to the format."""

    seconds: str = ""
    factors: tuple[str, ...] = ()
    intrinsic: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    memory: str = ""
    joules: str = ""
    measures: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    time_unit: str = "s"
    where: tuple[tuple[str, str], ...] = ()
    status: str = ""
    variant: str = ""
    study: str = ""
    pattern: str = ""
    metric: str = ""
    region: str = ""

    @classmethod
    def of(cls, **given: Any) -> ImportOptions:
        """Options from keywords: lists and mappings are taken, an unknown name is refused."""
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                raise InputError("read_runs", f"option {name}", f"one of {', '.join(known)}")
        for name in ("factors", "intrinsic", "categorical"):
            if name in given:
                given[name] = _names(given[name])
        if "where" in given:
            given["where"] = _pairs(given["where"])
        return cls(**given)

    def check_format(self, name: str) -> None:
        """Refuse an option that the format `name` has no use for, rather than ignore it."""
        for option, formats in _ONLY.items():
            if getattr(self, option) and name not in formats:
                raise InputError(
                    f"--{option}", f"a file of format {name}", f"format {' or '.join(formats)}"
                )


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(part.strip() for part in parts if part.strip())


def _pairs(
    given: Mapping[str, object] | Iterable[tuple[str, object]],
) -> tuple[tuple[str, str], ...]:
    items = given.items() if isinstance(given, Mapping) else given
    return tuple((column, str(value)) for column, value in items)
