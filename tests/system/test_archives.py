"""Archives of packages that have no time: what needs them is tried again, then skipped."""

from pathlib import Path

import images
import pytest
from images import RefusedError, tried

BUSY = "echo x >> {count}; test $(wc -l < {count}) -gt {busy} || {{ echo '{said}' >&2; exit 100; }}"
SAID = "Err:1 http://archive bookworm InRelease  429  Too Many Requests [IP: 192.0.2.1 80]"


def words(folder: Path, busy: int, said: str = SAID) -> list[str]:
    """A program that fails so often before it is done."""
    return ["sh", "-c", BUSY.format(count=folder / "count", busy=busy, said=said)]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "WAITS", (0.0, 0.0))


@pytest.mark.parametrize("said", [SAID, "ERROR 503: Service Unavailable.", "502 Bad Gateway"])
def test_an_archive_that_was_busy_is_asked_again(tmp_path: Path, said: str) -> None:
    tried(words(tmp_path, 2, said))
    assert (tmp_path / "count").read_text() == "x\n" * 3


def test_one_that_stays_busy_has_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"answered '429  Too Many Requests' 3 times"):
        tried(words(tmp_path, 9))


def test_any_other_failure_is_one(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no such package"):
        tried(words(tmp_path, 1, "E: no such package"))
    assert (tmp_path / "count").read_text() == "x\n"
