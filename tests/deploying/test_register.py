from pathlib import Path

import pytest

from forerun.deploying import register
from forerun.errors import InputError

ONE, OTHER = "1" * 32, "2" * 32


def test_what_was_deployed_is_found_again(tmp_path: Path, state: Path) -> None:
    register.remember(ONE, tmp_path / "a b")
    assert register.is_known(ONE, tmp_path / "a b")
    assert not register.is_known(ONE, tmp_path)
    assert not register.is_known(OTHER, tmp_path / "a b")
    assert not register.is_known("../../key", tmp_path)
    register.remember(OTHER, tmp_path / "c")
    assert dict(register.known()) == {ONE: tmp_path / "a b", OTHER: tmp_path / "c"}
    register.forget(ONE)
    assert [uid for uid, _ in register.known()] == [OTHER]
    (state / "forerun" / "deployments" / "notes.txt").write_text("mine")
    assert [uid for uid, _ in register.known()] == [OTHER]


def test_where_nothing_can_be_kept_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(register.known()) == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match="another XDG_STATE_HOME"):
        register.remember(ONE, tmp_path)
