"""What a sliding window sees along one axis, where only some of its results are wanted."""

from __future__ import annotations

from dataclasses import dataclass

from forerun.splitting.graph import Operation, Shape
from forerun.splitting.regions import Indices


@dataclass(frozen=True, slots=True)
class Reach:
    """The places that some results see, and the padding beyond the true borders.

    Results that see nothing but padding are computed with one that sees a place, and `skipped`.
    """

    places: Indices
    before: int
    after: int
    skipped: int
    results: int  # computed, those that are skipped included


@dataclass(frozen=True, slots=True)
class Window:
    """A window along one axis: result i sees places i·stride - before + j·dilation, j < kernel."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int  # the padding that the layer has there, which may be less than its results see
    size: int
    results: int

    @property
    def is_point(self) -> bool:
        """Whether each result sees its own place alone."""
        return (self.kernel, self.stride, self.before) == (1, 1, 0) and self.results <= self.size

    def under(self, wanted: Indices) -> Reach:
        """What the wanted results see."""
        if self.is_point:
            return Reach(wanted, 0, 0, 0, len(wanted))
        start, stop = wanted.start, wanted.stop
        while self._last(stop - 1) < 0:
            stop += 1
        while self._first(start) >= self.size:
            start -= 1
        first, end = self._first(start), self._last(stop - 1) + 1
        return Reach(
            places=Indices.span(max(first, 0), min(end, self.size)),
            before=max(0, -first),
            after=max(0, end - self.size),
            skipped=wanted.start - start,
            results=stop - start,
        )

    def _first(self, result: int) -> int:
        return result * self.stride - self.before

    def _last(self, result: int) -> int:
        return self._first(result) + (self.kernel - 1) * self.dilation


def windows(op: Operation, before: Shape, after: Shape) -> tuple[Window, Window]:
    """The windows of a convolution or a pool along rows and columns."""
    sizes = ((before.rows, after.rows), (before.columns, after.columns))
    pads = op.attributes["pads"]
    rows, columns = (
        Window(
            kernel=op.attributes["kernel"][axis],
            stride=op.attributes["strides"][axis],
            dilation=op.attributes["dilations"][axis],
            before=pads[axis],
            after=pads[axis + 2],
            size=sizes[axis][0],
            results=sizes[axis][1],
        )
        for axis in (0, 1)
    )
    return rows, columns
