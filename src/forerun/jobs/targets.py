"""What clusters without job scripts call a job, and what of it they cannot honour."""

from __future__ import annotations

import re
from typing import Literal

from forerun.errors import InputError
from forerun.jobs.spec import JobSpec

Target = Literal["job", "pytorchjob", "skypilot"]

_NAMES = {"job": "Kubernetes", "pytorchjob": "Kubernetes", "skypilot": "SkyPilot"}


def job_name(spec: JobSpec) -> str:
    """A name of letters that a host name may have, and that is the job's own by its uid.

    Pods add a role and a number to it, and must stay within 63 characters.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", spec.name.lower()).strip("-")
    if not slug[:1].isalpha():
        slug = f"job-{slug}"
    return f"{slug[:30].strip('-')}-{spec.uid[:16]}"


def left_out(spec: JobSpec, target: Target) -> tuple[str, ...]:
    """What a target does not do of a spec, a line each, with nothing in it that the user wrote."""
    where = _NAMES[target]
    cloud = target == "skypilot"
    found = {
        "queue": spec.queue and f"{where} has no queues by itself",
        "account": spec.account and f"{where} keeps no accounts",
        "qos": cloud and spec.qos and f"{where} has no quality of service",
        "begin": spec.begin and "it starts as soon as there is room",
        "mail": (spec.mail_to or spec.mail_on) and "nobody is written to",
        "copy_environment": spec.copy_environment and "name variables with their values instead",
        "variables": spec.variables and "give them values instead",
        "exclusive": not cloud
        and spec.exclusive
        and "its nodes are kept from forerun's other jobs, not from other pods",
        "output": cloud and "`sky logs` shows it; the job's folder is not there",
        "requeues": cloud and spec.requeues and "they count with `sky jobs launch` alone",
    }
    return tuple(f"{name}: {why}" for name, why in found.items() if why)


def refuse(spec: JobSpec, target: Target) -> None:
    """InputError for what would make another job of it."""
    where = _NAMES[target]
    if spec.after:
        raise InputError("job, after", spec.after, f"none: {where} knows no order of jobs")
    if target != "job" and spec.array:
        what = "SkyPilot" if target == "skypilot" else "a PyTorchJob"
        raise InputError("job, array", spec.array, f"none for {what}")
    if target == "skypilot" and spec.hosts:
        raise InputError("job, hosts", ", ".join(spec.hosts), "none: a cloud gives what it has")
