"""The back end of Kubernetes, against a strict stand-in for kubectl and its API server."""

import json
import random
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forerun.errors import InputError, JobError, RefusalError
from forerun.jobs import kubernetes
from forerun.jobs.backend import State, Submission, backend_of
from forerun.jobs.kubernetes import Kubernetes
from forerun.jobs.manifests import job_manifest, pytorch_job_manifest
from forerun.jobs.spec import Container, JobSpec

STANDIN = Path(__file__).with_name("kubectl_standin.py")
SPEC = JobSpec(
    name="lenet",
    words=("python", "train.py"),
    folder="/shared/jobs/lenet",
    uid="0123456789abcdef" * 2,
    container=Container("docker", "example.org/train:1"),
)
NAME = "lenet-0123456789abcdef"
CREATED = "2026-11-16T12:00:00Z"
STARTED = "2026-11-16T12:00:42Z"
BACKEND = Kubernetes()


class Cluster:
    """The objects of the stand-in, changed as a cluster would change them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pods = 0

    def names(self, kind: str) -> list[str]:
        return sorted(file.name.split(".")[1] for file in self.folder.glob(f"{kind}.*.json"))

    def change(self, name: str, change: Callable[[Any], None], kind: str = "Job") -> None:
        file = self.folder / f"{kind}.{name}.json"
        thing = json.loads(file.read_text())
        thing["metadata"]["creationTimestamp"] = CREATED
        change(thing)
        file.write_text(json.dumps(thing))

    def condition(self, name: str, kind: str, reason: str = "", message: str = "") -> None:
        told = {"type": kind, "status": "True", "reason": reason, "message": message}

        def change(thing: Any) -> None:
            thing["status"].setdefault("conditions", []).append(told)

        self.change(name, change, "PyTorchJob" if kind in ("Succeeded", "Running") else "Job")

    def pod(
        self,
        phase: str,
        container: dict[str, Any] | None = None,
        node: str | None = "n1",
        labels: dict[str, str] | None = None,
        uid: str = SPEC.uid,
        log: str = "",
        **status: Any,
    ) -> None:
        self.pods += 1
        statuses = (
            [] if container is None else [{"name": "main", "restartCount": 0, "state": container}]
        )
        labels = {"forerun/uid": uid, **(labels or {})}
        thing = {
            "metadata": {
                "name": f"pod-{self.pods}",
                "labels": labels,
                "creationTimestamp": f"2026-11-16T12:00:{self.pods:02}Z",
            },
            "spec": {} if node is None else {"nodeName": node},
            "status": {"phase": phase, "containerStatuses": statuses, **status},
            "log": log,
        }
        (self.folder / f"Pod.pod-{self.pods}.json").write_text(json.dumps(thing))

    def faults(self, *faults: str) -> None:
        (self.folder / "faults").write_text("\n".join(faults))

    def faults_left(self) -> int:
        return len((self.folder / "faults").read_text().split())


RUNNING = {"running": {"startedAt": STARTED}}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    times = {"startedAt": STARTED, "finishedAt": "2026-11-16T12:10:00Z"}
    return {"terminated": {"exitCode": code, "reason": reason, **times}}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STANDIN}" "$@"\n')
    program.chmod(0o755)
    folder = tmp_path / "cluster"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("FORERUN_TEST_CLUSTER", str(folder))
    monkeypatch.setattr(kubernetes, "PAUSE", 0.0)
    return Cluster(folder)


def submission(tmp_path: Path, spec: JobSpec = SPEC, text: str | None = None) -> Submission:
    folder = tmp_path / spec.uid
    folder.mkdir(exist_ok=True)
    script = folder / "job.yaml"
    script.write_text(text or job_manifest(spec))
    return Submission(spec.uid, spec.name, script)


def submitted(tmp_path: Path, spec: JobSpec = SPEC) -> str:
    return BACKEND.submit(submission(tmp_path, spec))


def test_the_table_of_back_ends_has_it() -> None:
    assert isinstance(backend_of("kubernetes"), Kubernetes)


def test_a_job_waits_runs_and_is_done(cluster: Cluster, tmp_path: Path) -> None:
    BACKEND.check()
    job = submitted(tmp_path)
    assert job == NAME
    assert BACKEND.state(job) == State("queued", "it has no pods yet")
    cluster.pod("Running", RUNNING)
    cluster.change(job, lambda _: None)
    assert BACKEND.state(job) == State("running", nodes=("n1",), starts=1, waited=42.0)
    (cluster.folder / "Pod.pod-1.json").unlink()
    cluster.pod("Succeeded", ended(0, "Completed"))
    cluster.condition(job, "Complete")
    state = BACKEND.state(job)
    assert state == State("done", nodes=("n1",), starts=1, exit_code=0, waited=42.0)
    assert state.has_ended


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (
            {
                "node": None,
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
                    }
                ],
            },
            "Unschedulable: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
        ),
        (
            {"container": {"waiting": {"reason": "ImagePullBackOff", "message": "no such\nimage"}}},
            "ImagePullBackOff: no such\\nimage",
        ),
        ({"container": {"waiting": {"reason": "ContainerCreating"}}}, "its pods are starting"),
    ],
)
def test_it_says_why_a_job_waits(
    pod: dict[str, Any], reason: str, cluster: Cluster, tmp_path: Path
) -> None:
    job = submitted(tmp_path)
    cluster.pod("Pending", **pod)
    state = BACKEND.state(job)
    assert (state.phase, state.reason, state.starts) == ("queued", reason, 0)


LOST = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
TAKEN = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize(
    ("pod", "phase", "reason", "code"),
    [
        ({"container": ended(3)}, "failed", "exit code 3", 3),
        ({"container": ended(137, "OOMKilled")}, "out_of_memory", "OOMKilled: on n1", 137),
        (
            {"container": ended(143), "reason": "DeadlineExceeded", "message": "active too long"},
            "timed_out",
            "DeadlineExceeded: active too long",
            143,
        ),
        (
            {"container": ended(137), "reason": "Evicted", "message": "low on resource: memory."},
            "out_of_memory",
            "Evicted: low on resource: memory.",
            137,
        ),
        ({"conditions": [LOST]}, "node_lost", "DeletionByTaintManager: n1", None),
        ({"reason": "NodeLost"}, "node_lost", "NodeLost: n1", None),
        ({"conditions": [TAKEN]}, "node_lost", "PreemptionByScheduler: n1", None),
    ],
)
def test_failures_are_told_apart(
    pod: dict[str, Any], phase: str, reason: str, code: int | None, cluster: Cluster, tmp_path: Path
) -> None:
    job = submitted(tmp_path)
    cluster.pod("Failed", **pod)
    cluster.condition(job, "Failed", "BackoffLimitExceeded", "Job has reached its limit")
    state = BACKEND.state(job)
    assert (state.phase, state.reason, state.exit_code) == (phase, reason, code)
    assert state.has_ended


@pytest.mark.parametrize(
    ("reason", "phase"), [("DeadlineExceeded", "timed_out"), ("BackoffLimitExceeded", "failed")]
)
def test_a_job_whose_pods_are_gone_is_told_by_its_object(
    reason: str, phase: str, cluster: Cluster, tmp_path: Path
) -> None:
    job = submitted(tmp_path)
    cluster.condition(job, "Failed", reason, "so it is")
    assert BACKEND.state(job) == State(phase, f"{reason}: so it is")  # type: ignore[arg-type]


def test_a_job_that_started_again_says_so(cluster: Cluster, tmp_path: Path) -> None:
    job = submitted(tmp_path, replace(SPEC, requeues=3))
    cluster.pod("Failed", ended(143), conditions=[LOST])
    cluster.pod("Running", RUNNING, node="n2")
    assert BACKEND.state(job).starts == 2
    assert BACKEND.state(job).nodes == ("n1", "n2")
    (cluster.folder / "Pod.pod-1.json").unlink()  # collected; the object has counted it

    def counted(thing: Any) -> None:
        thing["status"].update(failed=1, succeeded=1)

    cluster.change(job, counted)
    cluster.condition(job, "Complete")
    assert BACKEND.state(job).starts == 2


def test_several_nodes_are_one_start(cluster: Cluster, tmp_path: Path) -> None:
    job = submitted(tmp_path, replace(SPEC, nodes=2, launcher="torchrun"))
    assert cluster.names("Service") == [NAME]
    index = "batch.kubernetes.io/job-completion-index"
    cluster.pod("Running", RUNNING, labels={index: "0"})
    cluster.pod("Pending", labels={index: "1"}, node=None)
    state = BACKEND.state(job)
    assert (state.phase, state.reason) == ("running", "1 of its pods wait: its pods are starting")
    cluster.pod("Running", RUNNING, labels={index: "1"}, node="n2")
    assert BACKEND.state(job).starts == 1
    assert BACKEND.state(job).nodes == ("n1", "n2")


def test_of_several_pods_the_one_that_died_tells(cluster: Cluster, tmp_path: Path) -> None:
    job = submitted(tmp_path, replace(SPEC, nodes=2, launcher="torchrun"))
    index = "batch.kubernetes.io/job-completion-index"
    cluster.pod("Failed", ended(137, "OOMKilled"), labels={index: "0"})
    cluster.pod("Failed", ended(143), labels={index: "1"}, node="n2")
    cluster.condition(job, "Failed", "BackoffLimitExceeded")
    state = BACKEND.state(job)
    assert (state.phase, state.reason) == ("out_of_memory", "OOMKilled: on n1")


def test_of_several_starts_the_last_one_tells(cluster: Cluster, tmp_path: Path) -> None:
    job = submitted(tmp_path, replace(SPEC, requeues=1))
    cluster.pod("Failed", ended(143), conditions=[LOST])
    cluster.pod("Failed", ended(3), node="n2")
    cluster.condition(job, "Failed", "PodFailurePolicy")
    state = BACKEND.state(job)
    assert (state.phase, state.exit_code, state.starts) == ("failed", 3, 2)


def test_cancelling_ends_a_job_for_good(cluster: Cluster, tmp_path: Path) -> None:
    job = submitted(tmp_path)
    cluster.pod("Running", RUNNING)
    BACKEND.cancel(job)
    assert BACKEND.state(job) == State("cancelled", "cancelled by forerun")
    BACKEND.cancel(job)
    assert submitted(tmp_path) == job  # and it is not started again
    assert BACKEND.state(job).phase == "cancelled"


def test_a_job_with_pods_that_are_ending_is_not_cancelled_yet(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = submitted(tmp_path)
    BACKEND.cancel(job)
    cluster.pod("Running", RUNNING)
    state = BACKEND.state(job)
    assert (state.phase, state.reason) == ("running", "it is being cancelled")


def test_cancelling_leaves_what_has_ended(cluster: Cluster, tmp_path: Path) -> None:
    job = submitted(tmp_path)
    cluster.pod("Succeeded", ended(0, "Completed"))
    cluster.condition(job, "Complete")
    BACKEND.cancel(job)
    assert BACKEND.state(job).phase == "done"


def test_twice_is_one_job(cluster: Cluster, tmp_path: Path) -> None:
    for spec in (SPEC, replace(SPEC, uid="f" * 32, nodes=2, launcher="torchrun")):
        assert submitted(tmp_path, spec) == submitted(tmp_path, spec)
    assert cluster.names("Job") == [NAME, "lenet-" + "f" * 16]
    assert cluster.names("Service") == ["lenet-" + "f" * 16]


def test_the_name_of_another_job_is_not_taken(cluster: Cluster, tmp_path: Path) -> None:
    job = submitted(tmp_path)
    another = "0123456789abcdef" + "0" * 16  # the name is the same
    with pytest.raises(JobError, match=f"found another job {job}, expected a job with its own uid"):
        submitted(tmp_path, replace(SPEC, uid=another))
    assert cluster.names("Job") == [job]


def test_a_job_is_found_by_its_uid(cluster: Cluster, tmp_path: Path) -> None:
    assert BACKEND.find(SPEC.uid) is None
    job = submitted(tmp_path)
    assert BACKEND.find(SPEC.uid) == job
    assert BACKEND.find("f" * 32) is None
    with pytest.raises(InputError, match="expected 32 hexadecimal digits"):
        BACKEND.find("--all")
    assert cluster.names("Job") == [job]


def test_lost_replies_make_no_second_job(cluster: Cluster, tmp_path: Path) -> None:
    chance = random.Random(5)
    known: dict[str, str] = {}
    for _ in range(100):
        uid = f"{chance.getrandbits(128):032x}"
        given = submission(tmp_path, replace(SPEC, uid=uid))
        while uid not in known:
            cluster.faults(*chance.choices(["ok", "lost", "refused"], [1, 2, 1], k=3))
            try:
                known[uid] = BACKEND.submit(given)
            except JobError:
                cluster.faults()
                BACKEND.find(uid)
    cluster.faults()
    assert sorted(known.values()) == cluster.names("Job")
    assert len(cluster.names("Job")) == 100
    assert {BACKEND.find(uid) for uid in [*known][:3]} == {*[*known.values()][:3]}


def test_two_at_once_make_one_job(cluster: Cluster, tmp_path: Path) -> None:
    given = submission(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: BACKEND.submit(given), range(4)))
    assert found == [NAME] * 4
    assert cluster.names("Job") == [NAME]


def test_a_cluster_that_does_not_answer(cluster: Cluster, tmp_path: Path) -> None:
    cluster.faults("refused", "refused", "refused", "ok")
    expected = "expected a cluster that answers: kubectl config get-contexts, kubectl cluster-info"
    with pytest.raises(JobError, match=expected):
        submitted(tmp_path)
    assert cluster.faults_left() == 1
    cluster.faults("refused", "refused")
    for call in (BACKEND.check, lambda: BACKEND.state(NAME)):
        with pytest.raises(JobError, match="was refused"):
            call()


def test_a_user_who_may_not(cluster: Cluster, tmp_path: Path) -> None:
    (cluster.folder / "forbidden").touch()
    with pytest.raises(JobError, match="found a user who may not"):
        BACKEND.check()
    with pytest.raises(RefusalError, match="kubectl auth can-i create jobs"):
        submitted(tmp_path)


def test_what_kubectl_says_aside_is_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kubectl 1.30 says it where nothing listens."""
    said = (
        'E1116 18:23:41.051776    8351 memcache.go:265] "Unhandled Error" err="connection refused"',
        "Warning: the server doesn't have a resource type 'jobs'",
        "",
        "The connection to the server localhost:8080 was refused - did you specify the right host?",
    )
    (tmp_path / "said").write_text("\n".join(said))
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\ncat '{tmp_path}/said' >&2; exit 1\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    told = "found The connection to the server localhost:8080 was refused.*cluster that answers"
    with pytest.raises(JobError, match=told):
        BACKEND.check()


