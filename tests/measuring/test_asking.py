from pathlib import Path

import pytest

from forerun.errors import InputError
from forerun.factors import Factor, Space
from forerun.measuring.asking import Asked, campaign_of, rehearsed
from forerun.measuring.settings import Settings
from forerun.measuring.trust import made_here
from forerun.study import Study

SPACE = Space([Factor("pause", values=(0.01, 0.02)), Factor("turn", values=(1, 2))])
COMMAND = {"": "sh -c 'sleep $1' sh {pause} {turn}"}
GRID = Settings(design="grid", warmup=0)


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path / "runs.db", SPACE, COMMAND, GRID)


def test_a_study_goes_on_as_it_was_asked_for_before(asked: Asked) -> None:
    settings = Settings(design="grid", warmup=0, where=("turn == 1",), seed=3, timeout=30.0)
    first = campaign_of(Asked(asked.study, SPACE, COMMAND, settings))
    assert first.run().made == 2
    again = campaign_of(Asked(asked.study))
    assert again.run().made == 0  # the constraint and the design are those of before
    program = again.programs[""]
    assert (program.timeout, program.directory) == (30, Path.cwd())
    more = campaign_of(Asked(asked.study, settings=Settings(repeats=2, timeout=60.0)))
    assert more.programs[""].timeout == 60
    assert more.run().made == 2
    after = campaign_of(Asked(asked.study))  # what was said to go on held for that time alone
    assert (after.programs[""].timeout, after.design.total) == (30, 2)


def test_a_command_that_is_given_again_says_everything(asked: Asked) -> None:
    first = Settings(
        design="grid",
        where=("turn == 1",),
        retry_failed=True,
        warmup=0,
        timeout=30.0,
        cleanup="true",
    )
    campaign_of(Asked(asked.study, SPACE, COMMAND, first)).run()
    again = campaign_of(Asked(asked.study, SPACE, COMMAND, Settings(design="grid")))
    assert (again.design.total, again.retry_failed, again.warmup) == (4, False, 1)
    assert (again.programs[""].timeout, again.programs[""].cleanup) == (None, None)
    after = campaign_of(Asked(asked.study))  # and that is what is gone on with
    assert (after.design.total, after.programs[""].timeout) == (4, None)
    usual = campaign_of(Asked(asked.study, SPACE, COMMAND))
    assert (usual.limits.target_error, usual.limits.runs) == (0.1, 60)


def test_a_widened_study_goes_on_with_the_values_that_were_last_asked_for(asked: Asked) -> None:
    def network(pause: float, macs: int) -> Space:
        return Space(
            [
                Factor("turn", values=(2, 1)),
                Factor("pause", values=(pause,)),
                Factor("macs", "numeric", "intrinsic", values=(macs,)),
            ]
        )

    campaign_of(Asked(asked.study, network(0.02, 2000), COMMAND, GRID)).run()
    campaign_of(Asked(asked.study, network(0.01, 1000), COMMAND, GRID))
    on = campaign_of(Asked(asked.study))
    assert on.space == network(0.01, 1000)  # in the order in which they were given
    assert on.run().made == 2
    more = campaign_of(Asked(asked.study, Space([Factor("turn", values=(1, 2, 3))])))
    assert [point["macs"] for point in more.space.grid()] == [1000] * 3
    assert more.run().made == 1
    assert campaign_of(Asked(asked.study)).space == network(0.01, 1000)
    assert campaign_of(Asked(asked.study, None, COMMAND)).space == network(0.01, 1000)


def test_of_several_commands_those_last_asked_for_go_on(asked: Asked) -> None:
    for name in ("one", "two"):
        campaign_of(Asked(asked.study, SPACE, {name: COMMAND[""]}, GRID))
    on = campaign_of(Asked(asked.study))
    assert list(on.programs) == ["two"]
    assert on.space["variant"].values == ("two",)


@pytest.mark.parametrize("kept", [{"pause": [9]}, {"pause": []}, {"pause": 0.01}, {"x": [1]}])
def test_kept_values_that_the_study_does_not_have_are_refused(
    asked: Asked, kept: dict[str, object]
) -> None:
    campaign_of(asked)
    Study.open(asked.study).set_note("values", kept)
    with pytest.raises(InputError, match="kept values: factor"):
        campaign_of(Asked(asked.study, trust=True))


def test_going_on_with_other_values_needs_no_more_than_those(asked: Asked) -> None:
    inner = Space([Factor("pause", "numeric", "intrinsic", "s", values=(0.01,)), SPACE["turn"]])
    campaign_of(Asked(asked.study, inner, COMMAND, GRID)).run()
    more = Space([Factor("pause", values=(0.02,))])
    assert campaign_of(Asked(asked.study, more)).run().made == 2
    space = Study.open(asked.study).space
    assert (space["pause"].unit, space["pause"].values) == ("s", (0.01, 0.02))
    with pytest.raises(InputError, match="one of pause, turn"):
        campaign_of(Asked(asked.study, Space([Factor("pauze", values=(1,))])))


def test_several_commands_are_levels_of_the_variant(asked: Asked) -> None:
    commands = {"one": "sleep {pause}{turn}", "two": "sleep 0{pause}{turn}"}
    campaign = campaign_of(Asked(asked.study, SPACE, commands, GRID))
    assert campaign.space["variant"].values == ("one", "two")
    assert campaign.design.total == 8


