"""Documents that people write: read with a limit, checked by a model, refused in one line.

Quantities may be written with their unit: `90s`, `1h30min`, `256 GiB`, `10 Gbit/s`, `5%`.
"""

from __future__ import annotations

import json
import math
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from forerun.errors import InputError, one_line

LARGEST = 2**20  # bytes of a file that people write
LONGEST_NUMBER = 1023  # bits of a whole number in one: what a float can always hold
_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "min": 60.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_DURATION = re.compile(rf"(?:{_NUMBER}\s*(?:{'|'.join(_UNITS)})\s*)+", re.ASCII)
_PART = re.compile(rf"({_NUMBER})\s*([a-zµ]+)", re.ASCII)
_SHARE = re.compile(rf"({_NUMBER})\s*(%?)", re.ASCII)

_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIX = {**_DECIMAL, "K": 10**3, **_BINARY}
_BYTES = re.compile(rf"({_NUMBER})\s*({'|'.join(_PREFIX)})(B|bit)(/s)?", re.ASCII)

# pydantic's words, and those that the rest of forerun uses.
_WORDS = {
    "a valid integer": "a whole number",
    "a valid string": "a text",
    "a valid boolean": "true or false",
    "a valid dictionary": "a table",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "more than",
    "a valid tuple": "a text, or a list of texts",
    "String should have at least 1 character": "a text that is not empty",
}

Given = TypeVar("Given", bound=BaseModel)


def duration(text: object) -> float:
    """Seconds of `90`, `90s`, `10min`, `1h30min`, `2h`; ValueError for anything else."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return _float(text)
    plain = str(text).strip()
    if re.fullmatch(_NUMBER, plain, re.ASCII):
        return float(plain)
    if not _DURATION.fullmatch(plain):
        raise ValueError("seconds above 0, or a time such as 90s, 10min or 2h")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(plain))


def share(text: object) -> float:
    """The share that `5%`, `5 %` or `0.05` is; ValueError for anything else."""
    found = _SHARE.fullmatch(str(text).strip()) if not isinstance(text, bool) else None
    if found is None:
        raise ValueError("a percentage such as 5%")
    value = float(found[1]) / (100 if found[2] else 1)
    if not 0 < value < 1:
        raise ValueError("a percentage below 100 such as 5%, or a share below 1 such as 0.05")
    return value


def size(text: object) -> float:
    """Bytes of `512`, `40 GB`, `256 GiB`; ValueError for anything else."""
    found = _amount(text)
    if found is None or found[1]:
        raise ValueError("bytes, or a size such as 40 GB or 256 GiB")
    return found[0]


def rate(text: object) -> float:
    """Bytes a second of `1e9`, `200 MB/s`, `10 Gbit/s`; ValueError for anything else."""
    found = _amount(text)
    if found is None or not (found[1] or isinstance(text, int | float)):
        raise ValueError("bytes a second, or a rate such as 200 MB/s or 10 Gbit/s")
    return found[0]


def _amount(text: object) -> tuple[float, bool] | None:
    """Bytes, and whether they are those of a second; a plain number is only a number."""
    if isinstance(text, bool):
        return None
    if isinstance(text, int | float):
        return _float(text), False
    found = _BYTES.fullmatch(str(text).strip())
    if found is None:
        return None
    bits = 8 if found[3] == "bit" else 1
    return float(found[1]) * _PREFIX[found[2]] / bits, found[4] is not None


def _float(value: float) -> float:
    """Infinite where it is too large, which no field takes."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def written(value: float, kind: Literal["duration", "size", "rate"]) -> str | float:
    """A number in the largest unit in which six digits write it exactly; else the number."""
    for unit, scale in sorted(_WRITTEN[kind].items(), key=lambda pair: -pair[1]):
        text = f"{value / scale:.6g}"
        if value >= scale and "e" not in text and float(text) * scale == value:
            return f"{text} {unit}"
    return value


_WRITTEN: dict[str, dict[str, float]] = {
    "duration": {name: _UNITS[name] for name in ("d", "h", "min", "s", "ms", "us", "ns")},
    "size": {f"{prefix}B": float(factor) for prefix, factor in (_DECIMAL | _BINARY).items()},
    "rate": {f"{prefix}B/s": float(factor) for prefix, factor in _DECIMAL.items()},
}

Duration = Annotated[float, BeforeValidator(duration), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(share)]
Size = Annotated[float, BeforeValidator(size), Field(gt=0, allow_inf_nan=False)]
Rate = Annotated[float, BeforeValidator(rate), Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**6)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)]


