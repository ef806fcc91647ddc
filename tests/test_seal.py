import stat
from pathlib import Path

import pytest

from forerun._seal import is_sealed, sealed
from forerun.errors import InputError


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "forerun"


def test_a_text_is_this_users_once_it_is_sealed(state: Path) -> None:
    assert not is_sealed("rm -r /", "0" * 64)  # no key yet: nothing is
    seal = sealed("python train.py")
    assert seal is not None
    assert is_sealed("python train.py", seal)
    assert not is_sealed("rm -r /", seal)
    assert stat.S_IMODE((state / "key").stat().st_mode) == 0o600
    assert len((state / "key").read_bytes()) == 32


@pytest.mark.parametrize("seal", ["", "x", "é", "\ud800"])
def test_what_is_no_seal_fits_nothing(seal: str) -> None:
    assert sealed("a") is not None
    assert not is_sealed("a", seal)


def test_another_user_has_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seal = sealed("a")
    assert seal is not None
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert not is_sealed("a", seal)
    assert sealed("a") != seal


def test_a_key_that_others_may_read_is_refused(state: Path) -> None:
    assert sealed("a") is not None
    (state / "key").chmod(0o644)
    with pytest.raises(InputError, match="expected one of this user's, mode 0600"):
        is_sealed("a", "")
    (state / "key").chmod(0o600)
    (state / "key").write_bytes(b"short")
    with pytest.raises(InputError, match="found 5 bytes, expected 32; remove it for a new one"):
        sealed("a")
