"""What has become of a job of Kubernetes, read from its object and its pods.

An object says that it failed, a pod how: with an exit code, for want of memory, at its deadline or
with its node. What is read here was written by a cluster: nothing in it is taken for granted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from forerun.errors import one_line
from forerun.jobs.backend import Phase, State

CANCELLED = "forerun/cancelled"  # an annotation: who ended the job was forerun
ENDED_BY_TERM = 143  # an exit code
LONGEST = 200  # characters of a message that a reason quotes
# Why Kubernetes itself ended a pod, of the condition DisruptionTarget.
_LOST = {"DeletionByTaintManager", "DeletionByPodGC", "DeletionByNodeLifecycleController"}
_LOST_PODS = {"NodeLost", "NodeShutdown", "Shutdown", "Terminated", "UnexpectedAdmissionError"}
_TAKEN = {"PreemptionByScheduler", "PreemptionByKubeScheduler", "EvictionByEvictionAPI"}
_STARTING = {"ContainerCreating", "PodInitializing"}
_INDICES = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/replica-index",
)


def state_of(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> State:
    """The state of a Job or a PyTorchJob, by its object and the pods that are left of it."""
    pods = sorted(pods, key=_created)
    starts = _starts(job, pods)
    nodes = tuple(sorted({_text(_of(one, "spec", "nodeName")) for one in pods} - {""}))
    known: dict[str, Any] = {"nodes": nodes, "starts": starts, "waited": _waited(job, pods)}
    conditions = _conditions(job)
    if "Complete" in conditions or "Succeeded" in conditions:
        return State("done", exit_code=0, **known)
    if _of(job, "metadata", "annotations", CANCELLED) is not None:
        if any(map(_is_alive, pods)):
            return State("running", "it is being cancelled", **known)
        return State("cancelled", "cancelled by forerun", **known)
    if "Failed" in conditions:
        phase, reason, code = _ended(conditions["Failed"], pods)
        return State(phase, reason, exit_code=code, **known)
    if any(_phase(one) == "Running" and _runs(one) for one in pods):
        pending = [one for one in pods if _phase(one) == "Pending"]
        reason = f"{len(pending)} of its pods wait: {_waits({}, pending)}" if pending else ""
        return State("running", reason, **known)
    return State("queued", _waits(conditions, pods), **known)


def _ended(
    failed: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]
) -> tuple[Phase, str, int | None]:
    """How it failed: by the last pod of each index that tells, or by what is said of the whole.

    Of several, one that says more than an exit code: when a pod dies, the others are ended.
    """
    last: dict[str, tuple[Phase, str, int | None]] = {}
    for pod in pods:
        if _phase(pod) in ("Failed", "Unknown") and (found := _failure(pod)):
            last[_index(pod)] = found
    if last:
        return min(last.values(), key=lambda one: (one[0] == "failed", one[2] == ENDED_BY_TERM))
    reason, message = _text(failed.get("reason")), _text(failed.get("message"))
    if reason == "DeadlineExceeded":
        return "timed_out", _reason("DeadlineExceeded", message), None
    return "failed", _reason(reason, message), None


def _failure(pod: Mapping[str, Any]) -> tuple[Phase, str, int | None] | None:
    """How a pod failed; None where it did not, or nobody knows how."""
    reason = _text(_of(pod, "status", "reason"))
    message = _text(_of(pod, "status", "message"))
    node = _text(_of(pod, "spec", "nodeName"))
    disruption = _conditions(pod).get("DisruptionTarget", {})
    why = _text(disruption.get("reason"))
    codes = [one for one in _codes(pod) if _text(one.get("reason")) != "Completed"]
    code = next((_count(one.get("exitCode")) for one in codes), None)
    if any(_text(one.get("reason")) == "OOMKilled" for one in codes):
        return "out_of_memory", _reason("OOMKilled", f"on {node}" if node else ""), code
    if reason == "DeadlineExceeded":
        return "timed_out", _reason(reason, message), code
    if reason == "Evicted" and "memory" in message:
        return "out_of_memory", _reason(reason, message), code
    if reason in _LOST_PODS or why in _LOST or _phase(pod) == "Unknown":
        return "node_lost", _reason(why or reason, node), code
    if why in _TAKEN or reason in ("Evicted", "Preempting"):
        return "node_lost", _reason(why or reason, message or node), code
    for one in codes:
        ending = f"exit code {code}" if code is not None else _text(one.get("reason"))
        return "failed", _reason(ending, _text(one.get("message"))), code
    return None


def _waits(conditions: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
    """Why nothing runs yet."""
    if "Suspended" in conditions:
        return _reason("Suspended", _text(conditions["Suspended"].get("message")))
    for pod in reversed(pods):
        for one in _containers(pod):
            waiting = _of(one, "state", "waiting")
            reason = _text(_of(waiting, "reason"))
            if reason and reason not in _STARTING:
                return _reason(reason, _text(_of(waiting, "message")))
        unscheduled = _false(pod, "PodScheduled")
        if unscheduled:
            return _reason(_text(unscheduled.get("reason")), _text(unscheduled.get("message")))
    return "its pods are starting" if pods else "it has no pods yet"


def _starts(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> int:
    """How often it has been started: of the pod of one index, and the most of all indices."""
    found: dict[str, int] = {}
    for pod in pods:
        if not any(True for one in _containers(pod) if _begun(one)):
            continue
        restarts = max(
            (_count(one.get("restartCount")) or 0 for one in _containers(pod)), default=0
        )
        found[_index(pod)] = found.get(_index(pod), 0) + 1 + restarts
    status = _of(job, "status")
    several = (_count(_of(job, "spec", "completions")) or 1) > 1
    counted = sum(_count(_of(status, one)) or 0 for one in ("failed", "succeeded"))
    # Pods may be gone, but the object has counted those that ended.
    return max([*found.values(), 0 if several else counted])


def _index(pod: Mapping[str, Any]) -> str:
    """Which of the pods that do one thing together it is; one that replaces another has its."""
    labels = _of(pod, "metadata", "labels")
    return "/".join(_text(_of(labels, one)) for one in _INDICES)


def _waited(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> float | None:
    created = _time(_of(job, "metadata", "creationTimestamp"))
    begun = [time for pod in pods for one in _containers(pod) if (time := _begun(one))]
    if created is None or not begun:
        return None
    return max(0.0, (min(begun) - created).total_seconds())


def _begun(container: Mapping[str, Any]) -> datetime | None:
    states = (_of(container, one) for one in ("lastState", "state"))
    times = (
        _time(_of(one, kind, "startedAt")) for one in states for kind in ("terminated", "running")
    )
    return next((one for one in times if one), None)


def _codes(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What is said of the containers that have ended."""
    found = (_of(one, "state", "terminated") for one in _containers(pod))
    return [one for one in found if isinstance(one, Mapping)]


