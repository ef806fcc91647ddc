"""Where environments and data sets are kept: one folder of the user's, for all studies."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """`$FORERUN_HOME`, else `forerun` in `$XDG_DATA_HOME`, else in `~/.local/share`."""
    if own := os.environ.get("FORERUN_HOME"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(shared).expanduser().absolute() / "forerun"


def data_directory() -> Path:
    """The folder of the decoded data sets."""
    return home() / "data"


def environments_directory() -> Path:
    """The folder of the frameworks' environments."""
    return home() / "environments"
