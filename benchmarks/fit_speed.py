"""The search for the generic expression's constants, beside SciPy's differential evolution.

    python benchmarks/fit_speed.py --data DIR [--cache FILE] [--quick]

DIR holds the four tables that `published.py` names. On every cut without categories both sides
minimise the same cost in the same box, one thread each, by turns: ours; SciPy's default settings
with a scalar NumPy cost (three seeds each); SciPy's with a vectorised cost. Then planted
expressions are recovered. The exit code is 1 where a claim does not hold. All of it takes about
ten minutes; with --cache a second start goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy
from numpy.typing import NDArray
from planted import planted
from published import TARGET, Cut, cuts
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.optimize import Bounds, differential_evolution
from threadpoolctl import threadpool_limits

from forerun.modelling.columns import Columns
from forerun.modelling.generic import GenericExpression, choose_strength, design_from, fit_generic
from forerun.modelling.generic.cost import Problem, costs
from forerun.modelling.generic.fit import centred

Array = NDArray[np.float64]
Cost = Callable[[Array], float]

STRENGTH, EXPONENT_BOUND, COEFFICIENT_BOX = 1e-3, 3.0, (-8.0, 4.0)
SEEDS = 3
MOST_GAP, LEAST_SCALAR, LEAST_VECTORISED = 1e-3, 20.0, 3.0
NEAR, LEAST_RECOVERED = 0.05, 0.95

progress = Console(stderr=True)


@dataclass(frozen=True)
class Race:
    """One cut: costs reached and seconds taken; of ours and of the scalar peer for each seed."""

    column: str
    runs: int
    constants: int
    cost: list[float]
    seconds: list[float]
    scalar_cost: list[float]
    scalar_seconds: list[float]
    vectorised_cost: float
    vectorised_seconds: float

    @property
    def gap(self) -> float:
        """How far our worst seed is above SciPy's best, as a share of it."""
        return max(self.cost) / min(self.scalar_cost) - 1

    @property
    def scalar_ratio(self) -> float:
        """How many times faster than one seed with a scalar cost."""
        return statistics.mean(self.scalar_seconds) / statistics.mean(self.seconds)

    @property
    def vectorised_ratio(self) -> float:
        """How many times faster than one seed with a vectorised cost."""
        return self.vectorised_seconds / statistics.mean(self.seconds)


def scalar_cost(problem: Problem) -> Cost:
    """Cost of one vector [log10 a, log10 C, p, q], as a careful user would write it."""
    powers, scaling, target = problem.powers, problem.scaling, problem.target
    inner, count = len(powers), problem.coefficients

    def cost(vector: Array) -> float:
        coefficients, exponents = 10.0 ** vector[:count], vector[count:]
        work = coefficients[0]
        if inner:
            work = coefficients[:-1] @ np.exp(exponents[:inner, None] * powers)
        time = work * np.exp(exponents[inner:] @ scaling) + coefficients[-1]
        error = np.log(time) - target
        size = exponents @ exponents + coefficients @ coefficients
        return float(error @ error / len(target) + STRENGTH * size)

    return cost


def vectorised_cost(problem: Problem) -> Callable[[Array], Array]:
    """Costs of many vectors, one in each column."""
    powers, scaling, target = problem.powers, problem.scaling, problem.target
    inner, count = len(powers), problem.coefficients

    def cost(vectors: Array) -> Array:
        coefficients, exponents = 10.0 ** vectors[:count], vectors[count:]
        work = coefficients[0][:, None]
        if inner:
            parts = np.exp(exponents[:inner, :, None] * powers[:, None])
            work = np.einsum("km,kmn->mn", coefficients[:-1], parts)
        time = work * np.exp(exponents[inner:].T @ scaling) + coefficients[-1][:, None]
        error = np.log(time) - target
        size = np.sum(exponents**2, axis=0) + np.sum(coefficients**2, axis=0)
        return np.asarray(np.mean(error**2, axis=1) + STRENGTH * size)

    return cost


def race(cut: Cut) -> Race:
    table, seconds = cut.learn[cut.factors], cut.learn[TARGET].to_numpy()
    design = design_from(Columns.measured(table), table, cut.intrinsic)
    problem = design.problem(centred(seconds)[1], "log", "l2", EXPONENT_BOUND)
    count, size = problem.coefficients, problem.size
    box = Bounds(
        np.repeat([COEFFICIENT_BOX[0], -EXPONENT_BOUND], [count, size - count]),
        np.repeat([COEFFICIENT_BOX[1], EXPONENT_BOUND], [count, size - count]),
    )
    one, many = scalar_cost(problem), vectorised_cost(problem)
    _same_cost(problem, one, many)

    def ours(seed: int) -> float:
        return fit_generic(design, seconds, strength=STRENGTH, seed=seed)[1]

    def scalar(seed: int) -> float:
        return float(differential_evolution(one, box, rng=seed).fun)

    def vectorised(seed: int) -> float:
        peer = cast("Cost", many)  # the stubs know only scalar costs
        found = differential_evolution(peer, box, rng=seed, vectorized=True, updating="deferred")
        return float(found.fun)

    ours(0)  # the first call of anything is slow
    mine, peers = [], []
    for seed in range(SEEDS):
        mine.append(_timed(ours, seed))
        peers.append(_timed(scalar, seed))
    last = _timed(vectorised, 0)
    return Race(
        cut.column,
        len(seconds),
        size,
        cost=[cost for cost, _ in mine],
        seconds=[taken for _, taken in mine],
        scalar_cost=[cost for cost, _ in peers],
        scalar_seconds=[taken for _, taken in peers],
        vectorised_cost=last[0],
        vectorised_seconds=last[1],
    )


