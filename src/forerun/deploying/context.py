"""The folder that an image is built in: its recipes, its lock, and a copy of the application.

    Dockerfile · image.def · requirements.txt · lock.json · sbom.json · app/

Nothing outside the folder is read when the image is built, so it can be kept, or sent to where
images are built.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from forerun.deploying.blocks import FORMATS
from forerun.deploying.image import ImageSpec
from forerun.deploying.lock import Lock, digest_of, inside, sbom
from forerun.deploying.recipe import APPLICATION, FILES, REQUIREMENTS, render
from forerun.errors import InputError

LOCK = "lock.json"
SBOM = "sbom.json"


def texts(spec: ImageSpec, lock: Lock | None = None) -> dict[str, str]:
    """The files of the folder, by name, without the application's."""
    found = {FILES[form]: render(spec, form, lock) for form in FORMATS}
    if lock is not None:
        found[LOCK] = lock.to_json()
        found[SBOM] = sbom(spec, lock)
        if spec.packages:
            found[REQUIREMENTS] = lock.requirements()
    return found


def write_context(spec: ImageSpec, project: Path, folder: Path, lock: Lock | None = None) -> None:
    """Write the folder; what is there of an earlier one is replaced."""
    written = texts(spec, lock)
    folder.mkdir(parents=True, exist_ok=True)
    before = folder / APPLICATION
    if before.is_symlink() or (before.exists() and not before.is_dir()):
        expected = "the folder that was written here before, or nothing; another one with -o"
        raise InputError(str(before), "a link or a file", expected)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as part:
        for name in spec.files:
            _copy(project, name, Path(part, APPLICATION), lock)
        for name, text in written.items():
            Path(part, name).write_text(text, encoding="utf-8")
        if before.is_dir():
            shutil.rmtree(before)
        for name in {LOCK, SBOM, REQUIREMENTS} - set(written):  # of an earlier lock
            (folder / name).unlink(missing_ok=True)
        for made in sorted(Path(part).iterdir()):
            made.replace(folder / made.name)


def _copy(project: Path, name: str, target: Path, lock: Lock | None) -> None:
    source, copied = inside(project, name), target / name
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, copied)
    if lock is not None and digest_of(copied) != lock.files.get(name):
        expected = "the file as it was when the lock was made, or a new lock"
        raise InputError(str(project / name), "another content", expected)
