"""From a table to the arrays of one fit, and from the constants found back to an expression."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forerun.modelling.columns import Column, Columns
from forerun.modelling.generic.cost import Array, Loss, Penalty, Problem
from forerun.modelling.generic.expression import Form, GenericExpression, Part, Scaling, log_ramps

SMALLEST, LARGEST = 1e-8, 1e4  # a coefficient's box, in units of the geometric mean time
LEVEL_BOUND = float(np.log(1e4))  # an extrinsic level's multiplier is within 1e-4 and 1e4
WIDE = 24  # a category with more levels is solved level by level instead of jointly
MOST_JOINT_LEVELS = 60  # over all categories together
STRETCH = 2.0  # most that the effects of a wide category grow or shrink together in one go
MOST_JOINT_CELLS = 20_000_000  # rows times levels: 160 MB


@dataclass(frozen=True)
class Block:
    """What one factor contributes to the arrays of a problem: a row for each of its constants."""

    form: Form
    name: str
    rows: Array


@dataclass(frozen=True)
class Wide:
    """A category with many levels: the level of each row, and what each adds or multiplies by.

    It enters the problem as one row, whose constant stretches all effects alike.
    """

    name: str
    intrinsic: bool
    codes: NDArray[np.int64]
    effects: Array  # coefficients where intrinsic, else logarithms of multipliers (the first is 0)

    @property
    def row(self) -> Array:
        """What it contributes to `fixed` or `scaling`."""
        return (np.log(self.effects) if self.intrinsic else self.effects)[self.codes]

    def size(self, penalty: Penalty) -> float:
        """What it counts in the penalty: the mean over its levels."""
        effects = self.effects**2 if penalty == "l2" else np.abs(self.effects)
        return float(effects.mean())

    def stretched(self, by: float) -> Wide:
        """With all effects so many times as large, within their box."""
        box = (SMALLEST, LARGEST) if self.intrinsic else (-LEVEL_BOUND, LEVEL_BOUND)
        return replace(self, effects=np.clip(by * self.effects, *box))


@dataclass(frozen=True)
class Design:
    """One fit's factors, in the order of a problem's constants."""

    columns: Columns
    rows: int
    powers: tuple[Block, ...]
    fixed: tuple[Block, ...]
    numeric: tuple[Block, ...]  # extrinsic, with an exponent
    levels: tuple[Block, ...]  # extrinsic categories
    wide: tuple[Wide, ...]

    def problem(
        self, log_time: Array, loss: Loss, penalty: Penalty, exponent_bound: float
    ) -> Problem:
        """`log_time` is the logarithm in units of the geometric mean time."""
        inner = [wide.row for wide in self.wide if wide.intrinsic]
        outer = [wide.row for wide in self.wide if not wide.intrinsic]
        powers, fixed = self._stack(self.powers), self._stack(self.fixed, inner)
        scaling = self._stack((*self.numeric, *self.levels), outer)
        sums = len(self.powers) + len(self.fixed) + len(inner) + 1
        coefficients = np.ones(len(powers) + len(fixed) - len(inner))
        exponents = np.full(len(powers) + len(self.numeric), exponent_bound)
        levels = np.full(len(scaling) - len(self.numeric) - len(outer), LEVEL_BOUND)

        def layout(coefficient: float, exponent: float, stretch: float) -> Array:
            own, scaled = coefficient * coefficients, (exponent * exponents, exponent * levels)
            wide = np.full(len(inner), stretch), np.full(len(outer), stretch)
            return np.concatenate([own, wide[0], [coefficient], *scaled, wide[1]])

        counts: list[Array] = [
            *(_penalised(block) for block in (*self.powers, *self.fixed)),
            np.array([wide.size(penalty) for wide in self.wide if wide.intrinsic]),
            np.ones(1 + len(exponents)),
            *(_penalised(block) for block in self.levels),
            np.array([wide.size(penalty) for wide in self.wide if not wide.intrinsic]),
        ]
        return Problem(
            powers=powers,
            fixed=fixed,
            scaling=scaling,
            target=log_time,
            lower=layout(SMALLEST, -1.0, 1 / STRETCH),
            upper=layout(LARGEST, 1.0, STRETCH),
            start=layout(1.0 / sums, 0.0, 1.0),
            penalised=np.concatenate(counts),
            searched=len(powers) + len(fixed) + 1 + np.arange(len(exponents)),
            loss=loss,
            penalty=penalty,
        )

    def stretched(self, constants: Array) -> tuple[Design, Array]:
        """The same with each wide category's constant at 1, its effects stretched instead."""
        inner = sum(wide.intrinsic for wide in self.wide)
        coefficients = sum(len(block.rows) for block in (*self.powers, *self.fixed))
        first, last = coefficients, len(constants) - len(self.wide) + inner
        wides, constants = [], constants.copy()
        for wide in self.wide:
            place = first if wide.intrinsic else last
            wides.append(wide.stretched(float(constants[place])))
            constants[place] = 1.0
            first, last = first + wide.intrinsic, last + (not wide.intrinsic)
        return replace(self, wide=tuple(wides)), constants

    def expression(self, constants: Array, log_unit: float) -> GenericExpression:
        """What the constants of this design's problem say."""
        inner = sum(wide.intrinsic for wide in self.wide)
        numbers = iter(constants.tolist())

        def take(block: Block) -> tuple[float, ...]:
            return tuple(next(numbers) for _ in block.rows)

        powers = [(block, take(block)) for block in self.powers]
        parts = [Part(block.form, block.name, take(block)) for block in self.fixed]
        _skip(numbers, inner)
        constant = next(numbers)
        parts += [Part("power", block.name, a, take(block)[0]) for block, a in powers]
        scalings = [Scaling(block.form, block.name, take(block)) for block in self.numeric]
        scalings += [Scaling("levels", b.name, (0.0, *take(b))) for b in self.levels]
        for wide in self.wide:
            effects = tuple(wide.effects.tolist())
            if wide.intrinsic:
                parts.append(Part("levels", wide.name, effects))
            else:
                scalings.append(Scaling("levels", wide.name, effects))
        place = self.columns.names.index
        parts.sort(key=lambda part: place(part.name) if part.name else 0)
        scalings.sort(key=lambda scaling: place(scaling.name))
        return GenericExpression(self.columns, tuple(parts), tuple(scalings), constant, log_unit)

    def _stack(self, blocks: Iterable[Block], more: Iterable[Array] = ()) -> Array:
        rows = [block.rows for block in blocks] + [row[None] for row in more]
        return np.concatenate(rows) if rows else np.empty((0, self.rows))


