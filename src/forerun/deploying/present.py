"""Whether the image that a job runs in is there: a job without it would fail in the runtime."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from forerun.deploying.record import Record
from forerun.errors import InputError
from forerun.jobs.asking import ask

_OURS = "localhost/"  # where images lie that are built from the recipes beside a job
_GONE = re.compile("no such image|not known|not found", re.IGNORECASE)


def check_image(record: Record) -> None:
    """InputError where it is missing, and how it is built. Registries and nodes are not asked."""
    image, runtime = record.image, record.runtime
    recipes = shlex.quote(f"{record.folder}/image")
    if image.startswith("/") and not Path(image).exists():
        built = f"apptainer build {shlex.quote(image)} image.def"
    elif (
        record.backend == "local"
        and runtime in ("docker", "podman")
        and image.startswith(_OURS)
        and not _has(runtime, image)
    ):
        built = f"{runtime} build -t {image} ."
    else:
        return
    raise InputError(image, "no such image", f"one: cd {recipes} && {built}")


def _has(runtime: str, image: str) -> bool:
    """Whether a runtime of this machine has an image; one that does not say so may have it."""
    answer = ask([runtime, "image", "inspect", image])
    return answer.code in (0, None) or not _GONE.search(answer.said)
