import shutil
from pathlib import Path
from typing import Any

import pytest

from forerun.errors import FactorError, ForerunWarning, InputError, StudyError
from forerun.factors import Factor, Point, Space
from forerun.jobs.command import MEASURES
from forerun.measuring.lock import locked
from forerun.measuring.opening import open_study
from forerun.measuring.program import NOTE, Program, programs_in
from forerun.measuring.trust import made_here
from forerun.study import Run, Study

SPACE = Space([Factor("n", values=(1, 2)), Factor("net", "categorical", values=("a", "b"))])
ECHO = {"": Program.parse("echo {n} {net}")}


def test_a_new_study_has_the_factors_and_the_commands(tmp_path: Path) -> None:
    opened = open_study(tmp_path / "a.db", SPACE, ECHO)
    assert opened.study.space == opened.space == SPACE
    assert opened.study.commands == {"": "echo {n} {net}"}
    assert opened.programs == ECHO
    assert made_here(opened.study)


def test_what_is_not_given_is_the_studys_own(tmp_path: Path) -> None:
    program = Program.parse(
        "echo {n}",
        shell=True,
        prepare="true {net}",
        cleanup="false",
        marker="epoch",
        directory=tmp_path,
        environment={"A": "{n}"},
        timeout=3.0,
    )
    open_study(tmp_path / "a.db", SPACE, {"": program})
    again = open_study(tmp_path / "a.db")
    assert again.space == SPACE
    assert again.programs == {"": program}
    command = again.programs[""].command(Point({"n": 1, "net": "a b"}))
    assert command.prepare == ("/bin/sh", "-c", "true 'a b'")
    assert command.environment == {"A": "1"}


def test_new_values_widen_the_study(tmp_path: Path) -> None:
    open_study(tmp_path / "a.db", SPACE, ECHO)
    asked = Space([Factor("net", "categorical", values=("c", "a")), Factor("n", values=(4, 1.5))])
    opened = open_study(tmp_path / "a.db", asked, ECHO)
    assert opened.space == asked
    assert opened.study.space["n"].values == (1, 1.5, 2, 4)
    assert opened.study.space["net"].values == ("a", "b", "c")
    assert made_here(opened.study)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ([SPACE["n"]], r"factors: found no net, expected the factors of \S+a.db \(n, net\)"),
        ([*SPACE.values(), Factor("x", values=(1,))], r"factor: found x, expected the factors of"),
        ([SPACE["n"], Factor("net", values=(1,))], "factor net: found numeric, expected categoric"),
        (
            [Factor("n", scope="intrinsic", values=(1,)), SPACE["net"]],
            "factor n: found intrinsic, expected extrinsic, as in",
        ),
        ([Factor("n", unit="s", values=(1,)), SPACE["net"]], "n, unit: found s, expected no unit"),
    ],
)
def test_other_factors_are_refused(tmp_path: Path, factors: list[Factor], message: str) -> None:
    open_study(tmp_path / "a.db", SPACE, ECHO)
    with pytest.raises(FactorError, match=message):
        open_study(tmp_path / "a.db", Space(factors), {})
    assert Study.open(tmp_path / "a.db").space == SPACE


def test_several_commands_are_the_factor_variant(tmp_path: Path) -> None:
    two = {"one": Program.parse("echo {n} {net}"), "two": Program.parse("printf {n} {net}")}
    opened = open_study(tmp_path / "a.db", SPACE, two)
    assert opened.space["variant"].values == ("one", "two")
    only = open_study(tmp_path / "a.db", SPACE, {"two": two["two"]})
    assert only.space["variant"].values == ("two",)
    assert only.study.space["variant"].values == ("one", "two")
    assert open_study(tmp_path / "a.db").programs == two