def _penalised(block: Block) -> Array:
    """A category counts by the mean over its levels, so that many levels weigh no more than few."""
    levels = len(block.rows) if block.form == "levels" else 1
    return np.full(len(block.rows), 1.0 / levels)


def _skip(numbers: Iterator[Any], count: int) -> None:
    for _ in range(count):
        next(numbers)


def design_from(columns: Columns, table: pd.DataFrame, intrinsic: Collection[str]) -> Design:
    """The design of a table. What is not intrinsic is extrinsic; a constant factor is left out."""
    numbers, codes = columns.numbers(table).T, columns.codes(table).T
    wide_names = _wide(columns, len(table))
    inner: list[Block] = []
    outer: list[Block] = []
    wide: list[Wide] = []
    for column, values in zip(columns.numeric, numbers, strict=True):
        side = inner if column.name in intrinsic else outer
        side.append(_number(column, values, column.name in intrinsic))
    for column, values in zip(columns.levels, codes, strict=True):
        inside = column.name in intrinsic
        if column.name in wide_names:
            wide.append(
                Wide(column.name, inside, values, np.full(len(column.levels), float(inside)))
            )
        else:
            (inner if inside else outer).append(_category(column, values, inside))
    if not inner and not any(w.intrinsic for w in wide):
        inner.append(Block("constant", "", np.zeros((1, len(table)))))
    return Design(
        columns,
        len(table),
        powers=tuple(b for b in inner if b.form == "power"),
        fixed=tuple(b for b in inner if b.form != "power"),
        numeric=tuple(b for b in outer if b.form != "levels"),
        levels=tuple(b for b in outer if b.form == "levels"),
        wide=tuple(wide),
    )


def _number(column: Column, values: Array, intrinsic: bool) -> Block:
    if column.kind == "power":
        return Block("power", column.name, values[None])
    if intrinsic:
        return Block("ramps", column.name, log_ramps(column, values))
    return Block("exponential", column.name, values[None])


def _category(column: Column, codes: NDArray[np.int64], intrinsic: bool) -> Block:
    hot = codes == np.arange(len(column.levels))[:, None]
    if intrinsic:
        return Block("levels", column.name, np.where(hot, 0.0, -np.inf))
    return Block("levels", column.name, hot[1:].astype(float))  # the first level is 1


def _wide(columns: Columns, rows: int) -> set[str]:
    """Categories to solve level by level: the wide ones, and the widest while too many remain."""
    room = min(MOST_JOINT_LEVELS, MOST_JOINT_CELLS // rows)
    names = set()
    for column in sorted(columns.levels, key=lambda c: len(c.levels)):
        room -= len(column.levels)
        if len(column.levels) > WIDE or room < 0:
            names.add(column.name)
    return names
