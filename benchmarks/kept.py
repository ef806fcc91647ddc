"""Results that take long are kept in a file, so that a second start goes on where one stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import forerun


class Kept:
    """Results by name, in a JSON file or, without one, in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        exists = path is not None and path.exists()
        self._known: dict[str, Any] = json.loads(path.read_text()) if path and exists else {}

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __getitem__(self, name: str) -> Any:
        return self._known[name]

    def put(self, found: Mapping[str, Any]) -> None:
        """Keep these too."""
        self._known |= found
        if self._path is not None:
            whole = self._path.with_name(f".{self._path.name}.part")
            whole.write_text(json.dumps(self._known))
            whole.replace(self._path)


def sources(*packages: str) -> str:
    """A digest of all modules of these packages of forerun: a result belongs to its code."""
    root = Path(forerun.__file__).parent
    digest = hashlib.sha256()
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