def _same_cost(problem: Problem, one: Cost, many: Callable[[Array], Array]) -> None:
    """Refuse to race for different prizes."""
    vector = np.random.default_rng(0).uniform(-1, 1, problem.size)
    count = problem.coefficients
    member = np.concatenate([10.0 ** vector[:count], vector[count:]])
    expected = costs(problem, member[None], STRENGTH)
    np.testing.assert_allclose([one(vector), many(vector[:, None])[0]], expected[0], rtol=1e-10)


def _timed(fit: Callable[[int], float], seed: int) -> tuple[float, float]:
    start = time.perf_counter()
    cost = fit(seed)
    return cost, time.perf_counter() - start


def race_all(tasks: list[Cut], cache: Path | None) -> list[Race]:
    """Every task, save those that the cache has from the same versions."""
    versions = f"SciPy {scipy.__version__}, NumPy {np.__version__}, strength {STRENGTH:g}"
    known: dict[str, dict[str, Any]] = {}
    if cache is not None and cache.exists():
        document = json.loads(cache.read_text())
        known = document["races"] if document["versions"] == versions else {}
    found: list[Race] = []
    seen: Counter[str] = Counter()
    for cut in track(tasks, "racing", console=progress):
        name = f"{cut.column}, {cut.series}"
        key = f"{name}, {seen[name]}"
        seen[name] += 1
        if key not in known:
            known[key] = asdict(race(cut))
            if cache is not None:
                _write(cache, {"versions": versions, "races": known})
        found.append(Race(**known[key]))
    return found


def _write(file: Path, document: dict[str, object]) -> None:
    fresh = file.with_suffix(".part")
    fresh.write_text(json.dumps(document, indent=1))
    fresh.replace(file)


def recovered(count: int) -> int:
    """How many planted expressions came back with every exponent within 5 %."""
    good = 0
    for one in track(planted(count), "recovering", total=count, console=progress):
        design = design_from(Columns.measured(one.table), one.table, one.intrinsic)
        strength = choose_strength(design, one.seconds)
        near = _exponents(fit_generic(design, one.seconds, strength=strength)[0])
        good += all(abs(near[name] / true - 1) <= NEAR for name, true in one.exponents.items())
    return good


def _exponents(expression: GenericExpression) -> dict[str, float]:
    inner = {part.name: part.exponent for part in expression.parts}
    return inner | {scaling.name: scaling.exponents[0] for scaling in expression.scalings}


def geometric(values: Iterable[float]) -> float:
    return statistics.geometric_mean(list(values))


def show(races: list[Race]) -> None:
    table = Table(title="the generic expression's constants, one thread, geometric means")
    table.add_column("column")
    for heading in (
        "cuts",
        "runs",
        "constants",
        "ours, ms",
        "SciPy, ms",
        "vectorised, ms",
        "ratio",
        "ratio, vectorised",
        "worst gap, %",
        "SciPy's own spread, %",
    ):
        table.add_column(heading, justify="right")
    for column in dict.fromkeys(race.column for race in races):
        here = [race for race in races if race.column == column]
        spread = max(max(r.scalar_cost) / min(r.scalar_cost) - 1 for r in here)
        table.add_row(
            column,
            str(len(here)),
            f"{statistics.median(r.runs for r in here):.0f}",
            str(here[0].constants),
            f"{1e3 * geometric(statistics.mean(r.seconds) for r in here):.1f}",
            f"{1e3 * geometric(statistics.mean(r.scalar_seconds) for r in here):.0f}",
            f"{1e3 * geometric(r.vectorised_seconds for r in here):.0f}",
            f"{geometric(r.scalar_ratio for r in here):.0f}",
            f"{geometric(r.vectorised_ratio for r in here):.1f}",
            f"{100 * max(0.0, *(r.gap for r in here)):.4f}",
            f"{100 * spread:.2f}",
        )
    Console(width=160).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the four tables")
    parser.add_argument("--cache", type=Path, help="JSON file to go on from, written as it goes")
    parser.add_argument("--quick", action="store_true", help="one cut a column, 20 planted ones")
    arguments = parser.parse_args()
    tasks = [cut for cut in cuts(arguments.data) if cut.numeric]
    if arguments.quick:
        tasks = list({cut.column: cut for cut in reversed(tasks)}.values())[::-1]
    count = 20 if arguments.quick else 100
    with threadpool_limits(1):
        races = race_all(tasks, arguments.cache)
        good = recovered(count)
    show(races)
    gap, scalar = max(0.0, *(r.gap for r in races)), geometric(r.scalar_ratio for r in races)
    vectorised = geometric(r.vectorised_ratio for r in races)
    print(
        f"{len(races)} cuts, {SEEDS} seeds: cost at most {100 * gap:.4f} % above SciPy's best of"
        f" {SEEDS} (claim {100 * MOST_GAP:g} %);"
        f" {scalar:.0f} times faster (claim {LEAST_SCALAR:g}),"
        f" {vectorised:.1f} times faster than vectorised (claim {LEAST_VECTORISED:g})"
    )
    print(f"planted: every exponent within 5 % in {good} of {count} (claim {LEAST_RECOVERED:.0%})")
    fast = scalar >= LEAST_SCALAR and vectorised >= LEAST_VECTORISED
    return int(not (gap <= MOST_GAP and fast and good >= LEAST_RECOVERED * count))


if __name__ == "__main__":
    sys.exit(main())
