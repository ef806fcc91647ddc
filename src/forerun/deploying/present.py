"""Whether the image that a job runs in is there: a job without it would fail in the runtime."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from forerun.deploying.record import Record
from forerun.errors import InputError
from forerun.jobs.asking import ask

FOLDER = "image"  # in the job's, with the recipes and all that they need
_OURS = "localhost/"  # where images lie that are built from the recipes beside a job
_GONE = re.compile("no such image|not known|not found", re.IGNORECASE)


def check_image(record: Record) -> None:
    """InputError where it is missing, and how it is built. Registries and nodes are not asked."""
    image, runtime = record.image, record.runtime
    if image.startswith("/"):
        missing = not Path(image).exists()
    else:
        here = record.backend == "local" and runtime in ("docker", "podman")
        missing = here and image.startswith(_OURS) and not _has(runtime, image)
    if missing:
        raise InputError(image, "no such image", f"one: {how_to_build(record)}")


def how_to_build(record: Record) -> str:
    """What builds the image of a job from the recipes in its folder, as one types it."""
    image = record.image
    if image.startswith("/"):
        built = f"apptainer build {shlex.quote(image)} image.def"
    else:
        built = f"{'podman' if record.runtime == 'podman' else 'docker'} build -t {image} ."
    return f"cd {shlex.quote(f'{record.folder}/{FOLDER}')} && {built}"


def _has(runtime: str, image: str) -> bool:
    """Whether a runtime of this machine has an image; one that does not say so may have it."""
    answer = ask([runtime, "image", "inspect", image])
    return answer.code in (0, None) or not _GONE.search(answer.said)