def test_no_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JobError, match="expected the program kubectl on the PATH"):
        BACKEND.check()
    with pytest.raises(JobError, match="expected the program kubectl on the PATH"):
        BACKEND.state(NAME)


def test_a_job_that_is_not_there(cluster: Cluster) -> None:
    assert BACKEND.state("lenet-1") == State(
        "unknown", "there is no job lenet-1 any more, or never was"
    )
    assert BACKEND.state("pytorchjob/lenet-1").phase == "unknown"
    BACKEND.cancel("lenet-1")
    assert BACKEND.logs("lenet-1") == ""
    assert cluster.names("Job") == []


@pytest.mark.parametrize("job", ["", "-f", "--all", "a b", "a\nb", "../x", "pods/x", "a" * 64])
def test_what_is_no_name_of_a_job_never_reaches_kubectl(job: str) -> None:
    with pytest.raises(InputError, match="expected the name of a job of Kubernetes"):
        BACKEND.state(job)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "a manifest in YAML"),
        ("kind: Secret", "one Job or PyTorchJob"),
        (job_manifest(SPEC) + "---\n" + job_manifest(SPEC), "one Job or PyTorchJob"),
        (job_manifest(replace(SPEC, uid="f" * 32)), f"the job with uid {SPEC.uid}"),
    ],
)
def test_a_manifest_that_is_not_the_jobs_is_refused(
    text: str, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=expected):
        BACKEND.submit(submission(tmp_path, text=text))


