"""Factors (what can change a run's time), points (one value for each) and spaces of them."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from forerun import _ranges
from forerun._roles import COUNTED, Kind, Role, guess_role
from forerun._values import Value, checked_name, normalised, one_of, printable
from forerun.errors import FactorError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["VARIANT", "Factor", "Kind", "Point", "Role", "Scope", "Space", "Value", "guess_role"]

Scope = Literal["intrinsic", "extrinsic"]

VARIANT = "variant"  # the factor that says which of a study's commands ran

# Made once: `json.dumps` with options makes another for every call.
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
_MOST_GRID_VALUES = 64  # distinct values of a table's column that are kept as a grid


@dataclass(frozen=True, slots=True)
class Factor:
    """Anything that can change a run's time.

    `values` are the levels of a category or the grid of a numeric factor; none means free.
    """

    name: str
    kind: Kind = "numeric"
    scope: Scope = "extrinsic"
    unit: str = ""
    role: Role | None = None
    values: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        where = f"factor {checked_name(self.name)}"
        one_of(f"{where}, kind", self.kind, get_args(Kind))
        one_of(f"{where}, scope", self.scope, get_args(Scope))
        printable(f"{where}, unit", self.unit)
        if self.role is not None:
            one_of(f"{where}, role", self.role, get_args(Role))
        if self.kind == "categorical" and self.role in COUNTED:
            raise FactorError(where, "categories", f"numbers, for the role {self.role}")
        if self.name == VARIANT and self.kind == "numeric":
            raise FactorError(where, "numbers", "categories: it names the command that ran")
        values = tuple(self.value(raw) for raw in self.values)
        if len(set(values)) < len(values):
            twice = next(value for i, value in enumerate(values) if value in values[:i])
            raise FactorError(where, f"{twice} twice", "different values")
        object.__setattr__(self, "values", values)

    @classmethod
    def parse(cls, text: str, intrinsic: bool = False) -> Self:
        """A factor from `name=values`: `batch=16..256`, `workers=1,2`, `activation=relu,tanh`."""
        name, equals, listed = text.partition("=")
        if not equals or not name.strip():
            raise FactorError("factor", text, "name=values, such as batch=16..256")
        name = checked_name(name.strip())
        values = _ranges.listed(name, listed)
        kind: Kind = "categorical" if isinstance(values[0], str) else "numeric"
        if name == VARIANT and kind == "numeric":
            kind, values = "categorical", [item.strip() for item in listed.split(",")]
        scope: Scope = "intrinsic" if intrinsic else "extrinsic"
        return cls(name, kind, scope, role=guess_role(name, kind), values=tuple(values))

    def value(self, raw: object) -> Value:
        """A value for this factor from a number or a text as typed; FactorError if it is none."""
        value = normalised(f"factor {self.name}", raw)
        if self.kind == "categorical":
            return str(value)
        if isinstance(value, str):
            number = _ranges.number(value.strip())
            if number is None:
                raise FactorError(f"factor {self.name}", value, "a number")
            value = normalised(f"factor {self.name}", number)
        return value

    def to_dict(self) -> dict[str, Any]:
        """The factor as JSON holds it."""
        return {**asdict(self), "values": list(self.values)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The factor that `to_dict` wrote."""
        fields = ("name", "kind", "scope", "unit", "role", "values")
        for key in document:
            one_of("factor field", key, fields)
        if "name" not in document:
            raise FactorError("factor", "no name", "a name")
        return cls(**{**document, "values": tuple(document.get("values", ()))})


class Point(Mapping[str, Value]):
    """One value for each factor. Immutable and hashable; equal values make equal points."""

    __slots__ = ("_key", "_values")

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values: dict[str, Value] = {
            checked_name(name): normalised(f"factor {name}", raw) for name, raw in values.items()
        }
        self._key: str | None = None

    @property
    def key(self) -> str:
        """The canonical form: JSON with sorted names."""
        if self._key is None:
            self._key = _ENCODER.encode(self._values)
        return self._key

    @classmethod
    def from_key(cls, key: str) -> Self:
        """The point whose `key` this is."""
        return cls(json.loads(key))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Point({self._values!r})"


