"""What a candidate must keep: the request's constraints, and what a partition gives a job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forerun import quantities
from forerun.errors import InputError
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate, Roles
from forerun.planning.estimates import Estimate
from forerun.planning.memory import beside_measured, room
from forerun.planning.request import Request


@dataclass(frozen=True)
class Rules:
    """All that must hold, for candidates with estimates."""

    request: Request
    infrastructure: Infrastructure
    roles: Roles
    measured: bool  # whether the study's runs measured their memory

    def check(self, estimates: Iterable[Estimate]) -> None:
        """InputError for a constraint that cannot be held against what is known."""
        wanted, found = self.request.constraints, list(estimates)
        if wanted.budget is not None and any(one.cost is None for one in found):
            expected = "prices in their description"
            raise InputError("constraint budget", "no prices for some partitions", expected)
        if wanted.memory is not None and any(one.memory is None for one in found):
            expected = "runs with memory_bytes, or a network and a factor for the batch"
            raise InputError(
                "constraint memory", "nothing that tells what a worker needs", expected
            )

    def broken(self, one: Candidate, estimate: Estimate) -> str:
        """Which of them a candidate breaks; empty where it keeps them all."""
        found = (
            self._walltime(one, estimate),
            self._deadline(estimate),
            self._budget(estimate),
            self._memory(one, estimate),
            self._efficiency(estimate),
        )
        return next(filter(None, found), "")

    def cautions(self, estimate: Estimate) -> tuple[str, ...]:
        """Where what is likely keeps a constraint, and what may be does not."""
        deadline = self.request.constraints.deadline
        if deadline is None or estimate.high <= deadline:
            return ()
        late, limit = map(quantities.seconds, (estimate.high, deadline))
        return (f"may miss the deadline: it takes up to {late}, more than {limit}",)

    def _walltime(self, one: Candidate, estimate: Estimate) -> str:
        """A job that is killed is lost: the upper end of the interval is what counts."""
        limits = {
            one.partition: self.infrastructure.partition(one.partition).limits.walltime,
            "the job": self.request.job.walltime,
        }
        known = {whose: limit for whose, limit in limits.items() if limit is not None}
        if not known:
            return ""
        whose = min(known, key=lambda whose: known[whose])
        most = estimate.high - estimate.parts["wait"]
        if most <= known[whose]:
            return ""
        long, limit = map(quantities.seconds, (most, known[whose]))
        return f"walltime: it may take up to {long}, more than the {limit} of {whose}"

    def _deadline(self, estimate: Estimate) -> str:
        deadline = self.request.constraints.deadline
        if deadline is None or estimate.seconds <= deadline:
            return ""
        late, limit = map(quantities.seconds, (estimate.seconds, deadline))
        return f"deadline: {late}, more than {limit}"

    def _budget(self, estimate: Estimate) -> str:
        budget, currency = self.request.constraints.budget, self.infrastructure.currency
        if budget is None or estimate.cost is None or estimate.cost <= budget:
            return ""
        cost, limit = (quantities.money(x, currency) for x in (estimate.cost, budget))
        return f"budget: {cost}, more than {limit}"

    def _memory(self, one: Candidate, estimate: Estimate) -> str:
        partition = self.infrastructure.partition(one.partition)
        has = room(self.request, partition, self.roles, one.point, one.nodes, self.measured)
        if estimate.memory is None:
            return ""
        if estimate.memory <= has:
            where = self.request, partition, self.roles, one.point, one.nodes
            return beside_measured(*where) if self.measured else ""
        need, have = (quantities.amount(x, "bytes") for x in (estimate.memory, has))
        return f"memory: a worker may need {need}, more than {have}"

    def _efficiency(self, estimate: Estimate) -> str:
        least, has = self.request.constraints.efficiency, estimate.efficiency
        if least is None or has is None or has >= least:
            return ""
        return f"efficiency: {quantities.percent(has)}, less than {quantities.percent(least)}"
