"""Whether a request's framework is older than the one that forerun's own workloads run."""

from __future__ import annotations

import re

from forerun.planning.request import Application
from forerun.workloads.environments import FRAMEWORKS


def version_notes(application: Application) -> tuple[str, ...]:
    """A note where it is older; as many of the numbers count as the request gives."""
    own = FRAMEWORKS.get(application.framework)
    asked = _numbers(application.version)
    if own is None or not asked or asked >= _numbers(own.version)[: len(asked)]:
        return ()
    told = f"{application.framework} {application.version}"
    return (f"{told}: forerun's own workloads run {own.version}",)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d{1,9}(?:\.\d{1,9})*)", version.strip(), re.ASCII)
    return () if found is None else tuple(map(int, found[1].split(".")))
