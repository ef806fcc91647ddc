"""Manifests: golden files, real schemas, what is refused and what is said."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

import forerun
from forerun.errors import InputError
from forerun.jobs.manifests import job_manifest, left_out, pytorch_job_manifest, skypilot_task
from forerun.jobs.spec import Container, JobSpec, Staging
from forerun.jobs.targets import job_name

GOLDEN = Path(__file__).with_name("golden")
WRITE = "FORERUN_WRITE_GOLDEN" in os.environ
UID = "0123456789abcdef" * 2
IMAGE = Container("docker", "example.org/train:1", ("/data",))
PLAIN = JobSpec(
    "lenet", ("python", "train.py", "--batch", "32"), "/shared/jobs/lenet", UID, container=IMAGE
)
FULL = replace(
    PLAIN,
    name="ResNet_50+cifar",
    directory="/home/me/resnet",
    environment={"OMP_NUM_THREADS": "4", "XLA_FLAGS": "--xla_a=1 --xla_b=1e3"},
    processes=2,
    cores=4,
    accelerators=2,
    accelerator="nvidia",
    memory=16 * 2**30,
    walltime=3600.0,
    launcher="torchrun",
    features=("zone=a", "example.org/fast"),
    hosts=("n1", "n2"),
    exclusive=True,
    qos="high",
    errors="job.err",
    prologue=(("nvidia-smi",), ("echo", "it's $HOME")),
    epilogue=(("ls", "-l"),),
    staging=Staging("/data/cifar", "/scratch/cifar"),
    requeues=3,
    made_by=("forerun 0.1, plan 4f2a", "lenet on vm"),
)  # fmt: skip
NODES = replace(FULL, nodes=4)
CLOUD = replace(
    NODES, features=("infra=aws/us-east-1", "accelerator=A100"), hosts=(), build=(("make", "-j4"),)
)
CASES: dict[str, Callable[[], str]] = {
    "kubernetes-plain": lambda: job_manifest(PLAIN),
    "kubernetes-command": lambda: job_manifest(PLAIN, record=False),
    "kubernetes-full": lambda: job_manifest(FULL),
    "kubernetes-nodes": lambda: job_manifest(NODES),
    "kubernetes-array": lambda: job_manifest(replace(PLAIN, array="0-9%2"), record=False),
    "kubernetes-tensorflow": lambda: job_manifest(
        replace(PLAIN, nodes=2, launcher="tensorflow"), record=False
    ),
    "kubernetes-pytorch": lambda: pytorch_job_manifest(PLAIN),
    "kubernetes-pytorch-nodes": lambda: pytorch_job_manifest(NODES),
    "skypilot-plain": lambda: skypilot_task(PLAIN),
    "skypilot-nodes": lambda: skypilot_task(CLOUD),
}


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests, to whom the folder of each belongs, submits as this user."""
    assert tmp_path.is_dir()
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 100)


@pytest.mark.parametrize("case", CASES)
def test_manifests_are_as_they_were(case: str) -> None:
    """FORERUN_WRITE_GOLDEN=1 writes the files anew; read the difference before you keep it."""
    made = CASES[case]().replace(forerun.__version__, "VERSION")
    file = GOLDEN / f"{case}.yaml"
    if WRITE:
        file.write_text(made, encoding="utf-8")
    assert made == file.read_text(encoding="utf-8")


