"""Data on a disk that is really slow: a plan stages it where that pays, and it does pay."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from staging import FAST, Case, Place, compare, describe, placed, study
from throttled import why_not

FOLDER = Path("/var/tmp")
CASE = Case(work=1)

pytestmark = pytest.mark.skipif(
    bool(why_not(FOLDER)) or not FAST.is_dir(), reason=why_not(FOLDER) or f"there is no {FAST}"
)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with placed(FOLDER, size=9e6, rate=6e6) as made:
        yield made


def test_the_disk_is_as_slow_as_it_was_made(place: Place) -> None:
    # A busy machine may be slower than the limit; a limit lets a little more through at first.
    assert 2e6 < place.rates["disk"] < 8e6
    assert place.rates["fast"] > 2 * place.rates["disk"]


def test_many_passes_are_staged_and_one_is_not(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    describe(place, tmp_path / "here.yaml")
    study(place, CASE, tmp_path)
    once = compare(place, CASE, 1, tmp_path, repeats=1)
    often = compare(place, CASE, 5, tmp_path, repeats=3)  # of which one may stand still
    assert (once.staged, often.staged) == (False, True)
    assert once.predicted < 1.05
    # Five readings of 1.5 s against one: so much that no busy machine hides it.
    assert often.predicted > 1.2
    assert often.measured > 1.2


def test_nothing_is_left() -> None:
    with placed(FOLDER, size=6e5, rate=6e6) as made:
        folders = (made.slow, made.fast, made.group.folder)
        assert all(folder.exists() for folder in folders)
    assert not any(folder.exists() for folder in folders)
