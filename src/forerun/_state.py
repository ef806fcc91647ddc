"""Where this user's forerun keeps what belongs to no study: a key, and where jobs were started."""

from __future__ import annotations

import os
from pathlib import Path


def state_directory() -> Path:
    """$XDG_STATE_HOME/forerun, or what the standard says where that is not set."""
    told = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = told if told.is_absolute() else Path("~/.local/state").expanduser()
    return base / "forerun"
