"""Runs from Extra-P's input files: its text format, its two JSON formats and JSON lines.

All of them hold values of metrics, measured in regions of a program, at points of parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from forerun.errors import InputError, TableError
from forerun.factors import Space
from forerun.importing.columns import Columns, check_width, digest, listed
from forerun.importing.options import ImportOptions
from forerun.importing.runs import Defaults, ImportedRuns, assemble
from forerun.importing.text import file_digest, load_json, read_json, read_lines

_TIME_METRICS = ("time", "runtime", "walltime", "seconds")
_UNNAMED = "time"  # a metric without a name
_TAGS = ("PARAMETER", "POINTS", "METRIC", "REGION", "DATA")


@dataclass(frozen=True, slots=True)
class _Measured:
    """The repeated values of one metric in one region at one point."""

    number: int  # line, or the how-manieth measurement of the file
    point: dict[str, str]
    region: str
    metric: str
    values: list[str]


def read(path: str, options: ImportOptions, like: Space | None = None) -> ImportedRuns:
    """One run for each repeat at each point, in one region of the program."""
    word, measured = _measured(path)
    if not measured:
        raise TableError(path, "no measurements", "at least one value")
    region = _chosen(path, "region", options.region, {one.region: None for one in measured})
    inside = [one for one in measured if one.region == region]
    metrics = {one.metric: None for one in inside}
    check_width(path, len(inside[0].point) + len(metrics))
    metric = _metric(path, options, metrics)
    columns = _columns(path, word, inside, metric)
    defaults = Defaults(
        seconds=metric, memory="", joules="", status="", factors=tuple(inside[0].point)
    )
    return assemble(columns, options, defaults, like)


def _metric(path: str, options: ImportOptions, metrics: dict[str, None]) -> str:
    """The metric that is the time: the one named, the only one, or the one called so."""
    if options.metric and options.seconds and options.metric != options.seconds:
        raise InputError("--metric", f"{options.metric} and --seconds {options.seconds}", "one")
    wanted = options.metric or options.seconds
    timed = [one for one in metrics if one.casefold() in _TIME_METRICS]
    if not wanted and len(metrics) > 1 and len(timed) == 1:
        return timed[0]
    return _chosen(path, "metric", wanted, metrics)


def _chosen(path: str, option: str, wanted: str, known: dict[str, None]) -> str:
    if wanted in known:
        return wanted
    if not wanted and len(known) == 1:
        return next(iter(known))
    found = wanted or f"{len(known)} {option}s"
    raise TableError(f"{path} --{option}", found, f"one of {listed(list(known))}")


def _columns(path: str, word: str, measured: Sequence[_Measured], metric: str) -> Columns:
    """A row a repeat: parameters and metrics are columns, repeats of one point in their order."""
    timed = [one for one in measured if one.metric == metric]
    rows = [(one, at) for one in timed for at in range(len(one.values))]
    names = list(timed[0].point)
    cells = {name: [one.point[name] for one, _ in rows] for name in names}
    for other in dict.fromkeys(one.metric for one in measured):
        if other in cells:
            raise TableError(path, f"{other}, a parameter and a metric", "each name once")
        cells[other] = _repeats([one for one in measured if one.metric == other], rows)
    whole = file_digest(path)
    digests = [digest("extra-p", whole, one.region, at) for at, (one, _) in enumerate(rows)]
    return Columns(path, cells, [one.number for one, _ in rows], digests, word)


def _repeats(measured: Sequence[_Measured], rows: Sequence[tuple[_Measured, int]]) -> list[str]:
    """The value of a metric in each row; empty where it was not measured."""
    found: dict[tuple[str, ...], list[str]] = {}
    for one in measured:
        found.setdefault(tuple(one.point.values()), []).extend(one.values)
    taken: dict[tuple[str, ...], Iterator[str]] = {key: iter(some) for key, some in found.items()}
    return [next(taken.get(tuple(one.point.values()), iter(())), "") for one, _ in rows]


def _measured(path: str) -> tuple[str, list[_Measured]]:
    """The measurements of whichever format it is, and what their numbers count."""
    lines = read_lines(path)
    first = next((line for _, line in lines if line.strip()), "").lstrip()
    if not first.startswith("{"):
        return "line", list(_text(path))
    try:
        opening = load_json(path, first)
    except TableError:
        opening = None  # the first line of a document that goes on
    if isinstance(opening, dict) and "params" in opening:
        return "line", list(_json_lines(path))
    document = read_json(path)
    try:
        reading: Callable[[Any], Iterator[_Measured]] = (
            _by_id if "callpaths" in document else _nested
        )
        return "measurement", list(reading(document))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise TableError(
            path, f"{type(error).__name__} {error}", "Extra-P's parameters and measurements"
        ) from None
    except ValueError as error:
        raise TableError(f"{path} {error}") from None


def _text(path: str) -> Iterator[_Measured]:
    """PARAMETER names, POINTS, then DATA lines in their order, for each METRIC and REGION."""
    names: list[str] = []
    points: list[list[str]] = []
    metric, region = _UNNAMED, ""
    at_point = 0
    for at, line in read_lines(path):
        tag, _, rest = line.strip().partition(" ")
        where = f"{path} line {at}"
        if not tag or tag.startswith("#"):
            continue
        if tag not in _TAGS:
            raise TableError(where, tag, f"a line that begins with {', '.join(_TAGS)}")
        if tag == "PARAMETER":
            names += rest.split()
            if len(set(names)) < len(names):
                raise TableError(where, f"{_twice(names)} twice", "each parameter once")
        elif tag == "POINTS":
            points += _points(where, rest, len(names))
        elif tag == "DATA":
            if at_point >= len(points):
                raise TableError(where, f"{at_point + 1} DATA lines", f"{len(points)}, as POINTS")
            point = dict(zip(names, points[at_point], strict=True))
            yield _Measured(at, point, region, metric, rest.split())
            at_point += 1
        else:
            metric, region = (rest.strip(), region) if tag == "METRIC" else (metric, rest.strip())
            at_point = 0


def _points(where: str, text: str, width: int) -> list[list[str]]:
    """`(1 2) (3 4)`, or `1 2 3` of one parameter; more brackets do not matter."""
    numbers = text.replace("(", " ").replace(")", " ").split()
    if not width:
        raise TableError(where, "POINTS before PARAMETER", "PARAMETER first")
    if len(numbers) % width:
        raise TableError(where, f"{len(numbers)} coordinates", f"a multiple of {width}")
    return [numbers[at : at + width] for at in range(0, len(numbers), width)]


def _json_lines(path: str) -> Iterator[_Measured]:
    names: set[str] | None = None
    for at, line in read_lines(path):
        if not line.strip():
            continue
        where = f"{path} line {at}"
        one = load_json(where, line)
        if not isinstance(one, dict) or not {"params", "value"} <= set(one):
            raise TableError(where, "no params or no value", "an object with params and value")
        if not isinstance(one["params"], dict) or not one["params"]:
            raise TableError(f"{where} params", one["params"], "an object with the parameters")
        names = names or set(one["params"])
        if set(one["params"]) != names:
            raise TableError(f"{where} params", listed(list(one["params"])), listed(sorted(names)))
        point = {name: str(value) for name, value in one["params"].items()}
        region, metric = str(one.get("callpath", "")), str(one.get("metric", _UNNAMED))
        yield _Measured(at, point, region, metric, _texts(one["value"]))


def _nested(document: Any) -> Iterator[_Measured]:
    """Measurements by region and metric."""
    names = _once([str(name) for name in document["parameters"]])
    at = 0
    for region, metrics in document["measurements"].items():
        for metric, measurements in metrics.items():
            for one in measurements:
                at += 1
                point = _point(at, names, _texts(one["point"]))
                yield _Measured(at, point, region, metric, _texts(one["values"]))


def _by_id(document: Any) -> Iterator[_Measured]:
    """The older format: everything has an id, and a measurement names the ids of its parts."""
    names = {one["id"]: str(one["name"]) for one in document["parameters"]}
    _once(list(names.values()))
    regions = {one["id"]: str(one["name"]) for one in document["callpaths"]}
    metrics = {one["id"]: str(one["name"]) for one in document["metrics"]}
    points = {
        one["id"]: {
            names[pair["parameter_id"]]: str(pair["parameter_value"])
            for pair in one["parameter_value_pairs"]
        }
        for one in document["coordinates"]
    }
    for at, one in enumerate(document["measurements"], start=1):
        point = points[one["coordinate_id"]]
        point = _point(at, list(names.values()), [point.get(name, "") for name in names.values()])
        region, metric = regions[one["callpath_id"]], metrics[one["metric_id"]]
        yield _Measured(at, point, region, metric, _texts(one["value"]))


def _once(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError(f"parameters: found {_twice(names)} twice, expected each parameter once")
    return names


def _twice(names: Sequence[str]) -> str:
    return Counter(names).most_common(1)[0][0]


def _point(at: int, names: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    if len(names) != len(values):
        raise ValueError(
            f"measurement {at} point: found {len(values)} coordinates, expected {len(names)}"
        )
    return dict(zip(names, values, strict=True))


def _texts(value: object) -> list[str]:
    """One value or a list of them, as text."""
    several: Iterable[object] = value if isinstance(value, list) else [value]
    return [str(one) for one in several]
