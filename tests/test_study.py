import math
import multiprocessing
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.errors import FactorError, InputError, StudyError
from forerun.factors import Factor, Point, Space
from forerun.study import Run, Study

BATCH = Space([Factor("batch")])
RELU = Point({"kernel": 3, "activation": "relu", "batch": 16})


def at(batch: float, seconds: float = 1.0, uid: str = "") -> Run:
    """A good run of the space BATCH."""
    run = Run(Point({"batch": batch}), {"seconds": seconds})
    return Run(run.point, run.measures, uid=uid or run.uid)


# Runs


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0, 0.0, -1.5, 10**400])
@pytest.mark.parametrize("name", ["seconds", "memory_bytes", "joules", "anything"])
@pytest.mark.parametrize("status", ["ok", "failed"])
def test_a_measure_is_finite_and_above_zero(name: str, value: float, status: Any) -> None:
    with pytest.raises(InputError) as caught:
        Run(Point({"batch": 1}), {name: value}, status)
    shown = math.inf if value == 10**400 else float(value)
    assert str(caught.value) == f"measure {name}: found {shown}, expected a finite number above 0"


@pytest.mark.parametrize("value", [True, "1", None, [1.0], 1j])
def test_a_measure_is_a_number(value: Any) -> None:
    with pytest.raises(InputError, match=r"measure seconds: found .*, expected a number"):
        Run(Point({"batch": 1}), {"seconds": value})


def test_a_run_keeps_its_own_copy_in_plain_types() -> None:
    measures = {"seconds": np.float32(1.5)}
    run = Run(Point({"batch": 1}), measures)  # type: ignore[arg-type]  # NumPy's count as numbers
    measures["seconds"] = np.float32(99)
    assert run.seconds == 1.5
    assert type(run.seconds) is float


