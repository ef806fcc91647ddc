"""Jobs on Kubernetes, through `kubectl` and the context that it is set to.

The name of a job's object is made from its uid, and two objects cannot have one name: whoever loses
the answer to a submission may submit again. Cancelling suspends a job, which ends its pods, and
leaves its object, so that it can be told what became of it and that it is never started again.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from forerun.errors import InputError, JobError, RefusalError, one_line
from forerun.jobs.asking import Answer, ask
from forerun.jobs.backend import Limit, State, Submission
from forerun.jobs.lives import CANCELLED, state_of
from forerun.jobs.pods import UID
from forerun.jobs.spec import UID as UID_FORM
from forerun.jobs.traces import told_by_folder

REQUEST = 30  # seconds that the cluster may take to answer
ANSWER = 90  # seconds that kubectl may take
TRIES = 3
PAUSE = 1.0  # seconds between them
LARGEST = 2**20  # bytes of a manifest
_JOB = re.compile(r"(?:(pytorchjob)/)?([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)", re.ASCII)
_KINDS = {"Job": ("job", ""), "PyTorchJob": ("pytorchjob", "pytorchjob/")}
_NONE = re.compile(r"\(NotFound\)|doesn't have a resource type", re.ASCII)
# What a cluster says of a request that would fail again.
_REFUSED = re.compile(
    r"\((?:Forbidden|Invalid|BadRequest|Unauthorized|NotFound|MethodNotAllowed)\)"
    r"|doesn't have a resource type|no matches for kind|error (?:parsing|validating)"
    r"|strict decoding error|denied the request",
    re.ASCII,
)
_ASIDE = re.compile(r"[EWI]\d{4} |Warning:")  # lines that kubectl has for its own makers
# What to do next, by what kubectl says.
_NEXT = {
    r"\(Forbidden\)|\(Unauthorized\)|must be logged in": (
        "a user who may: kubectl auth can-i create jobs"
    ),
    r"refused|Unable to connect|no configuration|timed? ?out|EOF|no such host": (
        "a cluster that answers: kubectl config get-contexts, kubectl cluster-info"
    ),
    # A cluster that does not answer has no kinds of objects either, so this comes after it.
    r"no matches for kind|doesn't have a resource type": "a cluster that has such objects",
    r"\(NotFound\)": "a job or a namespace that is there: kubectl get jobs",
}


class Kubernetes:
    """The cluster that `kubectl` speaks to; jobs are of its current context and namespace."""

    name = "kubernetes"

    def check(self) -> None:
        """InputError where there is no kubectl, or no cluster answers it."""
        answer = _kubectl("auth", "can-i", "create", "jobs.batch")
        if answer.output.strip() == "no":
            raise JobError("kubernetes", "a user who may not", "one who may create jobs there")
        if answer.code:
            raise _error("auth can-i", answer)

    def submit(self, submission: Submission) -> str:
        """Create the objects of a manifest; they are there once, however often this is called."""
        kind, name = _manifest(submission)
        resource, prefix = _KINDS[kind]
        for turn in range(TRIES):
            time.sleep(PAUSE if turn else 0)
            answer = _kubectl("create", f"--filename={submission.script}")
            lines = answer.errors.strip().splitlines()
            errors = [one for one in lines if not one.startswith("Warning:")]
            others = [one for one in errors if "(AlreadyExists)" not in one]
            if answer.code == 0 or (errors and not others):
                break
            if _REFUSED.search(answer.errors):
                raise _error("create", answer, RefusalError)
        else:
            raise _error("create", answer)
        if answer.code:
            self._own(resource, name, submission.uid)
        return prefix + name

    def find(self, uid: str) -> str | None:
        """The job with a uid."""
        if not UID_FORM.fullmatch(uid):
            raise InputError("job, uid", uid, "32 hexadecimal digits")
        for resource, prefix in _KINDS.values():
            found = _items(resource, uid)
            if found:
                return prefix + str(_of(found[0], "metadata", "name"))
        return None

    def state(self, job: str, folder: Path | None = None) -> State:
        """What has become of a job; where its object was deleted, what its folder tells."""
        resource, name = _job(job)
        found = _get(resource, name)
        if found is None:
            told = told_by_folder(folder)
            reason = f"there is no {resource} {name} any more, or never was"
            return told if told.has_ended else State("unknown", reason)
        uid = _of(found, "metadata", "labels", UID)
        pods = _items("pods", uid) if isinstance(uid, str) and UID_FORM.fullmatch(uid) else []
        return state_of(found, pods)

    def cancel(self, job: str) -> None:
        """Suspend it. Nothing that unsuspends jobs, as queues do, lets it have pods again."""
        resource, name = _job(job)
        if self.state(job).has_ended:
            return
        note = {"metadata": {"annotations": {CANCELLED: datetime.now(UTC).isoformat()}}}
        end = {"suspend": True}
        spec = {**end, "parallelism": 0} if resource == "job" else {"runPolicy": end}
        patch = json.dumps({**note, "spec": spec})
        answer = _kubectl("patch", resource, name, "--type=merge", f"--patch={patch}")
        if answer.code and not _NONE.search(answer.errors):
            raise _error("patch", answer)

    def logs(self, job: str) -> str:
        """What its pods printed that is not in the job's folder: why they could not write there."""
        resource, name = _job(job)
        found = _get(resource, name)
        uid = _of(found, "metadata", "labels", UID)
        if not isinstance(uid, str) or not UID_FORM.fullmatch(uid):
            return ""
        answer = _kubectl("logs", f"--selector={UID}={uid}", "--tail=-1", "--prefix=true")
        if answer.code:
            raise _error("logs", answer)
        return answer.output

    def limits(self) -> Sequence[Limit]:
        """None that are known: a cluster has no queues, and quotas are of all jobs together."""
        return ()

    def _own(self, resource: str, name: str, uid: str) -> None:
        """JobError where the object of this name is not the job's."""
        found = _get(resource, name)
        if _of(found, "metadata", "annotations", UID) != uid:
            raise JobError(
                "kubernetes, create", f"another {resource} {name}", "a job with its own uid"
            )


