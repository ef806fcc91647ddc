import os
from pathlib import Path
from uuid import uuid4

import pytest

from forerun.factors import Point
from forerun.measuring import outputs
from forerun.measuring.outputs import job_folder, output_directory, tidy, unseen_jobs
from forerun.study import Run, Status


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "a.output").mkdir()
    return output_directory(tmp_path / "a.db")


def run_with_output(directory: Path, status: Status, age: int, size: int = 1) -> Run:
    run = Run(Point({"n": 1}), {"seconds": 1.0}, status=status, uid=uuid4().hex)
    file = directory / f"{run.uid}.txt"
    file.write_bytes(bytes(size))
    os.utime(file, (1e9 - age, 1e9 - age))
    return run


def test_the_directory_is_named_for_the_study(tmp_path: Path) -> None:
    assert output_directory(tmp_path / "lenet.db") == tmp_path / "lenet.output"


def test_the_last_good_and_all_recent_bad_outputs_stay(directory: Path) -> None:
    good = [run_with_output(directory, "ok", age) for age in range(20)]
    bad = [run_with_output(directory, "failed", age) for age in range(60)]
    tidy(directory, [*good, *bad])
    kept = {file.stem for file in directory.iterdir()}
    assert kept == {run.uid for run in (*good[:5], *bad[:50])}


def test_what_is_running_stays(directory: Path) -> None:
    runs = [run_with_output(directory, "failed", age) for age in range(60)]
    tidy(directory, runs, [runs[-1].uid])
    kept = {file.stem for file in directory.iterdir()}
    assert kept == {run.uid for run in (*runs[:50], runs[-1])}


def test_other_peoples_files_stay(directory: Path) -> None:
    names = ["notes.txt", f"{'a' * 32}.log", *(f"{number:032x}.txt" for number in range(60))]
    for name in names:
        (directory / name).touch()
    tidy(directory, [])
    assert sorted(file.name for file in directory.iterdir()) == sorted(names)


def test_nothing_is_removed_through_a_link(directory: Path) -> None:
    runs = [run_with_output(directory, "ok", age) for age in range(20)]
    link = directory.with_name("b.output")
    link.symlink_to(directory)
    tidy(link, runs)
    assert len(list(directory.iterdir())) == 20


def test_all_together_never_fill_the_disk(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "KEPT_BYTES", 100)
    good = [run_with_output(directory, "ok", age, 30) for age in range(3)]
    bad = [run_with_output(directory, "timed_out", age, 30) for age in range(5)]
    tidy(directory, [*good, *bad])
    assert {file.stem for file in directory.iterdir()} == {run.uid for run in bad[:3]}


def test_a_directory_that_is_not_there_is_fine(tmp_path: Path) -> None:
    tidy(tmp_path / "none", [])


def test_the_folder_of_a_job_goes_with_its_output(directory: Path) -> None:
    runs = [run_with_output(directory, "ok", age) for age in range(7)]
    for run in runs:
        job_folder(directory, run.uid).mkdir(parents=True)
        (job_folder(directory, run.uid) / "job.sh").touch()
    tidy(directory, runs)
    kept = {folder.name for folder in (directory / "jobs").iterdir()}
    assert kept == {run.uid for run in runs[:5]}


def test_jobs_whose_runs_the_study_does_not_have(directory: Path, tmp_path: Path) -> None:
    one, two = uuid4().hex, uuid4().hex
    assert unseen_jobs(directory, set()) == []
    for name in (one, two, "notes"):
        job_folder(directory, name).mkdir(parents=True)
    job_folder(directory, "f" * 32).symlink_to(tmp_path)
    assert [folder.name for folder in unseen_jobs(directory, {one})] == [two]
    (tmp_path / "link.output").symlink_to(directory)
    assert unseen_jobs(tmp_path / "link.output", {one}) == []
