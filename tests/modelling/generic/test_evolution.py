import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import Bounds, differential_evolution

from forerun.modelling.generic import Design, Settings
from forerun.modelling.generic.cost import Problem, costs
from forerun.modelling.generic.evolution import improve, sample, search
from forerun.modelling.generic.fit import centred

Array = NDArray[np.float64]


@pytest.fixture
def problem(design: Design, seconds: Array) -> Problem:
    return design.problem(centred(seconds)[1], "log", "l2", exponent_bound=3.0)


def test_no_worse_than_scipy(problem: Problem) -> None:
    p = problem.rows(slice(0, 30))
    count = p.coefficients
    halves = [count, p.size - count]

    def cost(vector: Array) -> float:
        member = np.concatenate([10.0 ** vector[:count], vector[count:]])
        return float(costs(p, member[None], 1e-3)[0])

    box = Bounds(np.repeat([-8.0, -3.0], halves), np.repeat([4.0, 3.0], halves))
    peer = differential_evolution(cost, box, rng=0, popsize=5, maxiter=200)
    assert search(p, 1e-3, 0, Settings())[1] <= peer.fun * 1.001


def test_stays_in_the_box(problem: Problem) -> None:
    narrow = replace(
        problem, lower=np.maximum(problem.lower, -0.1), upper=np.minimum(problem.upper, 0.5)
    )
    member, cost = search(narrow, 1e-6, 0, Settings())
    assert (member >= narrow.lower).all()
    assert (member <= narrow.upper).all()
    assert cost > search(problem, 1e-6, 0, Settings())[1]


def test_every_seed_finds_the_same_optimum(problem: Problem) -> None:
    found = [search(problem, 1e-3, seed, Settings())[1] for seed in range(5)]
    assert found == pytest.approx([found[0]] * 5, rel=1e-6)


def test_l1_makes_useless_exponents_exactly_zero(problem: Problem) -> None:
    p = replace(problem, penalty="l1")
    useless = np.random.default_rng(5).normal(size=(1, 150))
    p = replace(p, scaling=np.concatenate([p.scaling[:1], useless]))
    member, _ = search(p, 0.05, 0, Settings())
    assert member[-1] == 0.0
    assert member[-2] < -0.1


def test_improving_never_makes_a_member_worse(problem: Problem) -> None:
    draw = np.random.default_rng(6)
    members = np.clip(
        problem.start + draw.normal(size=(20, problem.size)), problem.lower, problem.upper
    )
    before = costs(problem, members, 1e-3)
    _, after = improve(problem, members, 1e-3, steps=3)
    assert (after <= before).all()
    assert (after < before).any()


def test_weights_hold_rows_out(problem: Problem) -> None:
    rows = 150
    weights = np.zeros((1, rows))
    weights[0, :100] = 1 / 100
    held, _ = improve(problem, problem.start[None], 1e-3, 60, exact=True, weights=weights)
    alone, _ = improve(problem.rows(slice(0, 100)), problem.start[None], 1e-3, 60, exact=True)
    np.testing.assert_allclose(held, alone, rtol=1e-4, atol=1e-4)


def test_a_sample_keeps_the_order_and_the_whole_if_it_fits(problem: Problem) -> None:
    assert sample(problem, 150, seed=0) is problem
    few = sample(problem, 40, seed=0)
    assert len(few.target) == 40
    places = [int(np.flatnonzero(problem.target == value)[0]) for value in few.target]
    assert places == sorted(places)


def test_a_long_table_is_finished_on_all_rows(problem: Problem) -> None:
    member, cost = search(problem, 1e-3, 0, Settings(search_rows=60))
    assert cost == pytest.approx(search(problem, 1e-3, 0, Settings())[1], rel=1e-6)
    assert cost == pytest.approx(costs(problem, member[None], 1e-3)[0], rel=1e-12)


PRINT_BITS = """
import numpy as np, pandas as pd
from forerun.modelling.columns import Columns
from forerun.modelling.generic import choose_strength, design_from, fit_generic
draw = np.random.default_rng(0)
table = pd.DataFrame(np.exp(draw.normal(size=(3000, 5))), columns=list("abcde"))
table["kind"] = draw.choice(list("xyz"), 3000)
seconds = table.a ** 0.5 + table.b * table.d ** 0.3 + 0.2 * draw.uniform(size=3000)
design = design_from(Columns.measured(table), table, ["a", "b", "kind"])
strength = choose_strength(design, seconds)
expression, cost = fit_generic(design, seconds, strength=strength)
print(strength, cost.hex(), [value.hex() for value in expression.constants().values()])
"""


def test_the_same_bits_on_one_thread_and_on_two() -> None:
    printed = []
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, threads)
        command = [sys.executable, "-c", PRINT_BITS]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        printed.append(run.stdout)
    assert "0x1." in printed[0]
    assert len(set(printed)) == 1