def test_a_command_keeps_its_text_once_it_went_well(tmp_path: Path) -> None:
    study = open_study(tmp_path / "a.db", SPACE, {"": Program.parse("ech {n} {net}", shell=True)})
    point = Point({"n": 1, "net": "a"})
    study.study.add(Run(point, status="failed"))
    opened = open_study(tmp_path / "a.db", SPACE, {"": Program.parse("echo {n} {net}", shell=True)})
    assert opened.study.commands == {"": "echo {n} {net}"}
    opened.study.add(Run(point, {"seconds": 1.0}))
    with pytest.raises(StudyError, match=r"command: found printf .*, expected as before: echo"):
        open_study(tmp_path / "a.db", SPACE, {"": Program.parse("printf {n} {net}", shell=True)})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"marker": "loss"}, "command, marker: found loss, expected as before: none"),
        ({"shell": True}, "command, shell: found True, expected as before: False"),
        ({"prepare": "sync"}, "command, prepare: found sync, expected as before: none"),
        (
            {"environment": {"OMP_NUM_THREADS": "4"}},
            "command, environment: found OMP_NUM_THREADS=4, expected as before: none",
        ),
    ],
)
def test_what_changes_the_meaning_of_times_must_stay(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    other = {"": Program.parse("echo {n} {net}", **changed)}
    study = open_study(tmp_path / "a.db", SPACE, other).study
    study.add(Run(Point({"n": 1, "net": "a"}), status="failed"))
    open_study(tmp_path / "a.db", SPACE, ECHO)  # no time has a meaning yet
    study.add(Run(Point({"n": 1, "net": "a"}), {"seconds": 1.0}))
    open_study(tmp_path / "a.db", SPACE, {"": Program.parse("echo {n} {net}", timeout=9.0)})
    with pytest.raises(StudyError, match=message):
        open_study(tmp_path / "a.db", SPACE, other)
    with pytest.raises(StudyError, match=message):
        open_study(tmp_path / "a.db", SPACE, other, once=True)


def test_what_is_refused_adds_nothing(tmp_path: Path) -> None:
    study = open_study(tmp_path / "a.db", SPACE, {"a": ECHO[""]}).study
    study.add(Run(Point({"n": 1, "net": "a"}), {"seconds": 1.0}, variant="a"))
    both = {"b": ECHO[""], "a": Program.parse("echo {n} {net}", marker="loss")}
    with pytest.raises(StudyError, match="command a, marker"):
        open_study(tmp_path / "a.db", SPACE, both)
    assert list(study.commands) == ["a"]


def test_what_may_change_can_hold_for_once(tmp_path: Path) -> None:
    def timeout(seconds: float) -> dict[str, Program]:
        return {"": Program.parse("echo {n} {net}", timeout=seconds)}

    open_study(tmp_path / "a.db", SPACE, timeout(1.0))
    opened = open_study(tmp_path / "a.db", SPACE, timeout(2.0), once=True)
    assert opened.programs[""].timeout == 2
    assert open_study(tmp_path / "a.db").programs[""].timeout == 1
    open_study(tmp_path / "a.db", SPACE, timeout(3.0))
    assert open_study(tmp_path / "a.db").programs[""].timeout == 3


def test_another_directory_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def there(directory: str) -> dict[str, Program]:
        return {"": Program.parse("echo {n} {net}", directory=tmp_path / directory)}

    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    open_study(tmp_path / "a.db", SPACE, there("one"))
    study = open_study(tmp_path / "a.db", SPACE, there("two")).study  # nothing has run yet
    study.add(Run(Point({"n": 1, "net": "a"}), {"seconds": 1.0}))
    open_study(tmp_path / "a.db", SPACE, there("one/../two"))
    with pytest.warns(ForerunWarning) as told:
        open_study(tmp_path / "a.db", SPACE, there("one"), once=True)
    (line,) = (str(one.message) for one in told)
    assert line.startswith(
        f"command: runs in {tmp_path}/one, its earlier runs in {tmp_path}/one/../two: "
    )
    monkeypatch.chdir(tmp_path / "one")
    with pytest.warns(ForerunWarning, match="command: runs in"):
        open_study(tmp_path / "a.db", SPACE, ECHO)


def test_the_commands_of_somebody_else_need_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_study(tmp_path / "a.db", SPACE, ECHO)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(StudyError) as caught:
        open_study(tmp_path / "a.db")
    assert str(caught.value) == (
        f"{tmp_path}/a.db: found commands that somebody else may have made (echo {{n}} {{net}}), "
        "expected your trust"
    )
    assert open_study(tmp_path / "a.db", trust=True).programs == ECHO
    assert open_study(tmp_path / "a.db").programs == ECHO  # asked once


def test_typing_a_command_does_not_vouch_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_study(tmp_path / "a.db", SPACE, {"evil": Program.parse("true {n} {net}")})
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    opened = open_study(tmp_path / "a.db", SPACE, {"mine": Program.parse("echo {n} {net}")})
    assert opened.programs.keys() == {"mine"}
    with pytest.raises(StudyError, match="expected your trust"):
        open_study(tmp_path / "a.db")


def test_a_study_that_is_being_measured_is_not_changed(tmp_path: Path) -> None:
    path = open_study(tmp_path / "a.db", SPACE, ECHO).study.path
    with locked(path), pytest.raises(InputError, match="found a campaign under way"):
        open_study(path, SPACE, ECHO)


def test_a_damaged_description_is_one_line(tmp_path: Path) -> None:
    study = open_study(tmp_path / "a.db", SPACE, ECHO).study
    for damage in ({"": 3}, {"": {"shell": False, "nonsense": 1}}, {"": {"timeout": "x"}}):
        study.set_note(NOTE, damage)
        with pytest.raises(StudyError, match=r"a\.db, command: found a damaged description"):
            programs_in(study)


def test_what_cannot_be_run_leaves_no_study(tmp_path: Path) -> None:
    for text, message in (
        ("echo {n}", "factor net: found no hole"),
        ("echo {n} {net} {x}", "found the hole {x}"),
        ("no-such-program {n} {net}", "expected a program on the PATH"),
    ):
        with pytest.raises(InputError, match=message):
            open_study(tmp_path / "a.db", SPACE, {"": Program.parse(text)})
    with pytest.raises(StudyError, match="no such file, expected a study, or factors for a new"):
        open_study(tmp_path / "a.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", MEASURES)
def test_a_factor_cannot_have_the_name_of_a_measure(tmp_path: Path, name: str) -> None:
    space = Space([Factor(name, values=(1, 2))])
    program = {"": Program.parse(f"echo {{{name}}}")}
    with pytest.raises(FactorError, match=f"factor name: found {name}, expected another name"):
        open_study(tmp_path / "a.db", space, program)
    assert list(tmp_path.iterdir()) == []
    Study.create(tmp_path / "a.db", space)  # imported: from a table there may be such a factor
    with pytest.raises(FactorError, match=f"factor name: found {name}, expected another name"):
        open_study(tmp_path / "a.db", None, program)


def test_a_factor_variant_is_only_that_of_the_commands(tmp_path: Path) -> None:
    space = Space([Factor("variant", "categorical", values=("a", "b"))])
    with pytest.raises(FactorError, match="found variant, with the level a, expected another name"):
        open_study(tmp_path / "a.db", space, {"": Program.parse("echo {variant}")})
    assert list(tmp_path.iterdir()) == []
    both = {"a": Program.parse("echo a"), "b": Program.parse("echo b")}
    assert open_study(tmp_path / "a.db", space, both).space == space
    assert open_study(tmp_path / "a.db", space, {"b": both["b"]}).space["variant"].values == ("b",)


def test_a_copy_of_ones_own_study_is_ones_own(tmp_path: Path) -> None:
    open_study(tmp_path / "a.db", SPACE, ECHO)
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    assert open_study(tmp_path / "b.db").programs == ECHO


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"timeout": 0.0}, "timeout: found 0.0, expected a positive number of seconds"),
        ({"environment": {"A=B": "x"}}, "environment: found A=B, expected the name of a variable"),
        ({"environment": {"A": "{x"}}, "expected {name} with the name of a factor"),
        ({"prepare": "'"}, "expected closed quotes"),
        ({"marker": "("}, "marker: found"),
        ({"directory": Path("a\0b")}, "directory: found"),
        ({"directory": Path("\udcff")}, "directory: found"),
    ],
)
def test_settings_that_are_none_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Program.parse("echo", **settings)


