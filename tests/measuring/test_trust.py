import shutil
import stat
from pathlib import Path

import pytest

from forerun.errors import InputError
from forerun.factors import Factor, Point, Space
from forerun.measuring.program import NOTE, Program, keep_programs
from forerun.measuring.trust import made_here, seal
from forerun.study import Run, Study

SPACE = Space([Factor("n", values=(1, 2)), Factor("net", "categorical", values=("a.py", "b.py"))])


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = Study.create(tmp_path / "a.db", SPACE)
    keep_programs(made, {"": Program.parse("python {net} {n}")})
    return made


def test_a_study_is_ours_once_it_is_sealed(study: Study, state: Path) -> None:
    assert not made_here(study)
    seal(study)
    assert made_here(study)
    assert stat.S_IMODE((state / "forerun").stat().st_mode) == 0o700
    assert stat.S_IMODE((state / "forerun" / "key").stat().st_mode) == 0o600
    assert len((state / "forerun" / "key").read_bytes()) == 32


def test_moving_it_or_adding_runs_changes_nothing(study: Study, tmp_path: Path) -> None:
    study.set_note("values", {"n": [1, 2], "net": ["a.py"]})
    seal(study)
    study.add(Run(Point({"n": 1, "net": "a.py"}), {"seconds": 1.0}))
    study.set_space(Space([Factor("n", values=(1, 2, 3)), SPACE["net"]]))
    assert made_here(Study.open(shutil.move(study.path, tmp_path / "b.db")))


def test_another_users_study_is_not_ours(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal(study)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert not made_here(study)
    seal(Study.create(tmp_path / "own.db", SPACE))  # with a key there is, still not
    assert not made_here(study)


def test_whatever_would_run_otherwise_breaks_the_seal(study: Study) -> None:
    seal(study)
    study.add_command("", "sh evil.sh {net} {n}")
    assert not made_here(study)
    study.add_command("", "python {net} {n}")
    assert made_here(study)
    kept = study.note(NOTE) or {}
    for changed in ({"environment": {"LD_PRELOAD": "evil.so"}}, {"prepare": "sh evil.sh"}):
        study.set_note(NOTE, {"": {**kept[""], **changed}})
        assert not made_here(study)
    study.set_note(NOTE, kept)
    study.set_space(Space([SPACE["n"], Factor("net", "categorical", values=("evil.py",))]))
    assert not made_here(study)
    study.set_space(Space([Factor("n", values=(1, 31337)), SPACE["net"]]))
    assert not made_here(study)
    study.set_space(SPACE)
    assert made_here(study)
    for name, document in (("values", {"n": [2]}), ("measure", {"slots": 1024})):
        study.set_note(name, document)
        assert not made_here(study)
        seal(study)
        assert made_here(study)


def test_a_seal_that_is_no_seal_is_none(study: Study) -> None:
    seal(study)
    study.set_note("seal", {"hmac-sha256": ["x"]})
    assert not made_here(study)
    study.set_note("seal", {"hmac-sha256": "é"})
    assert not made_here(study)
    study.set_note("seal", {})
    assert not made_here(study)


def test_a_key_that_others_may_read_is_refused(study: Study, state: Path) -> None:
    seal(study)
    (state / "forerun" / "key").chmod(0o644)
    with pytest.raises(InputError, match="expected one of this user's, mode 0600"):
        made_here(study)
    (state / "forerun" / "key").chmod(0o600)
    (state / "forerun" / "key").write_bytes(b"short")
    with pytest.raises(InputError, match="found 5 bytes, expected 32; remove it for a new one"):
        seal(study)


def test_without_a_place_for_a_key_nothing_is_sealed(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    seal(study)
    assert study.note("seal") is None
    assert not made_here(study)