@pytest.mark.parametrize(
    ("commands", "settings", "said"),
    [
        ({"": "sleep {pause}"}, GRID, "factor turn: found no hole"),
        ({"": "sleep {pause} {turn} {batch}"}, GRID, "the hole {batch}"),
        ({"": "no-such-program {pause} {turn}"}, GRID, "no-such-program"),
        (COMMAND, Settings(where=("pauze > 1",)), "one of pause, turn"),
        (COMMAND, Settings(design="grid", where=("pause > 1",)), "where: found pause > 1"),
        (COMMAND, Settings(where=("pause > 1",)), "where: found pause > 1"),
        (COMMAND, Settings(prepare="no-such-program"), "no-such-program"),
        (COMMAND, Settings(directory=Path("nowhere")), "nowhere"),
        (COMMAND, Settings(marker="("), "marker"),
    ],
)
def test_what_cannot_be_measured_leaves_no_study(
    asked: Asked, commands: dict[str, str], settings: Settings, said: str
) -> None:
    with pytest.raises(InputError) as raised:
        campaign_of(Asked(asked.study, SPACE, commands, settings))
    assert said in str(raised.value)
    assert list(asked.study.parent.glob("runs*")) == []


def test_a_rehearsal_changes_nothing(asked: Asked) -> None:
    with rehearsed(asked) as (campaign, _):
        assert campaign.design.total == 4
    assert not asked.study.exists()
    campaign_of(asked).run()
    before = asked.study.read_bytes()
    wider = Space([Factor("pause", values=(0.01, 0.03)), Factor("turn", values=(1, 2))])
    with rehearsed(Asked(asked.study, wider, None, GRID)) as (campaign, rehearsal):
        assert len(campaign.study.runs()) == 4
        assert campaign.run().made == 0
        assert [task.point["pause"] for task in rehearsal.tasks] == [0.03, 0.03]
    assert asked.study.read_bytes() == before
    another = Asked(asked.study, None, {"": "sleep {pause}{turn}"})
    with pytest.raises(InputError) as raised, rehearsed(another):
        pass
    assert str(raised.value).startswith(str(asked.study))


def test_to_go_on_with_a_constraint_that_allows_nothing_is_refused(asked: Asked) -> None:
    campaign_of(asked)
    with pytest.raises(InputError, match="where: found turn > 9, expected a point that it allows"):
        campaign_of(Asked(asked.study, settings=Settings(where=("turn > 9",))))


def test_commands_of_others_need_trust(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_of(asked)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "somebody-else"))
    with pytest.raises(InputError, match="sleep"):
        campaign_of(Asked(asked.study, settings=GRID))
    assert campaign_of(Asked(asked.study, settings=GRID, trust=True)).run().made == 4
    assert campaign_of(Asked(asked.study)).run().made == 0


def test_values_of_others_need_trust_in_a_command_of_ones_own(asked: Asked) -> None:
    texts = Space([Factor("s", "categorical", values=("ok", "--evil=1"))])
    Study.create(asked.study, texts)
    with pytest.raises(InputError, match="found values that somebody else may have made"):
        campaign_of(Asked(asked.study, None, {"": "echo {s}"}))
    assert campaign_of(Asked(asked.study, texts, {"": "echo {s}"})).space == texts
    assert campaign_of(Asked(asked.study, None, {"": "echo {s}"}, trust=True)).space == texts


def test_a_study_is_ones_own_with_all_that_it_keeps(asked: Asked) -> None:
    campaign_of(asked)
    study = Study.open(asked.study)
    assert made_here(study)
    campaign_of(Asked(asked.study, Space([Factor("pause", values=(0.03,))]), None, GRID))
    assert made_here(study)
    kept = {name: study.note(name) or {} for name in ("values", "measure")}
    for name, change in (("values", {"turn": [2]}), ("measure", {"slots": 4})):
        study.set_note(name, kept[name] | change)
        with pytest.raises(InputError, match="expected your trust"):
            campaign_of(Asked(asked.study))
        study.set_note(name, kept[name])
    assert campaign_of(Asked(asked.study)).runner.slots == 1


def test_a_study_that_was_only_imported_has_nothing_to_run(tmp_path: Path) -> None:
    Study.create(tmp_path / "runs.db", SPACE)
    with pytest.raises(InputError, match="a study without a command"):
        campaign_of(Asked(tmp_path / "runs.db"))


def test_kept_settings_that_were_tampered_with_are_refused(asked: Asked) -> None:
    campaign_of(asked)
    Study.open(asked.study).set_note("measure", {"slots": "all"})
    with pytest.raises(InputError, match="kept settings: slots"):
        campaign_of(Asked(asked.study))


@pytest.mark.parametrize(
    "kept",
    [
        {"prepare": "touch x"},
        {"cleanup": "touch x"},
        {"env": {"LD_PRELOAD": "x.so"}},
        {"shell": True},
        {"directory": "/tmp"},
        {"marker": "x"},
        {"timeout": 1},
    ],
)
def test_kept_settings_bring_nothing_into_a_command(asked: Asked, kept: dict[str, object]) -> None:
    campaign_of(asked)
    Study.open(asked.study).set_note("measure", kept)
    with pytest.raises(InputError, match=r"kept settings: found .*, expected no part of a command"):
        campaign_of(Asked(asked.study, trust=True))
