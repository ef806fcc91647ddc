"""Images that jobs run in, by stand-ins for the runtimes of containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from forerun.deploying.present import check_image
from forerun.deploying.record import Record
from forerun.errors import InputError

IMAGE = "localhost/lenet:0123"


def record(**changes: object) -> Record:
    told = {
        "uid": "0" * 32,
        "name": "lenet",
        "plan": "0" * 64,
        "request": "lenet",
        "infrastructure": "here",
        "candidate": 1,
        "partition": "local",
        "nodes": 1,
        "backend": "local",
        "folder": "/jobs/a b",
        "script": "job.sh",
        "output": "job.out",
        "made": "2026-01-01T00:00:00+00:00",
    }
    return Record.model_validate({**told, **changes})


def standin(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def test_an_image_that_is_not_built_is_refused_with_what_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    standin(tmp_path, "podman", "echo Error: $3: image not known >&2; exit 125")
    asked = record(image=IMAGE, runtime="podman")
    told = rf"{IMAGE}: found no such image, .* cd '/jobs/a b/image' && podman build -t {IMAGE} \."
    with pytest.raises(InputError, match=told):
        check_image(asked)
    standin(tmp_path, "podman", "echo '[{}]'")
    check_image(asked)
    standin(tmp_path, "podman", "echo cannot reach my daemon >&2; exit 1")
    check_image(asked)  # it may have it


def test_a_file_is_looked_for_and_a_registry_is_not_asked(tmp_path: Path) -> None:
    file = tmp_path / "image.sif"
    with pytest.raises(InputError, match=r"apptainer build .*image\.sif image\.def"):
        check_image(record(image=str(file), runtime="apptainer"))
    file.touch()
    check_image(record(image=str(file), runtime="apptainer"))
    check_image(record(image="example.org/lenet:1", runtime="docker"))
    check_image(record(image=IMAGE, runtime="podman", backend="slurm"))
    check_image(record())
