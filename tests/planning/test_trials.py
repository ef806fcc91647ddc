"""Short trials, and what many steps take by a few."""

from pathlib import Path

import pytest

from forerun.errors import InputError
from forerun.factors import Factor, Point, Space
from forerun.infrastructure import Infrastructure
from forerun.planning.planner import plan, unmeasured
from forerun.planning.request import Request, Wishes
from forerun.planning.trials import trial_of
from forerun.study import Run, Study

HERE = Infrastructure.model_validate(
    {
        "name": "here",
        "partitions": {
            "local": {
                "nodes": 1,
                "processors": {"microarchitecture": "x86_64", "cores": 8},
                "memory": "16 GiB",
            }
        },
    }
)
COMMANDS = {"eager": "run --batch {batch} --epochs {epochs}", "fast": "run -f {batch} {epochs}"}


def request(**changes: object) -> Request:
    given: dict[str, object] = {
        "application": {"commands": COMMANDS},
        "fixed": {"epochs": 100},
        "free": {"batch": [16, 32, 64]},
        "trial": {"epochs": "1,3"},
        **changes,
    }
    return Request.model_validate(given)


def test_trials_take_the_values_of_the_request_and_fewer_steps(tmp_path: Path) -> None:
    asked = trial_of(request(), tmp_path / "r.yaml", 60.0)
    assert asked.study == tmp_path / "r.db"
    assert asked.space is not None
    assert {name: factor.values for name, factor in asked.space.items()} == {
        "batch": (16, 32, 64),
        "epochs": (1, 3),
    }
    assert asked.space["epochs"].role == "steps"
    assert (asked.commands, asked.settings.budget) == (COMMANDS, 60.0)


def test_the_best_is_wanted_at_the_values_in_earnest(tmp_path: Path) -> None:
    wanted = trial_of(request(), tmp_path / "r.yaml", 60.0).wanted
    assert {point["epochs"] for point in wanted} == {100}
    assert {point["variant"] for point in wanted} == {"eager", "fast"}
    assert len(wanted) == 6
    only_tried = trial_of(request(fixed={}), tmp_path / "r.yaml", 60.0).wanted
    assert {point["epochs"] for point in only_tried} == {3}


def test_what_only_trials_vary_may_be_chosen_but_of_steps_the_most(tmp_path: Path) -> None:
    commands = {"command": "run {batch} {epochs} --{loader}"}
    asked = request(application=commands, fixed={}, trial={"epochs": "3,1", "loader": "slow,fast"})
    wanted = trial_of(asked, tmp_path / "r.yaml", 60.0).wanted
    assert {point["epochs"] for point in wanted} == {3}
    assert {point["loader"] for point in wanted} == {"slow", "fast"}


def test_each_is_wanted_as_often_as_it_is_done(tmp_path: Path) -> None:
    def often(**changes: object) -> dict[tuple[float, float], float]:
        asked = request(
            application={"command": "run {batch} {workers}"},
            fixed={},
            free={"batch": [16, 64], "workers": [1, 4]},
            trial={},
            **changes,
        )
        wanted = trial_of(asked, tmp_path / "r.yaml", 60.0).wanted
        return {(float(p["batch"]), float(p["workers"])): n for p, n in wanted.items()}

    assert set(often(steps=50).values()) == {50}
    each = often(samples=6400)
    assert each == {(16, 1): 400, (16, 4): 100, (64, 1): 100, (64, 4): 25}
    together = often(samples=6400, batch_is="total")
    assert together == {(16, 1): 400, (16, 4): 400, (64, 1): 100, (64, 4): 100}
    dearer = often(samples=6400, batch_effect={"reference": 16, "noise": 48})
    assert dearer[16, 1] == 400
    assert dearer[64, 1] == 100 * (48 + 64) / (48 + 16)


