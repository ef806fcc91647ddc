"""Where the best of some points is wanted, runs go to what may be best, and few of them find it."""

import math

import numpy as np

from forerun.factors import Factor, Point, Space
from forerun.measuring.adaptive import Adaptive
from forerun.modelling.steps import straight
from forerun.modelling.teaching import as_table
from forerun.study import Run

EPOCHS = 40
SPACE = Space(
    [
        Factor.parse("epochs=1,8"),
        Factor.parse("batch=8,16,32,64"),
        Factor.parse("threads=1,2,4"),
        Factor.parse("compiler=plain,jit"),
        Factor.parse("loader=slow,fast"),
    ]
)
WANTED = [
    Point({**point, "epochs": EPOCHS})
    for point in SPACE.grid()
    if point["epochs"] == SPACE["epochs"].values[0]
]
ONCE = dict.fromkeys(WANTED, 1.0)


def seconds(point: Point) -> float:
    """Compiling takes 5 s once, and a fifth off each epoch."""
    compiled = point["compiler"] == "jit"
    step = 0.2 + 8 / float(point["batch"]) / math.sqrt(float(point["threads"]))
    step += 0.3 * (point["loader"] == "slow")
    return 3 + 5 * compiled + float(point["epochs"]) * step * (0.8 if compiled else 1.0)


def made(design: Adaptive, count: int, seed: int) -> list[Run]:
    noise = np.random.default_rng(seed)
    runs: list[Run] = []
    while len(runs) < count:
        chosen = design.next(runs, [], 1)[0]
        taken = seconds(chosen.point) * float(np.exp(0.03 * noise.standard_normal()))
        runs.append(Run(chosen.point, {"seconds": taken}, source=chosen.source))
    return runs


def regret(design: Adaptive, runs: list[Run]) -> float:
    """What the choice takes beyond the best, by the model and in truth."""
    model = design.model(runs)
    assert model is not None
    said = straight(model, SPACE, as_table(WANTED, SPACE)).seconds
    best = min(map(seconds, WANTED))
    return seconds(WANTED[int(np.argmin(said))]) / best - 1


def test_few_runs_find_the_best_and_none_is_random() -> None:
    lost, lost_otherwise = [], []
    for seed in range(3):
        design = Adaptive(SPACE, seed, wanted=ONCE)
        runs = made(design, 14, seed)
        assert all(run.source != "measure random" for run in runs)
        lost.append(regret(design, runs))
        other = Adaptive(SPACE, seed)
        lost_otherwise.append(regret(other, made(other, 14, seed)))
    assert np.mean(lost) < 0.05
    assert np.mean(lost) <= np.mean(lost_otherwise)


def test_runs_go_to_what_may_be_best() -> None:
    design = Adaptive(SPACE, 0, wanted=ONCE)
    late = [run.point for run in made(design, 16, 0)][8:]
    assert np.mean([float(point["batch"]) for point in late]) > 32
    assert sum(point["loader"] == "fast" for point in late) > len(late) / 2


STEPS = Space([SPACE[name] for name in ("batch", "threads", "compiler", "loader")])
MANY = {point: 1e6 / float(point["batch"]) for point in STEPS.grid()}


def stepped(design: Adaptive, count: int) -> list[Run]:
    """Runs that time one step: the quicker the smaller its batch is, though not for a sample."""
    noise = np.random.default_rng(0)
    runs: list[Run] = []
    while len(runs) < count:
        point = design.next(runs, [], 1)[0].point
        taken = step(point) * float(np.exp(0.03 * noise.standard_normal()))
        runs.append(Run(point, {"seconds": taken}))
    return runs


def step(point: Point) -> float:
    taken = (4 + 0.1 * float(point["batch"])) / math.sqrt(float(point["threads"]))
    taken += 0.5 * (point["loader"] == "slow")
    return taken * (0.9 if point["compiler"] == "jit" else 1.0)


def batches(runs: list[Run]) -> list[float]:
    return [float(run.point["batch"]) for run in runs]


def test_what_is_done_seldom_need_not_be_quick() -> None:
    late = batches(stepped(Adaptive(STEPS, 0, wanted=MANY), 15)[8:])
    assert np.mean(late) > 45
    assert min(late) > 16
    once = Adaptive(STEPS, 0, wanted=dict.fromkeys(MANY, 1.0))
    assert np.mean(batches(stepped(once, 15)[8:])) < np.mean(late)


def test_it_goes_on_from_the_runs_alone() -> None:
    runs = made(Adaptive(SPACE, 0, wanted=ONCE), 12, 0)
    again = Adaptive(SPACE, 0, wanted=ONCE).next(runs[:10], [], 1)
    assert again[0].point == runs[10].point


def test_beyond_the_measured_steps_times_go_on_in_a_straight_line() -> None:
    design = Adaptive(SPACE, 0)
    model = design.model(made(design, 20, 0))
    assert model is not None
    points = [Point({**WANTED[0], "epochs": epochs}) for epochs in (1, 8, 15, 22)]
    table = as_table(points, SPACE)
    one, eight, fifteen, more = straight(model, SPACE, table).seconds
    assert eight - one > 0
    assert np.allclose([fifteen - eight, more - fifteen], eight - one, rtol=1e-3)
