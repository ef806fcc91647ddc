"""Optuna storages, made here with Optuna itself."""

import sqlite3
import subprocess
import sys
import time
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

import optuna
import pytest
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial

from forerun.errors import InputError
from forerun.importing import read_runs

BATCH: dict[str, BaseDistribution] = {
    "batch": IntDistribution(16, 256, log=True),
    "lr": FloatDistribution(1e-4, 1, log=True),
    "act": CategoricalDistribution(["relu", "tanh", None]),
    "size": CategoricalDistribution([32, 64]),
    "bias": CategoricalDistribution([True, False]),
}
START = datetime(2024, 5, 1, 12, 0, 0)


def trial(
    batch: int, seconds: float, state: TrialState = TrialState.COMPLETE, **others: object
) -> optuna.trial.FrozenTrial:
    params = {"batch": batch, "lr": batch / 1024, "act": "relu", "size": 32, "bias": True} | others
    made = create_trial(
        state=state,
        value=seconds / 2 if state == TrialState.COMPLETE else None,
        params={name: value for name, value in params.items() if value != "-"},
        distributions={name: BATCH[name] for name, value in params.items() if value != "-"},
        user_attrs={"train_s": seconds / 4, "note": "hello"},
    )
    made.datetime_start = START
    made.datetime_complete = START + timedelta(seconds=seconds) if state.is_finished() else None
    return made


def stored(path: Path, *trials: optuna.trial.FrozenTrial, name: str = "lenet") -> Path:
    study = optuna.create_study(storage=f"sqlite:///{path}", study_name=name)
    study.add_trials(trials)
    return path


@pytest.fixture
def lenet(tmp_path: Path) -> Path:
    return stored(
        tmp_path / "lenet.db",
        trial(16, 8.0),
        trial(32, 4.5, act=None, size=64, bias=False),
        trial(64, 3.0, TrialState.PRUNED),
        trial(128, 2.0, TrialState.FAIL, act="tanh"),
        trial(256, 1.0, TrialState.RUNNING),
    )


def test_trials_are_runs(lenet: Path) -> None:
    before = sha256(lenet.read_bytes()).hexdigest()
    found = read_runs(f"sqlite:///{lenet}")
    assert found.space.names == ("batch", "lr", "act", "size", "bias")
    assert found.space.numeric == ("batch", "lr", "size")
    assert found.space["act"].values == ("None", "relu", "tanh")
    assert found.space["bias"].values == ("false", "true")
    assert [run.status for run in found.runs] == ["ok", "ok", "cancelled", "failed"]
    assert [run.seconds for run in found.runs] == [8.0, 4.5, None, None]
    assert dict(found.runs[1].point) == {
        "batch": 32, "lr": 0.03125, "act": "None", "size": 64, "bias": "false",
    }  # fmt: skip
    assert found.runs[0].source == "lenet.db trial 0"
    assert found.notes == ("left out, not ended yet: 1 trials",)
    assert sha256(lenet.read_bytes()).hexdigest() == before
    assert [one.name for one in lenet.parent.iterdir()] == ["lenet.db"]


def test_the_time_may_be_the_value_or_an_attribute(lenet: Path) -> None:
    assert [run.seconds for run in read_runs(lenet, seconds="value").runs][:2] == [4.0, 2.25]
    found = read_runs(lenet, seconds="user_attrs:train_s", measures={"whole": "duration"})
    assert dict(found.runs[0].measures) == {"seconds": 2.0, "whole": 8.0}
    with pytest.raises(InputError) as caught:
        read_runs(lenet, seconds="user_attrs:note")
    assert str(caught.value) == (
        f"{lenet} trial 0 column user_attrs:note: found 'hello', expected a positive time"
    )


def test_a_journal_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "journal.log"
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage, study_name="lenet")
    study.add_trials([trial(16, 8.0), trial(32, 4.5)])
    before = path.read_bytes()
    found = read_runs(path)
    assert [(run.point["batch"], run.seconds) for run in found.runs] == [(16, 8.0), (32, 4.5)]
    assert path.read_bytes() == before


def test_one_of_several_studies_is_named(lenet: Path) -> None:
    stored(lenet, trial(16, 1.0), trial(32, 2.0), name="other")
    with pytest.raises(InputError) as caught:
        read_runs(lenet)
    assert str(caught.value) == f"{lenet} --study: found 2 studies, expected one of lenet, other"
    assert [run.seconds for run in read_runs(lenet, study="other").runs] == [1.0, 2.0]


def test_conditional_parameters(tmp_path: Path) -> None:
    path = stored(
        tmp_path / "c.db",
        trial(16, 1.0),
        trial(32, 2.0, act="-"),
        trial(64, 3.0, lr="-"),
        trial(64, 3.0, TrialState.FAIL, lr="-"),
    )
    with pytest.raises(InputError) as caught:
        read_runs(path)
    assert str(caught.value) == (
        f"{path} trial 2 parameter lr: found no value (it is conditional),"
        " expected a number; choose the others with --factors"
    )
    found = read_runs(path, factors="batch,act")
    assert [run.point["act"] for run in found.runs] == ["relu", "(absent)", "relu", "relu"]