def _manifest(submission: Submission) -> tuple[str, str]:
    """The kind and the name of the job in a manifest; InputError where it is not this one's."""
    path = Path(submission.script)
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(str(path), "a large file", f"at most {LARGEST} bytes")
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(str(path), type(error).__name__, "a manifest in YAML") from None
    jobs = [one for one in documents if _of(one, "kind") in _KINDS]
    if len(jobs) != 1:
        raise InputError(str(path), f"{len(jobs)} jobs", "one Job or PyTorchJob")
    if _of(jobs[0], "metadata", "annotations", UID) != submission.uid:
        raise InputError(str(path), "another uid", f"the job with uid {submission.uid}")
    name = str(_of(jobs[0], "metadata", "name"))
    if not _JOB.fullmatch(name):
        raise InputError(str(path), name, "the name of a job")
    return str(jobs[0]["kind"]), name


def _job(job: str) -> tuple[str, str]:
    match = _JOB.fullmatch(job)
    if match is None:
        raise InputError("job", job, "the name of a job of Kubernetes")
    return match[1] or "job", match[2]


def _get(resource: str, name: str) -> Mapping[str, Any] | None:
    answer = _kubectl("get", resource, name, "--output=json")
    if answer.code:
        if _NONE.search(answer.errors):
            return None
        raise _error(f"get {resource}", answer)
    return _read(f"get {resource}", answer.output)


def _items(resource: str, uid: str) -> list[Mapping[str, Any]]:
    answer = _kubectl("get", resource, f"--selector={UID}={uid}", "--output=json")
    if answer.code:
        if _NONE.search(answer.errors):
            return []  # its operator is not there
        raise _error(f"get {resource}", answer)
    found = _read(f"get {resource}", answer.output).get("items")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _read(what: str, text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        raise JobError(f"kubernetes, {what}", text, "an object in JSON")
    return found


def _of(thing: Any, *keys: str) -> Any:
    for key in keys:
        if not isinstance(thing, Mapping):
            return None
        thing = thing.get(key)
    return thing


def has_pytorch_jobs() -> bool:
    """Whether Kubeflow's training operator is there; where nobody answers, a Job does as well."""
    try:
        answer = _kubectl("api-resources", "--api-group=kubeflow.org", "--output=name")
    except JobError:
        return False
    return "pytorchjobs.kubeflow.org" in answer.output.split()


def _kubectl(verb: str, *words: str) -> Answer:
    if shutil.which("kubectl") is None:
        raise JobError("kubernetes", "no kubectl", "the program kubectl on the PATH")
    asked = ["kubectl", verb, *words, f"--request-timeout={REQUEST}s"]
    answer = ask(asked, seconds=ANSWER)
    if answer.code is None:
        return Answer(1, "", f"kubectl timed out after {ANSWER} s")
    return answer


def _error(what: str, answer: Answer, kind: type[JobError] = JobError) -> JobError:
    lines = [one for one in answer.errors.splitlines() if one.strip() and not _ASIDE.match(one)]
    text = " ".join(lines) or answer.output.strip() or f"exit code {answer.code}"
    said = one_line(text)
    expected = (todo for form, todo in _NEXT.items() if re.search(form, answer.errors))
    return kind(f"kubernetes, {what}", said, next(expected, "what the cluster takes"))