class Space(Mapping[str, Factor]):
    """An ordered set of factors, by name."""

    def __init__(self, factors: Iterable[Factor] = ()) -> None:
        self._factors: dict[str, Factor] = {}
        for factor in factors:
            if factor.name in self._factors:
                raise FactorError("space", f"two factors {factor.name}", "one factor a name")
            self._factors[factor.name] = factor

    def __getitem__(self, name: str) -> Factor:
        return self._factors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._factors)

    def __len__(self) -> int:
        return len(self._factors)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        return list(self.values()) == list(other.values())

    def __hash__(self) -> int:
        return hash(tuple(self.values()))

    def __repr__(self) -> str:
        return f"Space({list(self.values())!r})"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all factors, in order."""
        return tuple(self)

    @property
    def intrinsic(self) -> tuple[str, ...]:
        """The names of the intrinsic factors: what the application does."""
        return tuple(name for name, factor in self.items() if factor.scope == "intrinsic")

    @property
    def extrinsic(self) -> tuple[str, ...]:
        """The names of the extrinsic factors: what it runs on, and at what scale."""
        return tuple(name for name, factor in self.items() if factor.scope == "extrinsic")

    @property
    def numeric(self) -> tuple[str, ...]:
        """The names of the numeric factors."""
        return tuple(name for name, factor in self.items() if factor.kind == "numeric")

    @property
    def categorical(self) -> tuple[str, ...]:
        """The names of the categorical factors."""
        return tuple(name for name, factor in self.items() if factor.kind == "categorical")

    def grid(self) -> Iterator[Point]:
        """Every combination of the factors' values, the last factor varying fastest."""
        return (Point(dict(zip(self, values, strict=True))) for values in product(*self._columns))

    @property
    def size(self) -> int:
        """How many points the grid has."""
        return math.prod(map(len, self._columns))

    def nth(self, index: int) -> Point:
        """The point of the grid with this number, from 0, the first factor varying fastest."""
        values: dict[str, Value] = {}
        for name, column in zip(self, self._columns, strict=True):
            index, place = divmod(index, len(column))
            values[name] = column[place]
        return Point(values)

    def sample(self, n: int, seed: int = 0) -> list[Point]:
        """`n` different points of the grid (all of it where it is smaller), in random order."""
        size = self.size
        drawn = random.Random(seed)
        if size <= sys.maxsize:
            indices = drawn.sample(range(size), min(n, size))
        else:  # so many that a repetition is out of the question
            indices = [drawn.randrange(size) for _ in range(n)]
        return [self.nth(index) for index in indices]

    @cached_property
    def _columns(self) -> list[tuple[Value, ...]]:
        for name, factor in self.items():
            if not factor.values:
                raise FactorError(f"factor {name}", "no values", "values to choose points from")
        return [factor.values for factor in self.values()]

    def point(self, values: Mapping[str, object]) -> Point:
        """A checked point from numbers or texts (as typed), each read as its factor's kind."""
        self._check_names(values)
        point = Point({name: factor.value(values[name]) for name, factor in self.items()})
        self.check(point)
        return point

    def check(self, point: Mapping[str, Value], *, levels: bool = True) -> None:
        """FactorError unless the point has one value of the right kind for each factor.

        A numeric value may lie off the grid. A level must be one of the factor's, where it lists
        any, unless `levels` is false.
        """
        values = point._values if isinstance(point, Point) else point  # a dict is quicker
        self._check_names(values)
        for name, factor in self._factors.items():
            value = values[name]
            if isinstance(value, str) != (factor.kind == "categorical"):
                wanted = "a number" if factor.kind == "numeric" else "a level, as text"
                raise FactorError(f"factor {name}", repr(value), wanted)
            if levels and isinstance(value, str) and factor.values:
                one_of(f"factor {name}", value, [str(level) for level in factor.values])

    def _check_names(self, values: Mapping[str, object]) -> None:
        if values.keys() == self._factors.keys():
            return
        for name in self:
            if name not in values:
                raise FactorError("point", f"no {name}", f"values for {', '.join(self)}")
        for name in values:
            one_of("point", name, self.names)

    def to_dict(self) -> dict[str, Any]:
        """The space as JSON holds it."""
        return {"factors": [factor.to_dict() for factor in self.values()]}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The space that `to_dict` wrote."""
        factors = document.get("factors")
        if not isinstance(factors, list):
            raise FactorError("space", type(factors).__name__, "a list of factors")
        return cls(Factor.from_dict(factor) for factor in factors)

    def with_values(self, table: pd.DataFrame) -> Self:
        """The same factors, with the levels and grids that a table's columns hold, sorted.

        A grid of more than 64 values is thinned evenly, both ends kept.
        """
        return type(self)(
            replace(factor, values=_distinct(factor, _column(table, name)))
            for name, factor in self.items()
        )

    @classmethod
    def from_table(
        cls,
        table: pd.DataFrame,
        intrinsic: Iterable[str] | None = None,
        extrinsic: Iterable[str] | None = None,
        units: Mapping[str, str] | None = None,
        roles: Mapping[str, Role] | None = None,
    ) -> Self:
        """The space of a table's columns: numeric columns are numeric, all others categories.

        Columns that are not named as intrinsic are extrinsic; where `extrinsic` is given, those
        that neither names are left out. Roles that are not given are guessed from the names.
        """
        columns = [str(column) for column in table.columns]
        inner = set(intrinsic or ())
        outer = set(columns) - inner if extrinsic is None else set(extrinsic)
        units, roles = units or {}, roles or {}
        for name in (*inner, *outer, *units, *roles):
            one_of("column", name, columns)
        for name in inner & outer:
            raise FactorError(f"factor {name}", "both intrinsic and extrinsic", "one of them")
        factors = []
        for name in (name for name in columns if name in inner | outer):
            kind = _kind(name, _column(table, name))
            role = roles.get(name) or guess_role(name, kind)
            scope: Scope = "intrinsic" if name in inner else "extrinsic"
            factors.append(Factor(name, kind, scope, units.get(name, ""), role))
        return cls(factors).with_values(table)


def _column(table: pd.DataFrame, name: str) -> pd.Series[Any]:
    for column in table.columns:
        if str(column) == name:
            return table[column]
    raise FactorError("table", f"no column {name}", f"columns {', '.join(map(str, table.columns))}")


def _kind(name: str, column: pd.Series[Any]) -> Kind:
    from pandas.api import types

    numeric = types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
    return "numeric" if numeric and name != VARIANT else "categorical"


def _distinct(factor: Factor, column: pd.Series[Any]) -> tuple[Value, ...]:
    if factor.kind == "categorical":  # an empty cell of a category is a level
        cells = column.unique()
        return tuple(sorted({str(factor.value("" if cell != cell else cell)) for cell in cells}))
    grid = sorted({float(factor.value(cell)) for cell in column.unique()})
    last, most = len(grid) - 1, _MOST_GRID_VALUES
    if last < most:
        return tuple(grid)
    return tuple(grid[round(i * last / (most - 1))] for i in range(most))
