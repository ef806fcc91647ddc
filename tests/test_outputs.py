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
    with pytest.raises(InputError, match="found the study itself"):
        _outputs.check_page(tmp_path / "to-come.html", tmp_path / "." / "to-come.html")


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


def test_what_cannot_be_written_is_told_by_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory") as failed:
        _outputs.write(tmp_path, b"content")
    assert failed.value.filename == str(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.png", b"\x89PNG\r\n"), ("a.pdf", b"%PDF-1.4"), ("a.svg", b"<?xml version='1.0'?>\n<svg>")],
)
def test_a_figure_replaces_figures_of_its_format_alone(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    for earlier in (b"", content):
        path.write_bytes(earlier)
        _outputs.check_figure(path)
    with pytest.raises(InputError, match="found a file that is needed"):
        _outputs.check_figure(path, tmp_path / "." / name)
    for other in (b"a diary", b"<?xml version='1.0'?><project/>", b'{"request": 1}'):
        path.write_bytes(other)
        with pytest.raises(InputError, match=f"found a file that is no {name[2:].upper()}"):
            _outputs.check_figure(path)


def test_a_plan_replaces_earlier_plans_alone(tmp_path: Path, study: Path) -> None:
    plan = tmp_path / "plan.json"
    _outputs.check_plan(plan, study, None)
    plan.write_text('{"request": {}, "candidates": []}')
    _outputs.check_plan(plan, study)
    for other in (b"a diary", b"[1]", b'{"request": 1}', b"{" * 5000, b"{\xff"):
        plan.write_bytes(other)
        with pytest.raises(InputError, match="found a file that is no plan"):
            _outputs.check_plan(plan, study)
    for kept in (study, tmp_path / "to-come.db"):
        with pytest.raises(InputError, match="found a file that is needed"):
            _outputs.check_plan(kept, None, tmp_path / "." / kept.name)
    with pytest.raises(InputError, match="no such directory"):
        _outputs.check_plan(tmp_path / "none" / "plan.json")
    with pytest.raises(InputError, match="found a directory"):
        _outputs.check_plan(tmp_path)
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "elsewhere")
    for other_kind in (link, Path("/dev/null")):
        with pytest.raises(InputError, match="found a link or a device"):
            _outputs.check_plan(other_kind)