def test_a_trial_that_failed_before_its_parameters_is_left_out(tmp_path: Path) -> None:
    path = stored(
        tmp_path / "f.db", trial(16, 1.0), trial(32, 2.0), trial(16, 1.0, TrialState.FAIL, lr="-")
    )
    found = read_runs(path)
    assert len(found.runs) == 2
    assert "left out, ended before all parameters were known: 1 trials" in found.notes


def test_parameters_may_have_the_names_of_results(tmp_path: Path) -> None:
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/n.db")
    for number in (1, 2):
        made = create_trial(
            params={"duration": number, "value": 10 * number, "status": number},
            distributions={
                name: IntDistribution(1, 99) for name in ("duration", "value", "status")
            },
            value=7.0,
        )
        made.datetime_start, made.datetime_complete = START, START + timedelta(seconds=30 + number)
        study.add_trial(made)
    found = read_runs(tmp_path / "n.db")
    assert found.space.names == ("duration", "value")
    assert [run.seconds for run in found.runs] == [31.0, 32.0]
    assert [run.seconds for run in read_runs(tmp_path / "n.db", seconds="trial:value").runs] == [
        7,
        7,
    ]


def test_a_storage_that_has_grown_adds_only_its_new_trials(lenet: Path) -> None:
    before = {run.uid for run in read_runs(lenet).runs}
    study = optuna.load_study(study_name="lenet", storage=f"sqlite:///{lenet}")
    study.add_trial(trial(99, 9.0))
    after = {run.uid for run in read_runs(lenet).runs}
    assert before < after
    assert len(after) == len(before) + 1


def test_four_hundred_trials_take_no_time(tmp_path: Path) -> None:
    path = tmp_path / "many.log"
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    optuna.create_study(storage=storage).add_trials(trial(16 + n % 7, 1.0 + n) for n in range(400))
    start = time.process_time()  # of the processor: others may have it meanwhile
    assert len(read_runs(path).runs) == 400
    assert time.process_time() - start < 5


def test_a_foreign_or_broken_file_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "foreign.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (name TEXT)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InputError) as caught:
        read_runs(path)
    assert str(caught.value) == f"{path}: found tables songs, expected an Optuna storage"
    assert path.read_bytes() == before
    broken = tmp_path / "broken.log"
    broken.write_text('{"op_code": 0}\nnot json\n{"op_code": 0}\n')
    with pytest.raises(InputError, match="expected a storage that this Optuna can read"):
        read_runs(broken)
    with pytest.raises(InputError, match="found postgresql://…, expected a file"):
        read_runs("postgresql://user:secret@host/db")


def test_without_optuna_there_is_an_install_hint(lenet: Path) -> None:
    code = (
        "import sys; sys.modules['optuna'] = None\n"
        "from forerun.importing import read_runs\n"
        f"try: read_runs({str(lenet)!r})\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        f"{lenet}: an Optuna storage needs the optuna package: pip install 'forerun[optuna]'\n"
    )


def test_nothing_is_unpickled(lenet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pickle was used")

    monkeypatch.setattr("pickle.loads", refuse)
    monkeypatch.setattr("pickle.load", refuse)
    assert len(read_runs(lenet).runs) == 4


DEEP = "[" * 20_000 + "]" * 20_000


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (("UPDATE trials SET datetime_start = 'yesterday'",), "yesterday"),
        (("UPDATE trials SET state = 'LOST'",), "LOST"),
        (("UPDATE trial_params SET distribution_json = '[]'",), ""),
        (("UPDATE trial_params SET distribution_json = '{}'",), ""),
        (("UPDATE trial_params SET param_value = 'big'",), ""),
        ((f"UPDATE trial_user_attributes SET value_json = '{DEEP}'",), "Recursion"),
        (("UPDATE trial_user_attributes SET value_json = '{'",), "JSON"),
        (("DROP TABLE trial_params",), "tables alembic_version"),
        (("DROP TABLE trials",), "tables alembic_version"),
        (("CREATE VIEW more AS SELECT 1",), "view more, expected the plain tables"),
        (
            (
                "ALTER TABLE trial_params RENAME TO hidden",
                "CREATE VIEW trial_params AS WITH RECURSIVE n(x) AS"
                " (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
            ),
            "view trial_params, expected the plain tables",
        ),
        (
            ("CREATE TRIGGER t AFTER INSERT ON trials BEGIN SELECT 1; END",),
            "trigger t, expected the plain tables",
        ),
    ],
)
def test_a_storage_that_was_tampered_with_is_refused(
    lenet: Path, statements: tuple[str, ...], found: str
) -> None:
    connection = sqlite3.connect(lenet)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(InputError) as caught:
        read_runs(lenet)
    assert str(caught.value).startswith(str(lenet))
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", ['{"op_code": 4}', '{"op_code": "x"}', "[]", '{"op_code": 0}'])
def test_a_journal_that_was_tampered_with_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "journal.log"
    path.write_text(f"{line}\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_runs(path, "optuna")
    assert str(caught.value).startswith(f"{path}: found ")