def test_a_run_has_a_uid_of_its_own() -> None:
    assert at(1).uid != at(1).uid


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"status": "fine"}, "run status: found fine, expected one of ok, failed, out_of_memory"),
        ({"measures": {}}, "run: found no measures, expected at least one, such as seconds"),
        ({"host": "a\nb"}, r"run host: found a\nb, expected a text without control characters"),
        ({"versions": {"torch": "2\x00"}}, r"run versions: found 2\x00, expected a text without"),
        ({"measures": {"a\n": 1}}, r"run measure: found a\n, expected a text without control"),
        ({"started": "yesterday"}, "run started: found yesterday, expected a time in ISO 8601"),
        ({"uid": ""}, "run uid: found '', expected a text that no other run has"),
        ({"source": 3}, "run source: found 3, expected a text"),
    ],
)
def test_a_run_says_what_is_wrong(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Run(**{"point": RELU, "measures": {"seconds": 1}, **fields})
    assert message in str(caught.value)


def test_a_failed_run_has_no_time() -> None:
    run = Run(RELU, {"seconds": 3.0}, "timed_out")
    assert run.measures == {"seconds": 3.0}
    assert run.seconds is None


# What a study keeps


def test_runs_come_back_as_they_went_in(tmp_path: Path, lenet_space: Space) -> None:
    run = Run(
        RELU,
        {"seconds": 0.1 + 0.2, "joules": 1e-300, "memory_bytes": 2**53},
        host="n1",
        versions={"torch": "2.4", "größe": "µ"},
        started="2026-11-15T21:00:00+00:00",
        source="by hand",
    )
    failed = Run(Point({**RELU, "batch": 0.5}), status="cancelled")
    with Study.create(tmp_path / "lenet.db", lenet_space) as study:
        assert study.add(run)
        assert study.add(failed)
    again = Study.open(tmp_path / "lenet.db")
    assert again.runs() == [run, failed]
    assert again.runs("cancelled") == [failed]
    assert again.runs("failed") == []
    assert again.space == lenet_space
    assert len(again) == 2
    assert tuple(again.runs()[0].point) == lenet_space.names


VALUES = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
MEASURES = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(VALUES, MEASURES), min_size=1, max_size=5))
def test_numbers_come_back_to_the_bit(pairs: list[tuple[float, float]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        study = Study.create(Path(directory) / "x.db", BATCH)
        study.add_all(at(value, seconds) for value, seconds in pairs)
        table = study.table()
        assert table["seconds"].tolist() == [seconds for _, seconds in pairs]
        assert table["batch"].tolist() == [value for value, _ in pairs]


def test_the_same_run_is_added_once(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "x.db", BATCH)
    runs = [at(1), at(2)]
    assert study.add_all(runs) == 2
    assert study.add_all([*runs, at(3)]) == 1
    assert not study.add(runs[0])
    assert len(study) == 3


def test_one_bad_run_keeps_all_of_its_company_out(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "x.db", BATCH)
    before = study.path.read_bytes()
    with pytest.raises(FactorError, match="factor batch: found 'many', expected a number"):
        study.add_all([at(1), Run(Point({"batch": "many"}), {"seconds": 1.0})])
    with pytest.raises(FactorError, match="point: found gpus, expected one of batch"):
        study.add(Run(Point({"batch": 1, "gpus": 2}), {"seconds": 1.0}))
    with pytest.raises(InputError, match="measure batch: found a factor of that name, expected"):
        study.add(Run(Point({"batch": 1}), {"batch": 1.0}))
    assert study.path.read_bytes() == before


def test_a_table_has_the_factors_then_the_target(lenet_study: Study) -> None:
    table = lenet_study.table()
    assert list(table.columns) == ["kernel", "activation", "batch", "seconds"]
    assert len(table) == 12
    assert table.iloc[1].to_dict() == {
        "kernel": 3,
        "activation": "relu",
        "batch": 32,
        "seconds": 1.125,
    }
    assert table.dtypes["kernel"] == table.dtypes["batch"] == "int64"
    assert table.dtypes["seconds"] == "float64"
    assert all(type(cell) is str for cell in table["activation"])
    assert lenet_study.table("memory_bytes")["memory_bytes"].max() == 12e6


def test_a_failed_run_is_never_in_a_table(lenet_study: Study) -> None:
    assert 4096 not in lenet_study.table()["batch"].tolist()
    failures = lenet_study.failures()
    assert failures.to_dict("records") == [
        {"kernel": 5, "activation": "relu", "batch": 4096, "status": "out_of_memory"}
    ]


def test_a_study_without_runs_has_empty_tables(tmp_path: Path, lenet_space: Space) -> None:
    study = Study.create(tmp_path / "x.db", lenet_space)
    assert list(study.table().columns) == ["kernel", "activation", "batch", "seconds"]
    assert list(study.failures().columns) == ["kernel", "activation", "batch", "status"]
    assert (len(study.table()), len(study), study.targets(), bool(study)) == (0, 0, [], True)


def test_targets_are_what_good_runs_measured_seconds_first(lenet_study: Study) -> None:
    lenet_study.add(Run(RELU, {"joules": 5.0}))
    lenet_study.add(Run(RELU, {"lost": 5.0}, status="failed"))
    assert lenet_study.targets() == ["seconds", "joules", "memory_bytes"]
    assert len(lenet_study.table("joules")) == 1
    with pytest.raises(StudyError, match="target: found lost, expected one of seconds, joules, me"):
        lenet_study.table("lost")


def test_the_digest_changes_with_the_runs_that_a_model_sees(lenet_study: Study) -> None:
    seconds, memory = lenet_study.digest(), lenet_study.digest("memory_bytes")
    assert len(seconds) == 64
    assert seconds != memory
    lenet_study.add(Run(RELU, status="failed"))
    assert lenet_study.digest() == seconds
    lenet_study.add(Run(RELU, {"seconds": 2.0}))
    assert lenet_study.digest() != seconds
    assert lenet_study.digest("memory_bytes") == memory
    lenet_study.set_space(Space([*list(lenet_study.space.values())[:2], Factor("batch")]))
    assert lenet_study.digest("memory_bytes") != memory


def test_a_model_is_kept_with_its_digest(lenet_study: Study) -> None:
    assert lenet_study.model_document("seconds") is None
    lenet_study.save_model("seconds", {"a": [0.1, 1e-300], "µ": None}, "d1")
    lenet_study.save_model("seconds", {"a": [0.2]}, "d2")
    lenet_study.save_model("joules", {"b": 1}, "d3")
    stored = Study.open(lenet_study.path).model_document("seconds")
    assert stored is not None
    assert (stored.document, stored.digest) == ({"a": [0.2]}, "d2")
    assert pd.Timestamp(stored.fitted).tzinfo is not None
    with pytest.raises(ValueError, match="not JSON compliant"):
        lenet_study.save_model("seconds", {"a": math.nan}, "d4")


# Commands and factors


def test_several_commands_make_variant_a_factor(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "x.db", BATCH, {"torch": "torch.py {batch}"})
    study.add(Run(Point({"batch": 1}), {"seconds": 1.0}, variant="torch"))
    assert study.space == BATCH
    study.add_command("jax", "jax.py {batch}")
    assert study.commands == {"torch": "torch.py {batch}", "jax": "jax.py {batch}"}
    assert study.space["variant"].values == ("torch", "jax")
    study.add(Run(Point({"batch": 1}), {"seconds": 2.0}, variant="jax"))
    study.add(Run(Point({"batch": 2, "variant": "jax"}), {"seconds": 3.0}))
    assert study.table().to_dict("list") == {
        "batch": [1, 1, 2],
        "variant": ["torch", "jax", "jax"],
        "seconds": [1.0, 2.0, 3.0],
    }
    assert [run.variant for run in study.runs()] == ["torch", "jax", "jax"]
    assert study.runs()[0].point == {"batch": 1, "variant": "torch"}
    with pytest.raises(FactorError, match="factor variant: found jax, expected the run's own, tor"):
        study.add(Run(Point({"batch": 2, "variant": "jax"}), {"seconds": 3.0}, variant="torch"))


def test_a_command_keeps_its_text(lenet_study: Study) -> None:
    lenet_study.add_command("", "train.py --batch {batch}")
    assert lenet_study.space.categorical == ("activation",)
    with pytest.raises(StudyError, match=r"command: found other.py, expected as before: train.py"):
        lenet_study.add_command("", "other.py")
    with pytest.raises(InputError, match=r"command: found .*, expected a text without control"):
        lenet_study.add_command("two", "a\nb")
    assert list(lenet_study.commands) == [""]


def test_factors_can_change_as_long_as_every_run_fits(lenet_study: Study) -> None:
    wider = [*list(lenet_study.space.values())[:2], Factor("batch", unit="samples", values=(8,))]
    lenet_study.set_space(Space(wider))
    assert lenet_study.space["batch"].unit == "samples"
    with pytest.raises(FactorError, match="point: found no gpus, expected values for"):
        lenet_study.set_space(Space([*wider, Factor("gpus")]))
    with pytest.raises(FactorError, match="factor batch: found 16, expected a level"):
        lenet_study.set_space(Space([*wider[:2], Factor("batch", "categorical")]))
    assert lenet_study.space == Space(wider)


def test_a_factor_may_not_be_dropped_while_runs_have_it(lenet_study: Study) -> None:
    with pytest.raises(FactorError, match="point: found batch, expected one of kernel, activation"):
        lenet_study.set_space(Space(list(lenet_study.space.values())[:2]))


def test_status_is_no_name_for_a_factor(tmp_path: Path) -> None:
    with pytest.raises(FactorError, match="factor name: found status, expected another name"):
        Study.create(tmp_path / "x.db", Space([Factor("status")]))
    assert not list(tmp_path.iterdir())


def test_a_new_level_can_be_recorded(lenet_study: Study) -> None:
    assert lenet_study.add(Run(Point({**RELU, "activation": "gelu"}), {"seconds": 1.0}))


def test_open_or_create(tmp_path: Path, lenet_space: Space) -> None:
    path = tmp_path / "x.db"
    Study.open_or_create(path, lenet_space).add(Run(RELU, {"seconds": 1.0}))
    others = Space([Factor("batch"), *list(lenet_space.values())[:2]])
    assert len(Study.open_or_create(path, others)) == 1
    with pytest.raises(StudyError, match=r"found factors activation \(categorical\), batch"):
        Study.open_or_create(path, BATCH)


@pytest.mark.parametrize("name", ["a b.db", "quo'te\".db", "50%?x=1#y.db", "größe 批.db", "-x.db"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    Study.create(tmp_path / name, BATCH).add(at(1))
    assert len(Study.open(tmp_path / name)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


# Files that are no study


def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE trials (number INTEGER)")
    db.close()


def newer_study(path: Path) -> None:
    Study.create(path, BATCH).add(at(1))
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()


def truncated_study(end: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        Study.create(path, BATCH).add_all(at(i) for i in range(2000))
        path.write_bytes(path.read_bytes()[:end])

    return make


def damaged_study(path: Path) -> None:
    Study.create(path, BATCH).add_all(at(i) for i in range(2000))
    content = bytearray(path.read_bytes())
    content[100:4096] = bytes(3996)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (Path.exists, "found no such file, expected a forerun study"),
        (Path.mkdir, "found a directory, expected a forerun study"),
        (Path.touch, "found a file of 0 bytes, expected a forerun study"),
        (lambda path: path.write_text("batch,seconds\n" * 99), "found a file of another kind"),
        (lambda path: path.write_bytes(b"\0" * 8192), "found a file of another kind"),
        (foreign_database, "found a SQLite file of another application, expected a forerun stu"),
        (newer_study, "found schema version 2, expected up to 1: a newer forerun wrote this"),
        (truncated_study(40960), "found a damaged file, expected a forerun"),
        (truncated_study(-1), "bytes, expected"),
        (truncated_study(4096), "found a damaged file, expected a forerun study"),
        (truncated_study(50), "found a file of 50 bytes, expected a forerun study"),
        (damaged_study, "found a damaged file, expected a forerun study"),
    ],
)
def test_what_is_no_study_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], object], found: str
) -> None:
    path = tmp_path / "x.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StudyError) as caught:
        Study.open(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert found in str(caught.value)
    if before is not None:
        with pytest.raises(StudyError, match=re.escape(str(caught.value))):
            Study.open_or_create(path, BATCH)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert {child.name for child in tmp_path.iterdir()} <= {"x.db"}


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(StudyError, match="found a file of that name, expected none"):
        Study.create(path, BATCH)
    assert path.read_text() == "mine"


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="found no such directory, expected a directory to write"):
        Study.create(tmp_path / "no" / "x.db", BATCH)


# Permissions, which root does not have: a child process gives up being root


def read_as_somebody_else(path: Path, said: Any) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    study = Study.open(path)
    said.send((len(study), study.table()["seconds"].tolist()))
    try:
        study.add(at(9))
    except StudyError as error:
        said.send(str(error))


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that others may enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("directory_mode", [0o755, 0o555])
def test_a_read_only_study_can_be_read(open_directory: Path, directory_mode: int) -> None:
    path = open_directory / "x.db"
    Study.create(path, BATCH).add_all([at(1, 0.5), at(2, 0.75)])
    path.chmod(0o444)
    open_directory.chmod(directory_mode)
    try:
        heard, said = multiprocessing.Pipe(duplex=False)
        fork = multiprocessing.get_context("fork")
        child = fork.Process(target=read_as_somebody_else, args=(path, said))
        child.start()
        child.join(60)
        assert heard.recv() == (2, [0.5, 0.75])
        assert heard.recv() == (
            f"{path}: found a file that may only be read, expected one that may be written"
        )
    finally:
        open_directory.chmod(0o755)


# Several writers, and writers that are killed


MANY = """
import sys
from forerun.factors import Factor, Point, Space
from forerun.study import Run, Study

path, writer, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
study = Study.open_or_create(path, Space([Factor("batch")]))
for i in range(count):
    study.add(Run(Point({"batch": writer * count + i}), {"seconds": 1.0}, uid=f"{writer}-{i}"))
    study.add(Run(Point({"batch": i}), {"seconds": 1.0}, uid=f"everybody-{i}"))
"""


def test_ten_processes_lose_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    writers, count = 10, 20
    commands = [[sys.executable, "-c", MANY, str(path), str(n), str(count)] for n in range(writers)]
    processes = [subprocess.Popen(command) for command in commands]
    assert [process.wait(300) for process in processes] == [0] * writers
    runs = Study.open(path).runs()
    expected = [f"{n}-{i}" for n in range(writers) for i in range(count)]
    expected += [f"everybody-{i}" for i in range(count)]
    assert sorted(run.uid for run in runs) == sorted(expected)
    assert {run.point["batch"] for run in runs} == set(range(writers * count))
    assert list(tmp_path.iterdir()) == [path]


# Tells of each run only after `add` has returned.
WRITER = """
import sys
from forerun.factors import Factor, Point, Space
from forerun.study import Run, Study

study = Study.open_or_create(sys.argv[1], Space([Factor("batch")]))
print("ready", flush=True)
for i in range(100_000):
    run = Run(Point({"batch": i}), {"seconds": i + 1})
    study.add(run)
    print(run.uid, flush=True)
"""


def run_and_kill(path: Path, first: int, after: float) -> list[str]:
    """The runs that a writer reported before it was killed, some seconds after the first ones."""
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        said = "".join(writer.stdout.readline() for _ in range(first))
        time.sleep(after)
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.read()
    assert writer.returncode == -signal.SIGKILL
    return [line for line in said.split("\n")[:-1] if line]


def test_a_killed_writer_loses_no_run_that_it_had_finished(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    chance = random.Random(0)
    reported: list[str] = []
    for turn in range(25):
        reported += run_and_kill(path, turn % 2 * 3, chance.uniform(0, 0.06))
        kept = {run.uid for run in Study.open(path).runs()}
        assert set(reported) <= kept
        # At most the one run that each writer was adding is there without having been reported.
        assert len(kept) <= len(reported) + 25
    assert len(reported) > 25
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def test_a_writer_that_is_killed_while_creating_leaves_no_half_study(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    chance = random.Random(1)
    for _ in range(20):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(0.05, 0.2))
        writer.kill()
        writer.wait()
        if path.exists():
            assert Study.open(path).space == BATCH
            path.unlink()


# Files that somebody else has changed


def changed(study: Study, script: str) -> Path:
    """The study's file after a script of SQL."""
    db = sqlite3.connect(study.path)
    db.executescript(script)
    db.close()
    return study.path


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("ALTER TABLE run RENAME TO kept; CREATE VIEW run AS SELECT * FROM kept", "a table kept"),
        ("CREATE VIEW runs AS SELECT * FROM run", "a view runs"),
        ("CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM run; END", "a trigger t"),
        ("DROP TABLE run; CREATE VIRTUAL TABLE run USING fts5(point)", "a virtual table run"),
        ("DROP TABLE run; CREATE VIEW run AS SELECT 1", "a view run"),
    ],
)
def test_only_forerun_s_own_tables_are_read(lenet_study: Study, script: str, found: str) -> None:
    path = changed(lenet_study, script)
    with pytest.raises(StudyError) as caught:
        Study.open(path)
    expected = f"{path}: found {found}, expected only the tables command, model, run, study"
    assert str(caught.value) == expected


