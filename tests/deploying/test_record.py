import json
from pathlib import Path

import pytest

from forerun.deploying.record import FILE, Predicted, Record, put
from forerun.errors import InputError


def record(folder: Path) -> Record:
    return Record(
        uid="a" * 32,
        name="toy",
        plan="b" * 64,
        request="toy",
        infrastructure="here",
        candidate=1,
        partition="local",
        nodes=1,
        backend="local",
        folder=str(folder),
        script="job.sh",
        output="job.out",
        made="2027-01-31T18:00:00+00:00",
        predicted=Predicted(seconds=10, low=9, high=12, run=7, wait=2, staging=1),
        point={"n": 3, "net": "a"},
    )


def test_it_is_kept_and_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    made = record(tmp_path / "run")
    made.save()
    assert Record.load(tmp_path / "run") == made
    assert [path.name for path in (tmp_path / "run").iterdir()] == [FILE]
    assert (tmp_path / "run" / FILE).stat().st_mode & 0o777 == 0o600
    assert made.predicted is not None
    assert (made.predicted.run_low, made.predicted.run_high) == (6, 9)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 9}, "found format 9, expected 1 at most; a newer forerun"),
        ({"uid": 3}, "uid: found 3, expected a text"),
        ({"state": "asleep"}, "state: found asleep"),
        ({"more": 1}, "more: found a field of that name"),
    ],
)
def test_damage_is_told(tmp_path: Path, change: dict[str, object], told: str) -> None:
    document = {**record(tmp_path).model_dump(mode="json"), **change}
    (tmp_path / FILE).write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        Record.load(tmp_path)
    assert told in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"study": "/home/ada/thesis.db"},
        {"output": "/etc/shadow"},
        {"backend": "slurm", "job": "4711"},
        {"seal": None},
        {"seal": "0" * 64},
        {"seal": "é"},
    ],
)
def test_what_somebody_else_wrote_is_not_believed(
    tmp_path: Path, change: dict[str, object]
) -> None:
    record(tmp_path).save()
    document = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps(dict(sorted(document.items()))))
    assert Record.load(tmp_path) == record(tmp_path)  # another order says nothing else
    (tmp_path / FILE).write_text(json.dumps({**document, **change}))
    with pytest.raises(InputError, match="found a deployment that somebody else may have made"):
        Record.load(tmp_path)


def test_without_a_place_for_a_key_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/state")
    with pytest.raises(InputError, match=r"/proc/state/forerun: found no place for a key"):
        record(tmp_path).save()
    assert not list(tmp_path.iterdir())


def test_a_folder_without_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found no deployment, expected a folder that forerun"):
        Record.load(tmp_path)


def test_a_full_disk_is_told_with_what_to_do() -> None:
    with pytest.raises(InputError, match=r"found .*, expected a folder with room .* with -o"):
        put(Path("/proc/nothing.json"), b"x")