def documents(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


def check_real(document: Any) -> None:
    """Against the schemas of the oldest and the newest Kubernetes that forerun is meant for."""
    for version in ("1.29.0", kubernetes_validate.latest_version()):
        kubernetes_validate.validate(document, version, strict=True)


def nothing_more(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "additionalProperties": False}


# By the documentation of the training operator's v1 API, with what forerun may write and no more.
REPLICA = nothing_more(
    replicas={"type": "integer", "minimum": 1},
    restartPolicy={"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
    template={"type": "object"},
)
PYTORCH = nothing_more(
    apiVersion={"const": "kubeflow.org/v1"},
    kind={"const": "PyTorchJob"},
    metadata={"type": "object"},
    spec={
        **nothing_more(
            nprocPerNode={"type": "string", "pattern": "^([0-9]+|auto|cpu|gpu)$"},
            pytorchReplicaSpecs={
                **nothing_more(Master=REPLICA, Worker=REPLICA),
                "minProperties": 1,
            },
            runPolicy=nothing_more(
                activeDeadlineSeconds={"type": "integer"},
                backoffLimit={"type": "integer", "minimum": 0},
                cleanPodPolicy={"enum": ["All", "Running", "None"]},
                suspend={"type": "boolean"},
                ttlSecondsAfterFinished={"type": "integer"},
            ),
        ),
        "required": ["pytorchReplicaSpecs"],
    },
)
# By the documentation of SkyPilot's YAML.
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
SKYPILOT = nothing_more(
    name={"type": "string", "pattern": "^[a-zA-Z0-9]+(?:[._-]{1,2}[a-zA-Z0-9]+)*$"},
    workdir={"type": "string"},
    num_nodes={"type": "integer", "minimum": 1},
    resources=nothing_more(
        infra={"type": "string"},
        instance_type={"type": "string"},
        accelerators={"type": "string", "pattern": "^[A-Za-z0-9-]+:[0-9]+$"},
        cpus={"type": "string", "pattern": r"^[0-9]+\+?$"},
        memory={"type": "string", "pattern": r"^[0-9]+\+?$"},
        image_id={"type": "string", "pattern": "^docker:"},
        labels=TEXTS,
        job_recovery=nothing_more(
            strategy={"enum": ["FAILOVER", "EAGER_NEXT_REGION"]},
            max_restarts_on_errors={"type": "integer", "minimum": 0},
        ),
    ),
    envs=TEXTS,
    file_mounts=TEXTS,
    setup={"type": "string"},
    run={"type": "string"},
)


def check(document: Any) -> None:
    if "apiVersion" not in document:
        jsonschema.validate(document, SKYPILOT)
    elif document["kind"] == "PyTorchJob":
        jsonschema.validate(document, PYTORCH)
        for replica in document["spec"]["pytorchReplicaSpecs"].values():
            template = {**replica["template"], "metadata": {"name": "pod"}}
            (container,) = template["spec"]["containers"]
            assert container["name"] == "pytorch"  # as the operator wants it
            check_real({"apiVersion": "v1", "kind": "Pod", **template})
    else:
        check_real(document)


@pytest.mark.parametrize("case", CASES)
def test_manifests_keep_to_their_schemas(case: str) -> None:
    for document in documents(CASES[case]()):
        check(document)


def test_the_schemas_are_strict() -> None:
    (job,) = documents(job_manifest(PLAIN))
    job["spec"]["backofLimit"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        check(job)
    (task,) = documents(skypilot_task(PLAIN))
    with pytest.raises(jsonschema.ValidationError):
        check({**task, "nodes": 1})
    (job,) = documents(pytorch_job_manifest(PLAIN))
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["args"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        check(job)


def pod_of(text: str) -> Any:
    return documents(text)[-1]["spec"]["template"]["spec"]


def test_the_name_is_a_host_name_and_the_jobs_own() -> None:
    for name, slug in {
        "ResNet_50+cifar": "resnet-50-cifar",
        "50": "job-50",
        "_._": "job",
        "a" * 64: "a" * 30,
    }.items():
        spec = replace(PLAIN, name=name)
        assert job_name(spec) == f"{slug}-{UID[:16]}"
        assert len(f"{job_name(spec)}-worker-999999") <= 63
    assert job_name(PLAIN) != job_name(replace(PLAIN, uid="f" * 32))


def test_what_a_pod_may_use() -> None:
    (container,) = pod_of(job_manifest(FULL))["containers"]
    amounts = {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"}
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    amd = replace(FULL, accelerator="amd", memory=None, memory_per_core=3 * 2**20, cores=None)
    (container,) = pod_of(job_manifest(amd))["containers"]
    assert container["resources"]["limits"] == {"memory": "6Mi", "amd.com/gpu": "2"}


def test_times_and_starts() -> None:
    job = documents(job_manifest(replace(PLAIN, walltime=90.5)))[0]
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 91
    again = documents(job_manifest(FULL))[0]["spec"]
    assert again["backoffLimit"] == 3
    assert again["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [137, 143]
    # Each start has an hour, of which the last two minutes are for saving.
    assert again["template"]["spec"]["activeDeadlineSeconds"] == 3480
    assert again["template"]["spec"]["terminationGracePeriodSeconds"] == 120
    with pytest.raises(InputError, match="expected more than the warning of"):
        job_manifest(replace(FULL, walltime=60.0))


def test_where_a_pod_may_go() -> None:
    pod = pod_of(job_manifest(NODES))
    assert pod["nodeSelector"] == {"zone": "a"}
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [
        {"key": "example.org/fast", "operator": "Exists"},
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]},
    ]
    apart = pod_of(job_manifest(replace(PLAIN, nodes=2, launcher="torchrun")))["affinity"]
    (term,) = apart["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {"forerun/uid": UID}


def test_without_record_nothing_but_the_words_is_run() -> None:
    (container,) = pod_of(job_manifest(PLAIN, record=False))["containers"]
    assert container["command"] == ["python", "train.py", "--batch", "32"]
    assert [one["mountPath"] for one in container["volumeMounts"]] == ["/data"]


def test_frameworks_are_told_of_their_nodes() -> None:
    spec = replace(PLAIN, nodes=2, launcher="torchrun", processes=2)
    service, job = documents(job_manifest(spec, record=False))
    pod = job["spec"]["template"]["spec"]
    name = service["metadata"]["name"]
    assert name == pod["subdomain"] == job_name(spec)
    assert pod["containers"][0]["command"][:7] == [
        "torchrun",
        "--nnodes=2",
        "--node-rank=$(FORERUN_NODE_RANK)",
        f"--master-addr={name}-0.{name}",
        "--master-port=29500",
        "--nproc-per-node=2",
        "--no-python",
    ]
    (container,) = pod_of(CASES["kubernetes-tensorflow"]())["containers"]
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert [*told].index("FORERUN_NODE_RANK") < [*told].index("TF_CONFIG")
    name = job_name(PLAIN)
    assert json.loads(told["TF_CONFIG"].replace("$(FORERUN_NODE_RANK)", "1")) == {
        "cluster": {"worker": [f"{name}-0.{name}:29500", f"{name}-1.{name}:29500"]},
        "task": {"type": "worker", "index": 1},
    }
    one = replace(PLAIN, launcher="mpi", processes=4)
    (container,) = pod_of(job_manifest(one, record=False))["containers"]
    assert container["command"][:4] == ["mpirun", "-np", "4", "python"]


def test_variables_in_words_are_those_of_the_job() -> None:
    spec = replace(PLAIN, words=("echo", "${A}/$(A)$$"), environment={"A": "b"}, expand=True)
    (container,) = pod_of(job_manifest(spec, record=False))["containers"]
    assert container["command"][1] == "$(A)/$$(A)$$$"  # which Kubernetes makes b/$(A)$$ of
    with pytest.raises(InputError, match=r"found \$\{B\}, expected a variable of the job: A"):
        job_manifest(replace(spec, words=("echo", "${B}")))
    run = documents(skypilot_task(replace(spec, container=None)))[0]["run"]
    assert 'echo "${A}/\\$(A)\\$\\$" || code=$?\n' in run


def test_a_dollar_before_a_variable_is_a_dollar() -> None:
    spec = replace(PLAIN, words=("$${A}", "$$${A}$"), environment={"A": "b"}, expand=True)
    (container,) = pod_of(job_manifest(spec, record=False))["containers"]
    assert container["command"] == ["$$$(A)", "$$$$$(A)$"]  # which are $b and $$b$ to Kubernetes


def test_a_pod_is_whoever_submits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (container,) = pod_of(job_manifest(PLAIN))["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "runAsUser": 1000,
        "runAsGroup": 100,
    }
    monkeypatch.setattr(os, "getuid", lambda: 0)
    (container,) = pod_of(job_manifest(PLAIN))["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False}


def test_data_are_brought_to_a_directory_that_the_pod_makes(tmp_path: Path) -> None:
    file = tmp_path / "data.bin"
    file.write_text("")
    staging = Staging(str(file), "/scratch/forerun-1/.")
    bound = replace(IMAGE, binds=("/scratch/forerun-1",))  # as the job's container has it
    pod = pod_of(job_manifest(replace(PLAIN, staging=staging, container=bound)))
    volumes = {one["hostPath"]["path"]: one["hostPath"]["type"] for one in pod["volumes"]}
    assert volumes == {
        "/scratch": "Directory",
        "/shared/jobs/lenet": "Directory",
        str(file): "File",
    }
    assert pod["containers"][0]["command"][4:8] == ["stage", str(file), "/scratch/forerun-1", UID]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"container": None}, "an image, which Kubernetes runs everything in"),
        ({"container": Container("apptainer", "/images/train.sif")}, "a name in a registry"),
        ({"after": "42"}, "none: Kubernetes knows no order of jobs"),
        ({"array": "1-10"}, "on Kubernetes 0-9 or 0-9%2: from 0, one by one"),
        ({"array": "0-1", "nodes": 2}, "none on several nodes on Kubernetes"),
        ({"launcher": "mpi", "nodes": 2}, "1 with mpi on Kubernetes"),
        ({"launcher": "mxnet", "nodes": 2}, "1 with mxnet on Kubernetes"),
        ({"processes": 2}, "1 on Kubernetes, or torchrun or MPI"),
        ({"accelerators": 1}, "one of nvidia, amd, intel"),
        ({"build": (("make",),)}, "an image that holds the program"),
        ({"features": ("a=1", "a=2")}, "one value for a"),
        ({"qos": "High_1"}, "the name of a priority class on Kubernetes"),
        ({"directory": "/a/../b"}, "an absolute path below /, without .. and : on Kubernetes"),
        ({"directory": "/."}, "an absolute path below /, without .. and : on Kubernetes"),
        ({"folder": "/./"}, "an absolute path below /, without .. and : on Kubernetes"),
        ({"staging": Staging("/a", "/scratch")}, "an absolute path below /"),
        ({"output": "/etc/motd"}, "a file in the job's folder on Kubernetes"),
        ({"errors": "../job.err"}, "a file in the job's folder on Kubernetes"),
        ({"environment": {"FORERUN_FOLDER": "/"}}, "a name that forerun does not set itself"),
    ],
)
def test_what_would_be_another_job_is_refused(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as error:
        job_manifest(replace(PLAIN, **change))
    assert f"expected {expected}" in str(error.value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"launcher": "tensorflow"}, "plain or torchrun for a PyTorchJob"),
        ({"array": "0-9"}, "none for a PyTorchJob"),
        ({"processes": 2}, "1, or torchrun"),
    ],
)
def test_what_a_pytorch_job_cannot_be(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=f"expected {expected}"):
        pytorch_job_manifest(replace(PLAIN, **change))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"hosts": ("n1",)}, "none: a cloud gives what it has"),
        ({"array": "0-9"}, "none for SkyPilot"),
        ({"after": "42"}, "none: SkyPilot knows no order of jobs"),
        ({"features": ("fast",)}, "infra=…, instance_type=… or accelerator=…"),
        ({"accelerators": 1, "accelerator": "nvidia"}, "the cloud's name of it as a feature"),
        ({"environment": {"A": "$B"}}, 'a text without " $ ` \\ and ! for SkyPilot'),
        ({"launcher": "mpi", "nodes": 2}, "1 with mpi for SkyPilot"),
        ({"processes": 2}, "1, or torchrun, for SkyPilot"),
        ({"directory": "/a", "source": "/b"}, "nothing beside a directory for SkyPilot"),
    ],
)
def test_what_a_cloud_cannot_do_is_refused(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as error:
        skypilot_task(replace(PLAIN, **change))
    assert f"expected {expected}" in str(error.value)


def test_what_is_left_out_is_said() -> None:
    spec = replace(
        PLAIN,
        queue="long",
        account="physics",
        qos="high",
        begin="2027-01-31T18:00",
        mail_to="me@example.org",
        mail_on=("end",),
        copy_environment=True,
        variables=("HOME",),
        exclusive=True,
        requeues=1,
    )
    assert left_out(PLAIN, "job") == ()
    assert left_out(spec, "job") == (
        "queue: Kubernetes has no queues by itself",
        "account: Kubernetes keeps no accounts",
        "begin: it starts as soon as there is room",
        "mail: nobody is written to",
        "copy_environment: name variables with their values instead",
        "variables: give them values instead",
        "exclusive: its nodes are kept from forerun's other jobs, not from other pods",
    )
    cloud = left_out(spec, "skypilot")
    assert {one.split(":")[0] for one in cloud} == {
        *("queue", "account", "qos", "begin", "mail", "copy_environment", "variables"),
        *("output", "requeues"),
    }
    for line in cloud:
        assert f"# Left out: {line}\n" in skypilot_task(spec)


def test_numbers_are_texts_where_texts_are_meant() -> None:
    """YAML 1.2 takes 1e3 and 0o17 for numbers, YAML 1.1 y and 12:30 for others: all are quoted."""
    for text in ("1e3", "0o17", "y", "12:30", "null", "~", "1_000", ".5", "=", "<<", "0x1f"):
        made = job_manifest(replace(PLAIN, environment={"A": text}))
        assert f'value: "{text}"\n' in made