def test_a_schema_before_the_first_is_refused(lenet_study: Study) -> None:
    path = changed(lenet_study, "PRAGMA user_version = 0")
    with pytest.raises(StudyError, match="found schema version 0, expected at least 1"):
        Study.open(path)


def test_a_journal_that_names_another_file_deletes_nothing(lenet_study: Study) -> None:
    victim = lenet_study.path.with_name("victim")
    victim.write_bytes(b"")
    name = str(victim).encode()
    magic = bytes.fromhex("d9d505f920a163d7")
    journal = Path(f"{lenet_study.path}-journal")
    number, length, check = b"\0\0\0\1", len(name).to_bytes(4), sum(name).to_bytes(4)
    journal.write_bytes(magic + b"\0" * 504 + number + name + length + check + magic)
    for use in (lambda: Study.open(lenet_study.path), lenet_study.runs):
        with pytest.raises(StudyError, match="found a journal over several files"):
            use()
    assert victim.exists()
    assert journal.exists()


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("measures", '{"seconds": NaN}'),
        ("measures", '{"seconds": 1e400}'),
        ("measures", '{"seconds": -1.0}'),
        ("measures", '{"seconds": "1"}'),
        ("measures", '{"seconds": 1.0'),
        ("measures", "[1.0]"),
        ("measures", DEEP),
        ("point", "3"),
        ("point", DEEP),
        ("point", '{"batch": 16}'),
        ("point", '{"activation": "relu", "batch": NaN, "kernel": 3}'),
        ("point", '{"activation": "relu", "batch": null, "kernel": 3}'),
        ("point", '{"activation": "relu", "batch": true, "kernel": 3}'),
        ("point", '{"activation": ["relu"], "batch": 16, "kernel": 3}'),
        ("point", '{"activation": "\\u001b[2J", "batch": 16, "kernel": 3}'),
    ],
)
def test_a_damaged_run_is_named(lenet_study: Study, column: str, text: str) -> None:
    path = changed(lenet_study, f"UPDATE run SET {column} = '{text}' WHERE id = 7")
    for use in (lenet_study.runs, lenet_study.table, lenet_study.digest):
        with pytest.raises(StudyError) as caught:
            use()
        assert str(caught.value).startswith(f"{path}: found a damaged run 7 (")
        assert str(caught.value).endswith(", expected a study as forerun writes it")


