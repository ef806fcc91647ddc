"""A place that is not this machine, as a campaign sees it: here one with room for small numbers."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forerun.errors import ForerunWarning, InputError
from forerun.factors import Factor, Point, Role, Space
from forerun.measuring.asking import Asked, campaign_of
from forerun.measuring.design import Chosen
from forerun.measuring.opening import Opened
from forerun.measuring.program import Program
from forerun.measuring.runner import Again, FunctionRunner, Runner, Task
from forerun.measuring.settings import Settings

SPACE = Space([Factor.parse("n=1,2,3"), Factor.parse("nodes=1,2")])
COMMAND = {"": "no-such-program {n}"}


@dataclass
class Small:
    """Somewhere that each run takes as long as its number says."""

    name: str = "small"
    sees_to: frozenset[Role] = frozenset({"nodes"})
    most: int = 2
    slots: list[int | None] = field(default_factory=list)

    def check(self, space: Space, programs: Mapping[str, Program]) -> None:
        assert list(space) == ["n", "nodes"]
        assert list(programs) == [""]

    def why_not(self, space: Space, programs: Mapping[str, Program], point: Point) -> str:
        self.check(space, programs)
        return f"{point['n']} is too much" if float(point["n"]) > self.most else ""

    def runner(self, opened: Opened, slots: int | None) -> Runner:
        self.check(opened.space, opened.programs)
        self.slots.append(slots)
        return FunctionRunner(lambda n, nodes: n + nodes, returns_seconds=True)


def asked(folder: Path, place: Small, **settings: object) -> Asked:
    given = Settings.model_validate({"design": "grid", "warmup": 0, **settings})
    return Asked(folder / "a.db", SPACE, COMMAND, given, place=place)


def test_runs_are_made_there(tmp_path: Path) -> None:
    place = Small()
    with pytest.warns(ForerunWarning, match="small: of 6 points 2 are left out: 3 is too much"):
        campaign = campaign_of(asked(tmp_path, place, slots=3))
    assert campaign.run().made == 4  # of a program that this machine does not have
    assert place.slots == [3]
    found = {(run.point["n"], run.point["nodes"]): run.seconds for run in campaign.study.runs()}
    assert found == {(1, 1): 2, (1, 2): 3, (2, 1): 3, (2, 2): 4}


def test_no_point_that_fits(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"small: found \d is too much, expected a point that"):
        campaign_of(asked(tmp_path, Small(most=0)))
    assert not (tmp_path / "a.db").exists()


def test_a_place_goes_with_the_constraints(tmp_path: Path) -> None:
    with pytest.warns(ForerunWarning, match="small: of 3 points 1 is left out"):
        campaign = campaign_of(asked(tmp_path, Small(), where=("nodes == 1",)))
    assert campaign.run().made == 2


def test_what_outlived_an_earlier_start_is_gone_on_with(tmp_path: Path) -> None:
    campaign = campaign_of(asked(tmp_path, Small(most=9)))

    class Kept(FunctionRunner):
        elsewhere = True

        def adopt(self, stored: Set[str], again: Again) -> list[Task]:
            assert stored == set()
            unwanted = again("e" * 32, Chosen(Point({"n": 7, "nodes": 1}), "chosen"))
            assert unwanted is None
            task = again("f" * 32, Chosen(Point({"n": 2, "nodes": 1}), "chosen"))
            assert task is not None
            self.start(task)
            return [task]

    campaign.runner = Kept(lambda n, nodes: n + nodes, returns_seconds=True)
    summary = campaign.run()
    assert summary.made == 6  # it is one of them
    assert summary.warnings == ("1 job of an earlier start is under way or over: gone on with",)
    (run,) = [run for run in campaign.study.runs() if run.uid == "f" * 32]
    assert run.point == {"n": 2, "nodes": 1}
    assert run.seconds == 3
