from pathlib import Path

import pytest

from forerun import _outputs
from forerun.errors import InputError


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    path.write_bytes(b"SQLite format 3\0 and so on")
    return path


def test_a_link_is_not_followed(tmp_path: Path, study: Path) -> None:
    link, diary = tmp_path / "page.html", tmp_path / "diary"
    link.symlink_to(diary)
    with pytest.raises(InputError, match=r"page\.html: found a link or a device"):
        _outputs.check_page(link, study)
    with pytest.raises(InputError, match=r"page\.html: found a link or a device"):
        _outputs.check_figure(link)
    _outputs.write(link, b"page")  # laid after the check: the link goes, not what it names
    assert not link.is_symlink()
    assert link.read_bytes() == b"page"
    assert not diary.exists()


def test_a_directory_is_not_a_page(tmp_path: Path, study: Path) -> None:
    with pytest.raises(InputError, match="found a directory, expected a new or a regular file"):
        _outputs.check_page(tmp_path, study)
    with pytest.raises(InputError, match="found no such directory"):
        _outputs.check_page(tmp_path / "none" / "page.html", study)


def test_a_figure_replaces_no_database(tmp_path: Path, study: Path) -> None:
    with pytest.raises(InputError, match="found a study or another database"):
        _outputs.check_figure(study)
    _outputs.check_figure(tmp_path / "new.png")
    (tmp_path / "old.png").write_bytes(b"\x89PNG")
    _outputs.check_figure(tmp_path / "old.png")


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="directory"):
        _outputs.write(tmp_path / "taken", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