def test_an_unknown_status_is_damage(lenet_study: Study) -> None:
    changed(lenet_study, "UPDATE run SET status = char(27) || '[2J' WHERE id = 3")
    for use in (lenet_study.runs, lenet_study.failures):
        with pytest.raises(StudyError, match=r"a damaged run 3 \(run status: found \\x1b\[2J"):
            use()


@pytest.mark.parametrize(
    "text",
    ["", "7", "{}", '{"factors": 1}', '{"factors": [1]}', '{"factors": [{"name": 1}]}', DEEP]
    + [
        f'{{"factors": [{{"name": "a", "values": {values}}}]}}' for values in ("7", "[NaN]", "[[]]")
    ],
)
def test_damaged_factors_are_named(lenet_study: Study, text: str) -> None:
    path = changed(lenet_study, f"UPDATE study SET value = '{text}'")
    with pytest.raises(StudyError) as caught:
        lenet_study.table()
    assert str(caught.value).startswith(f"{path}: found damaged factors (")


def test_a_study_without_factors_is_damaged(lenet_study: Study) -> None:
    changed(lenet_study, "DELETE FROM study")
    with pytest.raises(StudyError, match="found damaged factors"):
        lenet_study.runs()


def test_damaged_commands_are_named(lenet_study: Study) -> None:
    changed(lenet_study, "UPDATE command SET text = char(27)")
    with pytest.raises(StudyError, match="found damaged commands"):
        _ = lenet_study.commands


