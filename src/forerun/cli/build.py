"""`forerun build`: the files of a job, without submitting it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forerun.cli.common import Json, note, print_json, results, shown, working
from forerun.cli.deployments import (
    Candidate,
    Folder,
    Image,
    On,
    PlanPath,
    Trust,
    document,
    trusted,
)
from forerun.errors import InputError

if TYPE_CHECKING:
    from forerun.deploying.deployment import Deployment
    from forerun.deploying.image import Flavour
    from forerun.planning.planner import Plan

FLAVOURS: tuple[Flavour, ...] = ("pip", "official", "source")


def build(
    plan: PlanPath,
    candidate: Candidate = 1,
    output: Folder = None,
    on: On = None,
    flavour: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What the image is made from: pip, official, source; or none.",
            show_default="pip, where the plan's machines run containers",
        ),
    ] = None,
    base: Annotated[
        str, typer.Option(metavar="IMAGE", help="A base image of your own.", show_default=False)
    ] = "",
    lock: Annotated[
        bool,
        typer.Option("--lock/--no-lock", help="Whether pip is asked for versions and hashes."),
    ] = True,
    image: Image = "",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Write the job script of a plan, the recipes of its image and their lock into a folder.

    The job runs in that image once you have built it. Nothing is submitted: `forerun deploy PLAN
    -o FOLDER` submits what is there, as it is then.
    """
    with working("reading the plan"):
        from forerun.deploying.deployment import Deployment
        from forerun.deploying.making import BESIDE
        from forerun.deploying.present import FOLDER
        from forerun.planning.plans import read_plan

        written = read_plan(plan)
    kind = _flavour(flavour, written.plan)
    beside = BESIDE if kind is not None and not written.plan.request.application.image else ""
    trusted(written, candidate, on, trust, folder=output, image=image or beside)
    if kind is not None and lock:
        note("asking pip for the versions and hashes of the image: this can take some minutes")
    with working("choosing the image"):
        write = None if kind is None else recipes(written.plan, candidate - 1, kind, base, lock)
    made = Deployment.make(written.plan, candidate - 1, output, backend=on, image=image or beside)
    if write is not None:
        write(made.folder / FOLDER)
    if json:
        print_json({**document(made), "files": _names(made.folder)})
    else:
        _print(made, plan)


def recipes(
    plan: Plan, candidate: int, flavour: Flavour, base: str, lock: bool
) -> Callable[[Path], None]:
    """What writes the recipes of a candidate's image into a folder, with all that they need.

    InputError before anything is written, where there can be no such image.
    """
    from forerun.deploying.choice import image_of
    from forerun.deploying.context import write_context
    from forerun.deploying.lock import lock_of
    from forerun.deploying.making import considered

    chosen = considered(plan, candidate).candidate
    spec = image_of(chosen, plan.request, plan.infrastructure, flavour, base)
    project = Path(plan.request.application.directory or ".")
    found = lock_of(spec, project) if lock else None
    return lambda folder: write_context(spec, project, folder, found)


def _flavour(given: str | None, plan: Plan) -> Flavour | None:
    """What the image is made from; None where there is to be none."""
    if given is None:
        return None if plan.infrastructure.container == "none" else FLAVOURS[0]
    if given == "none":
        return None
    for one in FLAVOURS:
        if one == given:
            return one
    raise InputError("--flavour", given, f"one of {', '.join(FLAVOURS)}, none")


def _names(folder: Path) -> list[str]:
    """The files of a folder, at any depth."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _print(made: Deployment, plan: Path) -> None:
    from forerun.deploying.present import FOLDER, how_to_build

    to = results()
    for name in _names(made.folder):
        to.print(shown(made.folder / name), soft_wrap=True)
    image = made.record.image
    if image and not Path(image).exists() and (made.folder / FOLDER).is_dir():
        note(f"next: {how_to_build(made.record)}")
    if made.record.backend == "sky":
        task = shlex.quote(str(made.script))
        to.print(f"next: sky launch {shown(task)}", soft_wrap=True)
        return
    folder = shlex.quote(str(made.folder))
    to.print(f"next: forerun deploy {shlex.quote(str(plan))} -o {shown(folder)}", soft_wrap=True)