def test_what_the_cluster_does_not_know_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    text = job_manifest(SPEC).replace("backoffLimit:", "backofLimit:")
    with pytest.raises(JobError, match="unknown field"):
        BACKEND.submit(submission(tmp_path, text=text))
    assert cluster.names("Job") == []


def test_the_pods_logs(cluster: Cluster, tmp_path: Path) -> None:
    job = submitted(tmp_path)
    cluster.pod("Running", RUNNING, log="epoch 1")
    cluster.pod("Running", RUNNING, uid="f" * 32, log="not its own")
    assert BACKEND.logs(job) == "[pod/pod-1/main] epoch 1\n"


def test_a_cluster_has_no_queues() -> None:
    assert list(BACKEND.limits()) == []


def test_a_pytorch_job(cluster: Cluster, tmp_path: Path) -> None:
    spec = replace(SPEC, nodes=2, launcher="torchrun")
    given = submission(tmp_path, text=pytorch_job_manifest(spec))
    with pytest.raises(JobError, match="expected a cluster that has such objects"):
        BACKEND.submit(given)
    (cluster.folder / "operator").touch()
    job = BACKEND.submit(given)
    assert job == f"pytorchjob/{NAME}" == BACKEND.submit(given) == BACKEND.find(SPEC.uid)
    role, index = "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"
    cluster.pod("Running", RUNNING, labels={role: "master", index: "0"})
    cluster.pod("Running", RUNNING, labels={role: "worker", index: "0"}, node="n2")
    cluster.condition(NAME, "Running")
    state = BACKEND.state(job)
    assert (state.phase, state.starts, state.nodes) == ("running", 1, ("n1", "n2"))
    cluster.condition(NAME, "Succeeded")
    assert BACKEND.state(job).phase == "done"


def test_a_pytorch_job_is_cancelled(cluster: Cluster, tmp_path: Path) -> None:
    (cluster.folder / "operator").touch()
    job = BACKEND.submit(submission(tmp_path, text=pytorch_job_manifest(SPEC)))
    BACKEND.cancel(job)
    assert BACKEND.state(job) == State("cancelled", "cancelled by forerun")