@pytest.mark.parametrize("text", ["{", "[]", '{"a": NaN}', '{"a": 1e400}', DEEP])
def test_a_damaged_model_is_none(lenet_study: Study, text: str) -> None:
    lenet_study.save_model("seconds", {"a": 1.0}, "d")
    changed(lenet_study, f"UPDATE model SET document = '{text}'")
    assert lenet_study.model_document("seconds") is None


def test_other_parts_keep_notes_in_a_study(lenet_study: Study) -> None:
    assert lenet_study.note("seal") is None
    lenet_study.set_note("seal", {"a": [1, None, "ü"]})
    lenet_study.set_note("space", {})  # no note can take the factors' place
    assert lenet_study.note("seal") == {"a": [1, None, "ü"]}
    lenet_study.set_note("seal", {})
    assert lenet_study.note("seal") == {}
    assert len(lenet_study.space) == 3
    with sqlite3.connect(lenet_study.path) as db:
        db.execute("UPDATE study SET value = '[1' WHERE key = 'note seal'")
    db.close()
    with pytest.raises(StudyError, match=r"lenet.db, seal: found damage \(JSON: found \[1, expec"):
        lenet_study.note("seal")


def test_a_command_that_never_went_well_may_change(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "x.db", BATCH, {"": "tran.py {batch}"})
    study.add(Run(Point({"batch": 1}), status="failed"))
    study.add_command("", "train.py {batch}")
    assert study.commands == {"": "train.py {batch}"}