def test_trials_go_on_where_others_ended(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "r.db", Space([Factor.parse("batch=16,32")]))
    study.add(Run(Point({"batch": 16}), {"seconds": 20.0}, source="measure:chosen"))
    asked = trial_of(request(), tmp_path / "r.yaml", 60.0)
    assert asked.settings.budget is not None
    assert asked.settings.budget >= 60.0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"fixed": {}, "trial": {}}, "the hole {epochs}: found no values"),
        ({"fixed": {"epochs": 1, "speed": 2}}, "factor speed: found no hole"),
        ({"free": {"batch": 16, "threads": "0,1"}}, "factor threads: found 0, expected a whole"),
        (
            {"application": {"command": "run {epochs}", "framework": "pytorch"}}
            | {"free": {"compiler": "plain,inductor"}},
            "commands, one of which has it: it needs torch.compile(model) in the application",
        ),
        (
            {"application": {"command": "run {epochs}", "framework": "mxnet"}}
            | {"free": {"compiler": "plain,xla"}},
            "factor compiler: found xla, expected one of plain, hybridised, those of mxnet",
        ),
        (
            {"application": {"command": "run {epochs}"}, "free": {}, "trial": {}},
            "found one configuration, expected a free factor, or several commands",
        ),
    ],
)
def test_what_cannot_be_tried(tmp_path: Path, changes: dict[str, object], told: str) -> None:
    with pytest.raises(InputError) as refused:
        trial_of(request(**changes), tmp_path / "r.yaml", 60.0)
    assert told in str(refused.value)


def test_levers_are_tried_without_a_hole(tmp_path: Path) -> None:
    wanted = request(
        application={"command": "run {epochs}", "framework": "tensorflow"},
        free={"threads": "1,2", "affinity": "none,close", "compiler": "plain,xla"},
    )
    asked = trial_of(wanted, tmp_path / "r.yaml", 60.0)
    assert asked.space is not None
    assert {name: factor.role for name, factor in asked.space.items()} == {
        "epochs": "steps",
        "threads": "threads",
        "affinity": None,
        "compiler": "compiler",
    }
    listed = unmeasured(wanted.model_copy(update={"wishes": Wishes(compiler="xla")}), HERE)
    assert (listed.count, listed.chosen.candidate.point["compiler"]) == (8, "xla")
    assert "variant" not in listed.chosen.candidate.point


def test_a_compiler_that_has_a_hole_is_the_applications_own(tmp_path: Path) -> None:
    application = {"command": "run --{compiler} {epochs}", "framework": "pytorch"}
    wanted = request(application=application, free={"compiler": "eager,inductor"})
    assert trial_of(wanted, tmp_path / "r.yaml", 60.0).space is not None


def seconds(batch: float, epochs: float, variant: str) -> float:
    """Compiling takes a second, and makes epochs a third quicker."""
    start, speed = (1.2, 0.67) if variant == "fast" else (0.2, 1.0)
    return start + epochs * speed * (0.05 + 2 / batch)


def test_many_steps_follow_from_a_few(tmp_path: Path) -> None:
    space = Space(
        [
            Factor.parse("batch=16,32,64"),
            Factor.parse("epochs=1,3"),
            Factor.parse("variant=eager,fast"),
        ]
    )
    study = Study.create(tmp_path / "s.db", space)
    for point in space.grid():
        for wobble in (0.98, 1.02):
            taken = wobble * seconds(**dict(point))  # type: ignore[arg-type]
            study.add(Run(point, {"seconds": taken}))
    found = plan(request(), HERE, study)
    assert found.chosen.candidate.point["variant"] == "fast"
    for one in found.considered:
        assert one.estimate is not None
        truth = seconds(**dict(one.candidate.point))  # type: ignore[arg-type]
        assert one.estimate.seconds == pytest.approx(truth, rel=0.15)
        assert one.estimate.low < one.estimate.seconds < one.estimate.high
    few = plan(request(fixed={"epochs": 3}), HERE, study)
    assert few.chosen.candidate.point["variant"] == "eager"


def test_another_infrastructure_than_the_one_asked_for_is_refused() -> None:
    assert unmeasured(request(target={"infrastructure": "here"}), HERE).count == 6
    with pytest.raises(InputError, match="found there, expected here, what is given"):
        unmeasured(request(target={"infrastructure": "there"}), HERE)


def test_what_was_not_measured_is_listed_unranked() -> None:
    found = unmeasured(request(), HERE)
    assert (found.count, found.runs, found.chosen.estimate) == (6, 0, None)
    assert "nothing was measured: no ranking; --trial SECONDS measures" in found.notes
    wished = Request.model_validate(
        {
            "application": {"command": "train", "framework": "tensorflow"},
            "wishes": {"compiler": "xla"},
        }
    )
    listed = unmeasured(wished, HERE).considered
    assert [one.candidate.point["variant"] for one in listed] == ["xla", "plain"]
    assert [one.reason for one in listed] == ["not measured, as wished", "not measured"]