LEVERS = Space([Factor.parse("threads=1,2"), Factor.parse("affinity=none,close")])


def test_a_study_keeps_its_levers(tmp_path: Path) -> None:
    opened = open_study(tmp_path / "a.db", LEVERS, {"": Program.parse("env")})
    assert opened.programs[""].levers == ("threads", "affinity")
    assert opened.study.note(NOTE)[""]["levers"] == ["threads", "affinity"]  # type: ignore[index]
    point = Point({"threads": 2, "affinity": "close"})
    opened.study.add(Run(point, {"seconds": 1.0}))
    for again in (
        open_study(tmp_path / "a.db"),
        open_study(tmp_path / "a.db", None, {"": Program.parse("env")}),
    ):
        assert again.programs == opened.programs
        set_there = again.programs[""].command(point).environment
        assert (set_there["OMP_NUM_THREADS"], set_there["OMP_PROC_BIND"]) == ("2", "close")


def test_a_lever_stays_one_once_there_are_times(tmp_path: Path) -> None:
    study = open_study(tmp_path / "a.db", LEVERS, {"": Program.parse("env")}).study
    study.add(Run(Point({"threads": 2, "affinity": "none"}), {"seconds": 1.0}))
    with pytest.raises(StudyError, match="levers: found affinity, expected as before: threads, af"):
        open_study(tmp_path / "a.db", LEVERS, {"": Program.parse("env", cleanup="true {threads}")})


def test_a_study_without_levers_says_nothing_of_them(tmp_path: Path) -> None:
    study = open_study(tmp_path / "a.db", SPACE, ECHO).study
    assert "levers" not in (study.note(NOTE) or {})[""]
    described = Space([*SPACE.values(), Factor.parse("threads=4", intrinsic=True)])
    opened = open_study(tmp_path / "b.db", described, ECHO)
    point = Point({"n": 1, "net": "a", "threads": 4})
    assert opened.programs[""].command(point).environment == {}


def test_the_environment_that_was_given_goes_over_levers(tmp_path: Path) -> None:
    program = Program.parse("env", environment={"OMP_NUM_THREADS": "8"})
    told = "the environment that you gave has OMP_NUM_THREADS, which stays as it is whatever thr"
    with pytest.warns(ForerunWarning, match=told):
        opened = open_study(tmp_path / "a.db", LEVERS, {"": program})
    found = opened.programs[""].command(Point({"threads": 2, "affinity": "none"})).environment
    assert (found["OMP_NUM_THREADS"], found["MKL_NUM_THREADS"]) == ("8", "2")


def test_levers_that_nobody_knows_are_damage(tmp_path: Path) -> None:
    study = open_study(tmp_path / "a.db", LEVERS, {"": Program.parse("env")}).study
    study.set_note(NOTE, {"": {"levers": ["PATH"]}})
    with pytest.raises(StudyError, match="levers: found PATH"):
        programs_in(study)
