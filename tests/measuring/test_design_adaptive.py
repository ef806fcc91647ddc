"""The adaptive design tries what teaches most a second, everything early, and stays honest."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from forerun.errors import InputError
from forerun.factors import VARIANT, Factor, Point, Space
from forerun.measuring import adaptive
from forerun.measuring.adaptive import Adaptive
from forerun.measuring.design import Chosen, design_by_name
from forerun.modelling.teaching import as_table, predicted
from forerun.study import Run, Status

SPACE = Space(
    [
        Factor("batch", values=(8, 16, 32, 64, 128, 256)),
        Factor("filters", values=(4, 8, 16, 32, 64)),
        Factor("device", "categorical", values=("k80", "p100", "v100")),
    ]
)
SPEED = {"k80": 4.0, "p100": 2.0, "v100": 1.0}


def seconds(point: Point) -> float:
    """A start-up of 2 s, work by filters, and a cost for each step."""
    work = 0.02 * float(point["filters"]) + 4 / float(point["batch"])
    return 2 + SPEED[str(point.get("device", "v100"))] * work


def run(
    chosen: Chosen, number: int, time: Callable[[Point], float] = seconds, status: Status = "ok"
) -> Run:
    spread = 0.03 * np.random.default_rng(number).standard_normal()
    measures = {"seconds": time(chosen.point) * float(np.exp(spread))} if status == "ok" else {}
    return Run(chosen.point, measures, status, source=chosen.source, uid=str(number))


def played(
    design: Adaptive,
    count: int,
    begun: Sequence[Run] = (),
    time: Callable[[Point], float] = seconds,
    ends: Callable[[Point], Status] = lambda _: "ok",
) -> list[Run]:
    """The runs of a campaign up to so many, each ending as its point says."""
    runs = list(begun)
    while len(runs) < count and (found := design.next(runs, [], 1)):
        runs.append(run(found[0], len(runs), time, ends(found[0].point)))
    return runs


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return played(Adaptive(SPACE, seed=1), 24)


@pytest.mark.parametrize("stop", [0, 3, 8, 9, 13, 20])
def test_it_goes_on_from_the_runs_alone(runs: list[Run], stop: int) -> None:
    again = played(Adaptive(SPACE, seed=1), stop + 2, runs[:stop])
    assert [run.point for run in again] == [run.point for run in runs[: stop + 2]]
    assert [run.source for run in again] == [run.source for run in runs[: stop + 2]]


def test_another_seed_makes_other_choices(runs: list[Run]) -> None:
    assert [run.point for run in played(Adaptive(SPACE, seed=2), 5)] != [
        run.point for run in runs[:5]
    ]


def test_one_run_in_five_is_at_a_random_point(runs: list[Run]) -> None:
    random = [place for place, run in enumerate(runs) if run.source == "measure random"]
    assert random == [4, 9, 14, 19]
    order = list(Adaptive(SPACE, seed=1).domain.stream(1))
    places = [order.index(runs[place].point) for place in random]
    assert places == sorted(places)  # one after the other, the tried ones left out
    assert places[-1] < 12


def test_runs_at_once_differ(runs: list[Run]) -> None:
    design = Adaptive(SPACE, seed=1)
    first = design.next(runs[:20], [], 4)
    assert len({one.point for one in first}) == 4
    more = design.next(runs[:20], [one.point for one in first], 2)
    assert not {one.point for one in more} & {one.point for one in first}
    assert [one.why for one in [*first, *more]].count("random") == 1


def test_what_it_chooses_costs_less_than_what_teaches_most(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptive, "COST", 0.0)
    careless = played(Adaptive(SPACE, seed=1), len(runs))
    spent, spent_carelessly = (
        np.mean([seconds(run.point) for run in made if run.source != "measure random"])
        for made in (runs, careless)
    )
    assert spent < 0.95 * spent_carelessly


def test_the_stated_error_is_near_the_true_one(runs: list[Run]) -> None:
    design = Adaptive(SPACE, seed=1)
    model, stated = design.model(runs), design.stated_error(runs)
    assert model is not None
    assert stated is not None
    unseen = [point for point in SPACE.grid() if point not in {run.point for run in runs}]
    exact = np.array([seconds(point) for point in unseen])
    true = float(np.abs(predicted(model, as_table(unseen, SPACE)) / exact - 1).mean())
    assert true / 2 < stated.mape < max(2 * true, 0.1)
    assert stated.low < stated.mape < stated.high
    assert stated.runs == 3  # the first random run came before the first model


def test_there_is_no_error_to_state_before_there_is_a_model(runs: list[Run]) -> None:
    assert Adaptive(SPACE).stated_error(runs[:5]) is None


@pytest.mark.parametrize("seed", range(3))
def test_every_level_is_tried_early(seed: int) -> None:
    models = tuple(f"net{i}" for i in range(7))
    space = Space([*SPACE.values(), Factor("model", "categorical", values=models)])
    found = played(Adaptive(space, seed=seed), 9)
    assert {run.point["model"] for run in found} == set(models)
    assert {run.point["device"] for run in found} == set(SPEED)


def test_a_level_that_comes_later_is_tried_next(runs: list[Run]) -> None:
    new = Factor("device", "categorical", values=(*SPEED, "t4"))
    space = Space([*list(SPACE.values())[:2], new])
    found = Adaptive(space, seed=1).next(runs[:18], [], 1)
    assert found[0].point["device"] == "t4"


def test_a_point_that_failed_is_not_offered_again() -> None:
    def ends(point: Point) -> Status:
        return "failed" if point["batch"] == 8 else "ok"

    found = played(Adaptive(SPACE, seed=1), 40, ends=ends)
    times = Counter(run.point for run in found if run.status == "failed")
    assert times
    assert set(times.values()) == {1}


def test_a_level_that_always_fails_is_left() -> None:
    def ends(point: Point) -> Status:
        return "failed" if point["device"] == "k80" else "ok"

    found = played(Adaptive(SPACE, seed=1), 20, ends=ends)
    assert sum(run.status == "failed" for run in found) <= 3


@pytest.mark.parametrize("status", ["out_of_memory", "timed_out"])
def test_where_memory_or_time_ran_out_it_keeps_away(status: Status) -> None:
    def ends(point: Point) -> Status:
        return status if int(point["batch"]) * int(point["filters"]) > 4096 else "ok"

    space = Space(list(SPACE.values())[:2])
    found = played(Adaptive(space, seed=1), 26, ends=ends)
    late = [run.status for run in found[10:]]
    assert late.count(status) <= 2


def test_only_allowed_points_come() -> None:
    def allowed(point: Point) -> bool:
        return int(point["batch"]) >= int(point["filters"])

    found = played(Adaptive(SPACE, seed=3, allowed=allowed), 13)
    assert len(found) == 13
    assert all(allowed(run.point) for run in found)


def test_a_constraint_that_allows_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no point that it allows"):
        Adaptive(SPACE, allowed=lambda _: False).next([], [], 1)


def test_a_space_too_large_to_go_through() -> None:
    space = Space(
        [*SPACE.values(), *(Factor(f"x{i}", values=tuple(range(1, 101))) for i in range(12))]
    )
    assert len({run.point for run in played(Adaptive(space, seed=0), 10)}) == 10


def test_several_commands_are_levels_like_any_other() -> None:
    space = Space([*SPACE.values(), Factor(VARIANT, "categorical", values=("eager", "compiled"))])

    def time(point: Point) -> float:
        return seconds(point) * (1.0 if point[VARIANT] == "eager" else 0.7)

    found = played(Adaptive(space, seed=0), 12, time=time)
    assert {run.point[VARIANT] for run in found[:4]} == {"eager", "compiled"}


def test_the_only_points_there_are_come_as_often_as_they_are_listed() -> None:
    listed = SPACE.sample(14, seed=5)
    design = Adaptive(SPACE, seed=0, candidates=[*listed, *listed[:3]])
    found = played(design, 99)
    assert design.total == 17
    assert Counter(run.point for run in found) == Counter([*listed, *listed[:3]])


@pytest.mark.parametrize("batches", [(8,), (8, 16, 32)])
def test_a_small_space_is_repeated_and_then_done(batches: tuple[int, ...]) -> None:
    space = Space([Factor("batch", values=batches), Factor("filters", values=(4, 8, 16))])
    found = played(Adaptive(space, seed=0), 99)
    count = 3 * len(batches)
    assert set(Counter(run.point for run in found).values()) == {3}
    assert [run.source for run in found].count("measure repeat") == 2 * count


def test_a_point_that_was_run_twice_teaches_less_than_one_run_once(runs: list[Run]) -> None:
    once, often = runs[0].point, runs[1].point
    twice = [run(Chosen(often, "repeat"), 100 + number) for number in range(2)]
    listed = [*(one.point for one in runs), once, *[often] * 3]
    design = Adaptive(SPACE, seed=0, candidates=listed)
    assert design.next([*runs, *twice], [], 1)[0].point == once


def test_what_a_marker_leaves_out_counts_as_cost() -> None:
    """Epochs take the same everywhere, but large batches take long to begin."""
    points = SPACE.sample(14, seed=2)

    def marked(number: int, point: Point) -> Run:
        measures = {"seconds": seconds(point), "wall_seconds": float(point["batch"])}
        return Run(point, measures, source="measure chosen", uid=str(number))

    begun = [marked(number, point) for number, point in enumerate(points)]
    found = [one.point for one in Adaptive(SPACE, seed=0).next(begun, [], 5)]
    assert np.median([int(point["batch"]) for point in found]) <= 32


def test_memory_is_learnt_at_the_cost_of_the_seconds() -> None:
    points = SPACE.sample(12, seed=2)
    begun = [
        Run(p, {"seconds": seconds(p), "memory_bytes": 1e9 + 1e6 * int(p["batch"])}, uid=p.key)
        for p in points
    ]
    design = Adaptive(SPACE, seed=0, target="memory_bytes")
    assert design.next(begun, [], 1)
    model = design.model(begun)
    assert model is not None
    assert model.target == "memory_bytes"


def test_imported_runs_count(runs: list[Run]) -> None:
    """A study that begins with somebody else's runs has a model at once."""
    begun = [Run(r.point, r.measures, source="runs.csv", uid=r.uid) for r in runs[:12]]
    design = design_by_name("adaptive", SPACE)
    found = design.next(begun, [], 1)[0]
    assert found.why == "chosen"
    assert found.point not in {run.point for run in begun}


def test_a_level_is_not_given_up_for_runs_that_were_too_large() -> None:
    """What runs out of memory does so for its size, whatever device had it first."""

    def ends(point: Point) -> Status:
        return "out_of_memory" if float(point["batch"]) >= 128 else "ok"

    large = [
        Run(Point({"batch": 256, "filters": filters, "device": "v100"}), {}, "out_of_memory")
        for filters in (4, 64)
    ]
    tried = played(Adaptive(SPACE, seed=1), 14, large, ends=ends)
    assert any(run.status == "ok" and run.point["device"] == "v100" for run in tried)
