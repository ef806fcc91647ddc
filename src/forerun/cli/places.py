"""Where a campaign makes its runs: by processes of this machine, or as jobs of a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from forerun.cli.common import counted, warn
from forerun.errors import InputError

if TYPE_CHECKING:
    from forerun.measuring.asking import Asked

_HERE = "local"  # as --on: by processes of this machine, as without it


def placed(asked: Asked, checked: bool = False) -> Asked:
    """With the place where its runs are made, and, if `checked`, somebody there to take jobs."""
    from forerun.measuring.asking import settings_for

    settings = settings_for(asked)
    if settings.on in (None, _HERE):
        for name in ("partition", "framework"):
            if getattr(settings, name) is not None and settings.on is None:
                raise InputError(f"--{name}", getattr(settings, name), "with --on CLUSTER.yaml")
        _warn_of_jobs(asked.study)
        return asked
    from forerun.deploying.cluster import Cluster
    from forerun.infrastructure import Infrastructure

    found = Infrastructure.load(Path(settings.on))
    cluster = Cluster(found, settings.partition, settings.framework or "other")
    if checked:
        cluster.check_scheduler()
    return replace(asked, place=cluster)


def _warn_of_jobs(path: Path) -> None:
    """Say where jobs of an earlier start may be under way that nobody will see to here."""
    from forerun.measuring.outputs import output_directory, unseen_jobs
    from forerun.study import Study

    if not path.exists():
        return
    stored = {run.uid for run in Study.open(path).runs()}
    if found := len(unseen_jobs(output_directory(path), stored)):
        are = f"{counted(found, 'job')} of an earlier start {'is' if found == 1 else 'are'}"
        warn(f"{path}: {are} not seen to: --on CLUSTER.yaml goes on with them")
