"""A D-optimal design: the points that pin down the constants of a log-linear expression best.

    log t = c + Σ p_i·log x_i + Σ level constants  (+ squares and products of two of these)

The constants of the first line must be found, so they decide; curvature and interactions are given
a variance beforehand (DuMouchel and Jones), so that they take what points are left over.
"""

from __future__ import annotations

import random
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from forerun.factors import Factor, Point, Space
from forerun.measuring.design import Drawn

Array = np.ndarray[Any, np.dtype[np.float64]]
Row = tuple[int, ...]  # the number of each factor's value

CANDIDATES = 400  # random points that the first choice is made from
PASSES = 10  # over all points, trying other values
VALUES = 9  # of a factor that are tried, its ends among them
MOST_TERMS = 300  # beyond, products of two are left out: first those with a category
KNOWN = 1.0  # precision beforehand of a square or a product, whose range is about 1
HARDLY = 1e-4  # the same of a constant that must be found
BETTER = 1e-3  # rise of the log determinant that an exchange is worth


class DOptimal(Drawn):
    """Points with the largest determinant of the information on the expression's constants."""

    @cached_property
    def points(self) -> list[Point]:
        every = self.domain.draw(max(self.count + 1, CANDIDATES), self.seed)
        if len(every) <= self.count:  # all that there are
            return self.domain.some(every)
        terms = Terms(self.domain.space)
        rows = _greedy(terms, [self.domain.row(point) for point in every], self.count)
        drawn = random.Random(self.seed)
        for _ in range(PASSES):
            if not self._exchanged(terms, rows, drawn):
                break
        return [self.domain.at(row) for row in rows]

    def _exchanged(self, terms: Terms, rows: list[Row], drawn: random.Random) -> bool:
        """Give each point in turn the best value of each factor; whether that changed anything."""
        inverse = terms.inverse(rows)
        changed = False
        for place in drawn.sample(range(len(rows)), len(rows)):
            for factor, choices in enumerate(terms.choices):
                others = [self._changed(rows[place], factor, choice) for choice in choices]
                others = [row for row in others if row not in rows and self._fine(row)]
                if not others:
                    continue
                old, new = terms(rows[place : place + 1])[0], terms(others)
                gains = _exchange_gains(inverse, old, new)
                best = int(np.argmax(gains))
                if gains[best] > BETTER:
                    rows[place], changed = others[best], True
                    inverse = terms.inverse(rows)
        return changed

    @staticmethod
    def _changed(row: Row, factor: int, choice: int) -> Row:
        return (*row[:factor], choice, *row[factor + 1 :])

    def _fine(self, row: Row) -> bool:
        return self.domain.allows(self.domain.at(row))


class Terms:
    """The terms of the expression's logarithm at points of a space."""

    def __init__(self, space: Space) -> None:
        factors = list(space.values())
        self._codes = [_codes(factor) for factor in factors]  # (values, columns) each
        self.choices = [_spread(len(factor.values)) for factor in factors]
        numeric = [i for i, factor in enumerate(factors) if factor.kind == "numeric"]
        self._squared = [i for i in numeric if len(factors[i].values) > 2]
        pairs = list(combinations(range(len(factors)), 2))
        if self._width(pairs) > MOST_TERMS:
            pairs = list(combinations(numeric, 2))
        self._pairs = pairs if self._width(pairs) <= MOST_TERMS else []

    def __call__(self, rows: list[Row]) -> Array:
        """One row a point: 1, the factors, squares, products."""
        at = np.array(rows, int).reshape(len(rows), len(self._codes))
        blocks = [codes[at[:, i]] for i, codes in enumerate(self._codes)]
        parts = [np.ones((len(rows), 1)), *blocks]
        parts += [blocks[i] ** 2 - 0.5 for i in self._squared]
        parts += [
            (blocks[i][:, :, None] * blocks[j][:, None, :]).reshape(len(rows), -1)
            for i, j in self._pairs
        ]
        return np.hstack(parts)

    @cached_property
    def before(self) -> Array:
        """What is known of each term's constant before any run: its precision."""
        main = 1 + sum(codes.shape[1] for codes in self._codes)
        more = len(self._squared) + self._width(self._pairs)
        return np.concatenate([np.full(main, HARDLY), np.full(more, KNOWN)])

    def information(self, rows: list[Row]) -> Array:
        found = self(rows)
        result: Array = found.T @ found + np.diag(self.before)
        return result

    def inverse(self, rows: list[Row]) -> Array:
        """The covariance of the constants, in units of the noise."""
        return np.asarray(np.linalg.inv(self.information(rows)), float)

    def _width(self, pairs: list[tuple[int, int]]) -> int:
        return sum(self._codes[i].shape[1] * self._codes[j].shape[1] for i, j in pairs)


def _codes(factor: Factor) -> Array:
    """Numbers from -1 to 1, by the logarithm where they are positive; levels against the last."""
    if factor.kind == "categorical":
        levels = np.eye(len(factor.values))
        result: Array = levels[:, :-1] - levels[:, -1:]
        return result
    numbers = np.array(factor.values, float)
    scaled = np.log(numbers) if (numbers > 0).all() else numbers / np.abs(numbers).max()
    low, high = scaled.min(), scaled.max()
    scaled = (2 * scaled - low - high) / (high - low) if high > low else 0 * scaled
    return scaled[:, None] if high > low else np.empty((len(numbers), 0))


def _spread(count: int) -> list[int]:
    """Up to so many of `count` values, evenly, both ends among them."""
    return sorted({round(i * (count - 1) / (VALUES - 1)) for i in range(VALUES)})


def _greedy(terms: Terms, candidates: list[Row], count: int) -> list[Row]:
    """One after another, the candidate that tells most beside those before it."""
    found = terms(candidates)
    inverse = np.diag(1 / terms.before)
    chosen: list[int] = []
    for _ in range(count):
        told = ((found @ inverse) * found).sum(1)
        told[chosen] = -np.inf
        best = int(np.argmax(told))
        chosen.append(best)
        column = inverse @ found[best]
        inverse -= np.outer(column, column) / (1 + told[best])
    return [candidates[i] for i in chosen]


def _exchange_gains(inverse: Array, old: Array, new: Array) -> Array:
    """Change of the log determinant when the point with the terms `old` becomes one of `new`."""
    of_old = float(old @ inverse @ old)
    solved = new @ inverse
    of_new, both = (solved * new).sum(1), solved @ old
    ratio: Array = (1 + of_new) * (1 - of_old) + both**2
    return np.log(np.maximum(ratio, 1e-300))
