import os
from pathlib import Path

import pytest

from forerun.errors import StudyError
from forerun.factors import Factor, Point, Space
from forerun.measuring.unstored import Unstored
from forerun.study import Run, Study

FULL = StudyError("a.db", "a full disk", "space to write")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study.create(tmp_path / "a.db", Space([Factor("n"), Factor("é", "categorical")]))


def run(n: int) -> Run:
    return Run(
        Point({"n": n, "é": "ü"}),
        {"seconds": n / 3},
        host="here",
        versions={"python": "3"},
        started="2026-01-01T00:00:00+00:00",
        source="measure chosen",
    )


def test_runs_that_cannot_be_stored_are_stored_later(study: Study) -> None:
    unstored, runs = Unstored(study), [run(1), run(2)]
    unstored.reserve()
    assert str(unstored.keep(runs[0], FULL)) == (
        f"a.db: found a full disk, expected space to write; 1 run is kept in {study.path}.unstored "
        "and stored at the next start"
    )
    assert "2 runs are kept" in str(unstored.keep(runs[1], FULL))
    unstored.close()
    assert Unstored(study).take_in() == 2
    assert study.runs() == runs
    assert not unstored.path.exists()


def test_a_run_that_was_stored_after_all_does_not_come_twice(study: Study) -> None:
    Unstored(study).keep(run(1), FULL)
    one = run(2)
    Unstored(study).keep(one, FULL)
    study.add(one)
    assert Unstored(study).take_in() == 1
    assert len(study) == 2


def test_the_reserved_space_is_used_and_given_back(study: Study) -> None:
    unstored = Unstored(study)
    unstored.reserve()
    size = unstored.path.stat().st_size
    assert size == 64 * 1024
    unstored.keep(run(1), FULL)
    assert unstored.path.stat().st_size == size
    Unstored(study).take_in()
    unstored.reserve()
    unstored.close()
    assert not unstored.path.exists()


def test_if_nothing_can_be_written_the_message_holds_the_run(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    told = str(Unstored(study).keep(run(3), FULL))
    assert 'nor could this run be kept beside it: {"point":{"n":3,"é":"ü"},' in told


def test_runs_that_do_not_fit_the_study_are_one_line_that_names_the_file(study: Study) -> None:
    Unstored(study).keep(Run(Point({"n": 1}), {"seconds": 1.0}), FULL)
    with pytest.raises(StudyError, match=r"a\.db\.unstored: found runs that do not fit the study"):
        Unstored(study).take_in()


def test_only_a_regular_file_is_opened(study: Study) -> None:
    os.mkfifo(f"{study.path}.unstored")
    with pytest.raises(StudyError, match=r"a\.db\.unstored: found no regular file"):
        Unstored(study).take_in()


@pytest.mark.parametrize("line", ['{"point": 3}', '{"point": {"n": 1}, "measures": [1]}'])
def test_a_damaged_file_is_one_line(study: Study, line: str) -> None:
    Path(f"{study.path}.unstored").write_text(f"{line}\n")
    with pytest.raises(StudyError, match=r"a\.db\.unstored: found a damaged line"):
        Unstored(study).take_in()