def _runs(pod: Mapping[str, Any]) -> bool:
    return any(_of(one, "state", "running") is not None for one in _containers(pod))


def _is_alive(pod: Mapping[str, Any]) -> bool:
    return _phase(pod) in ("Pending", "Running")


def _phase(pod: Mapping[str, Any]) -> str:
    return _text(_of(pod, "status", "phase"))


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = _of(pod, "status", "containerStatuses")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _conditions(thing: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The conditions that hold, by their type."""
    return {_text(one.get("type")): one for one in _all(thing) if one.get("status") == "True"}


def _false(thing: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    found = (one for one in _all(thing) if one.get("type") == name)
    return next((one for one in found if one.get("status") == "False"), None)


def _all(thing: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    found = _of(thing, "status", "conditions")
    return (one for one in (found if isinstance(found, list) else ()) if isinstance(one, Mapping))


def _created(pod: Mapping[str, Any]) -> str:
    return _text(_of(pod, "metadata", "creationTimestamp"))


def _of(thing: Any, *keys: str) -> Any:
    for key in keys:
        if not isinstance(thing, Mapping):
            return None
        thing = thing.get(key)
    return thing


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time(value: Any) -> datetime | None:
    """A time such as 2026-11-16T12:00:00Z, always of UTC."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", _text(value)):
        return None
    try:
        return datetime.fromisoformat(f"{value[:19]}+00:00")
    except ValueError:
        return None


def _reason(*parts: str) -> str:
    return one_line(": ".join(filter(None, parts)))[:LONGEST]
