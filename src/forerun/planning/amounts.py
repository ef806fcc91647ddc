"""How much is to be done until the result is there, in what the study times.

    the study times            is done                            with a batch effect
    an iteration, or any run   steps times                        times its ratio
    an iteration, of samples   samples / batch times              times its ratio
    a run of so many steps     once, of samples / batch steps     that times its ratio
    a run of so many epochs    once, of the given epochs          epochs times its ratio

The batch effect's ratio is of samples: those that a batch needs, over those of the reference batch,
which `samples` and `epochs` are said for. A factor of the role steps counts iterations where its
name has step or iter in it, as `steps` and `iters` have; others, as `epochs`, count passes over the
data. So many iterations with a larger batch are more training, and no candidates beside each other;
so many epochs are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from forerun.errors import InputError
from forerun.factors import Point, Role, Space
from forerun.planning.candidates import Candidate, Roles
from forerun.planning.request import Request

_ROUNDING = 1e-9  # of a quotient, that is no step more


class Amounts:
    """What a request wants done, at the points of a study."""

    def __init__(self, request: Request, space: Space) -> None:
        self._request, self._roles = request, Roles(space)
        self.steps = self._roles["steps"]
        name = (self.steps or "").lower()
        iterates = "epoch" not in name and ("step" in name or "iter" in name)
        self.iterations = self.steps if iterates else None
        self.epochs = None if iterates else self.steps

    def workers(self, point: Point) -> int | None:
        """Workers of a point, or nodes where none are counted; None where neither are."""
        roles: tuple[Role, ...] = ("workers", "nodes")
        for role in roles:
            if self._roles[role] is not None:
                return self._roles.count(point, role)
        return None

    def batch(self, point: Point) -> float | None:
        """The samples of one step, of all workers together; None without such a factor."""
        name = self._roles["batch"]
        if name is None:
            return None
        each = self._request.batch_is == "worker"
        return float(point[name]) * ((self.workers(point) or 1) if each else 1)

    def ratio(self, point: Point) -> float:
        """Samples that its batch needs, of those that the reference batch does."""
        effect, batch = self._request.batch_effect, self.batch(point)
        return 1.0 if effect is None or batch is None else effect.samples(batch)

    def repeats(self, point: Point) -> float:
        """How often what the study times is done until the result is there."""
        request, batch = self._request, self.batch(point)
        if request.samples is not None and batch is not None:
            if self.iterations is not None:
                return 1.0
            return request.samples / batch * self.ratio(point)
        return request.steps * (self.ratio(point) if self.steps is None else 1.0)

    def samples(self, point: Point) -> float:
        """What the study times, in samples that teach, beside those of the same with one worker.

        An epoch has as many whatever the workers; of a step each worker has its own, where the
        batch is its own.
        """
        request = self._request
        is_step = self.iterations is not None or (
            self.steps is None and request.samples is not None
        )
        each = is_step and request.batch_is == "worker"
        return ((self.workers(point) or 1) if each else 1) / self.ratio(point)

    def passes(self, point: Point) -> float:
        """How often all data is read: as the request says, or the epochs, or once."""
        given = None if self._request.data is None else self._request.data.passes
        if given is None and self.epochs is not None:
            return float(point[self.epochs]) * self.repeats(point)  # the effect is in the epochs
        return (given or 1.0) * self.ratio(point)

    def trained(self, point: Point) -> float:
        """The samples of a run, or its epochs, beside those of other points; 1 without steps.

        Whatever the workers: the passes that a request says are those of each of its candidates.
        """
        if self.steps is None:
            return 1.0
        batch = None if self.iterations is None else self._roles["batch"]
        return float(point[self.steps]) * (1.0 if batch is None else float(point[batch]))

    def applied(self, every: Iterable[Candidate]) -> list[Candidate]:
        """The candidates with as many steps or epochs as they need; InputError if nobody can say.

        Those that differ in the steps alone are one then.
        """
        self._check()
        return list(dict.fromkeys(replace(one, point=self.point(one.point)) for one in every))

    def point(self, point: Point) -> Point:
        """The point with as many steps or epochs as it needs."""
        request, batch, count = self._request, self.batch(point), None
        if self.iterations is not None and request.samples is not None and batch is not None:
            needed = request.samples * self.ratio(point) / batch
            count = math.ceil(needed * (1 - _ROUNDING))
        elif self.epochs is not None and request.batch_effect is not None:
            count = max(1, round(float(point[self.epochs]) * self.ratio(point)))
        return point if count is None else Point({**point, str(self.steps): count})

    def _check(self) -> None:
        request, batch = self._request, self._roles["batch"]
        for given in ("samples", "batch_effect"):
            if getattr(request, given) is not None and batch is None:
                expected = "one in the study: it says how many steps they take"
                raise InputError(given, "no factor of the role batch", expected)
        if request.samples is not None and self.epochs is not None:
            expected = f"fixed: {{{self.epochs}: N}} alone, or a study whose factor counts steps"
            raise InputError("samples", f"{self.epochs}, which counts passes over them", expected)
        if self.iterations is None or request.samples is not None:
            return
        is_free = batch is not None and len(request.choices(batch) or ()) > 1
        if is_free or request.batch_effect is not None:
            what = "free" if is_free else "a batch_effect"
            found = f"{what}, while {self.iterations} counts iterations whatever their batch"
            raise InputError(f"{batch}, the batch size", found, "samples: N, to train with")
