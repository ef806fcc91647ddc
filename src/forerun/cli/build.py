"""`forerun build`: the files of a job, without submitting it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forerun.cli.common import Json, print_json, results, shown, working
from forerun.cli.deployments import Candidate, Folder, On, PlanPath, Trust, document, trusted

if TYPE_CHECKING:
    from forerun.deploying.deployment import Deployment


def build(
    plan: PlanPath,
    candidate: Candidate = 1,
    output: Folder = None,
    on: On = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Write the job script of a plan, the recipes of its image and their lock into a folder.

    Nothing is submitted: `forerun deploy PLAN -o FOLDER` submits what is there, as it is then.
    """
    with working("reading the plan"):
        from forerun.deploying.deployment import Deployment
        from forerun.planning.plans import read_plan

        written = read_plan(plan)
    trusted(written, candidate, on, trust)
    made = Deployment.make(written.plan, candidate - 1, output, backend=on)
    names = _names(made)
    if json:
        print_json({**document(made), "files": names})
        return
    to = results()
    for name in names:
        to.print(shown(made.folder / name), soft_wrap=True, highlight=False)
    to.print(f"next: forerun deploy {plan} -o {shown(made.folder)}", soft_wrap=True)


def _names(made: Deployment) -> list[str]:
    """The files of the folder, as a person reads them."""
    return sorted(path.name for path in made.folder.iterdir() if path.is_file())