class Table(BaseModel):
    """A table of a file: fields that it does not know are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def read_toml(path: Path) -> dict[str, Any]:
    """The document of a TOML file."""
    text = _text(path, "TOML")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), str(error), "TOML") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """The document of a YAML file, which is a table; without aliases, and no key twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses what YAML allows and nobody means."""

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                mark = self.get_mark()
                raise yaml.composer.ComposerError(None, None, "an alias", mark)
            return super().compose_node(parent, index)

        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
            try:
                found = super().construct_object(node, deep)
            except (AttributeError, LookupError, ValueError):  # of a tag: !!int "", !!bool foo
                problem = f"what is no {node.tag.rpartition(':')[2]}: {node.value!r}"
                raise refused(problem, node) from None
            if isinstance(found, int) and found.bit_length() > LONGEST_NUMBER:
                raise refused(f"a number of more than {LONGEST_NUMBER} bits", node)
            return found

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            found = super().construct_mapping(node, deep)
            if len(found) < len(node.value):
                named: set[Any] = set()
                for key_node, _ in node.value:
                    key = self.construct_object(key_node, deep=True)
                    if key in named:
                        raise refused(f"{key} twice", key_node)
                    named.add(key)
            return found

    def refused(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
        return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)

    text = _text(path, "YAML")
    try:
        found = yaml.load(text, Loader)  # noqa: S506 - it is a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark, one_line(error.problem or "something else")
        where = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)
        raise InputError(where, problem, "YAML") from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(str(path), one_line(str(error)), "YAML") from None
    if not isinstance(found, dict):
        raise InputError(str(path), type(found).__name__, "a table of fields")
    return found


def read_json(path: Path, most: int = LARGEST) -> dict[str, Any]:
    """The document of a JSON file, which is a table, and has no key twice."""
    content = _content(path, most)
    try:
        found = json.loads(content, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        where = f"{path}, line {error.lineno}, column {error.colno}"
        raise InputError(where, error.msg, "JSON") from None
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), error, "JSON") from None
    if not isinstance(found, dict):
        raise InputError(str(path), type(found).__name__, "a JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table in which no name stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)} twice")
    return found


def _text(path: Path, expected: str) -> str:
    """What is written in a file; InputError unless that is text."""
    try:
        return _content(path).decode()
    except UnicodeDecodeError as error:
        raise InputError(str(path), error, expected) from None


def _content(path: Path, most: int = LARGEST) -> bytes:
    """What is in a file; InputError unless it has a usual length.

    A pipe of the user's shell is a file too; any other one, and a device, may never end.
    """
    kind = path.stat().st_mode
    piped = str(path).startswith(("/dev/fd/", "/proc/self/fd/")) or str(path) == "/dev/stdin"
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or piped):
        raise InputError(str(path), "a pipe or a device", "a file")
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(str(path), f"more than {most} bytes", f"at most {most}")
    return content


def validated(model: type[Given], document: Mapping[str, Any], where: str = "") -> Given:
    """The model of a document; InputError in one line that names the field.

    `where` comes before the field's name: `study.toml: `, or `--` for an option.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"] if not _is_union(part))
        where = where if field else where.rstrip(": ")
        if first["type"] == "extra_forbidden":
            fields = _fields(model, first["loc"][:-1])
            raise InputError(f"{where}{field}", "a field of that name", fields) from None
        if first["type"] == "missing":
            raise InputError(f"{where}{field}", "none", "a value") from None
        raise InputError(f"{where}{field}", _found(first["input"]), _expected(first)) from None


def _is_union(part: str | int) -> bool:
    return isinstance(part, str) and "[" in part  # pydantic's name of a way to read a value


def _fields(model: type[BaseModel], place: Iterable[str | int]) -> str:
    """The names that a table of the model may hold."""
    inner: list[Any] = [model]  # what the value at this place may be
    for part in place:
        below: list[Any] = []
        for one in inner:
            if isinstance(one, type) and issubclass(one, BaseModel):
                fields = one.model_fields.items()
                below += [f.annotation for n, f in fields if part in (n, f.alias)]
            elif get_origin(one) in (dict, list, tuple):
                below += get_args(one)[-1:] if get_origin(one) is dict else get_args(one)[:1]
        inner = [choice for one in below for choice in _choices(one)] or inner
    tables = [one for one in inner if isinstance(one, type) and issubclass(one, BaseModel)]
    model = tables[0] if tables else model
    return f"one of {', '.join(f.alias or n for n, f in model.model_fields.items())}"


def _choices(annotation: Any) -> list[Any]:
    """What a value may be: the ways of a union, and what an annotation is of."""
    if get_origin(annotation) is Annotated:
        return _choices(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [choice for one in get_args(annotation) for choice in _choices(one)]
    return [annotation]


def _expected(first: Any) -> str:
    message = str(first["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return one_line(message)


def _found(value: object) -> str:
    return str(value) if isinstance(value, str | int | float) else type(value).__name__
