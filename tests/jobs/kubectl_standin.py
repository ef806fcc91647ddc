"""A strict stand-in for kubectl and its API server: it takes what forerun may send, no more.

Objects are JSON files in the folder FORERUN_TEST_CLUSTER, one for each, which tests change as a
cluster would. Unknown verbs, flags and fields are refused, and so is what an API server refuses of
names, labels, quantities and paths. A file `faults` there says what goes wrong, a line a call:
`ok`, `refused` (nothing is done) or `lost` (it is done, and the answer is not heard).
"""

import argparse
import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

CLUSTER = Path(os.environ["FORERUN_TEST_CLUSTER"])
KINDS = {"Job": "jobs.batch", "PyTorchJob": "pytorchjobs.kubeflow.org", "Service": "services"}
VERSIONS = {"Job": "batch/v1", "PyTorchJob": "kubeflow.org/v1", "Service": "v1"}
RESOURCES = {"job": "Job", "jobs": "Job", "pytorchjob": "PyTorchJob", "pods": "Pod"}
NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
QUANTITY = re.compile(r"[1-9][0-9]*(Ki|Mi|Gi)?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Types by field; a list is of such things, a set of texts a choice, ... means any texts by name.
Tree = Any
METADATA: Tree = {"name": str, "labels": ..., "annotations": ...}
POD: Tree = {
    "containers": [
        {
            "name": str,
            "image": str,
            "command": [str],
            "workingDir": str,
            "env": [{"name": str, "value": str, "valueFrom": {"fieldRef": {"fieldPath": str}}}],
            "resources": {"requests": ..., "limits": ...},
            "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool}],
            "securityContext": {
                "allowPrivilegeEscalation": bool,
                "runAsUser": int,
                "runAsGroup": int,
            },
        }
    ],
    "restartPolicy": {"Never"},
    "activeDeadlineSeconds": int,
    "terminationGracePeriodSeconds": int,
    "subdomain": str,
    "priorityClassName": str,
    "nodeSelector": ...,
    "automountServiceAccountToken": bool,
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": str, "operator": {"In", "Exists"}, "values": [str]}
                        ]
                    }
                ]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": ...}, "topologyKey": str}
            ]
        },
    },
    "volumes": [{"name": str, "hostPath": {"path": str, "type": {"Directory", "File"}}}],
}
TEMPLATE: Tree = {"metadata": {"labels": ..., "annotations": ...}, "spec": POD}
REPLICA: Tree = {"replicas": int, "restartPolicy": {"Never", "ExitCode"}, "template": TEMPLATE}
CODES: Tree = {"containerName": str, "operator": {"NotIn"}, "values": [int]}
SPECS: dict[str, Tree] = {
    "Job": {
        "template": TEMPLATE,
        "backoffLimit": int,
        "completions": int,
        "parallelism": int,
        "completionMode": {"Indexed"},
        "podFailurePolicy": {"rules": [{"action": {"FailJob"}, "onExitCodes": CODES}]},
    },
    "PyTorchJob": {
        "pytorchReplicaSpecs": {"Master": REPLICA, "Worker": REPLICA},
        "nprocPerNode": str,
        "runPolicy": {"backoffLimit": int, "cleanPodPolicy": {"None"}},
    },
    "Service": {"selector": ..., "clusterIP": {"None"}, "publishNotReadyAddresses": bool},
}


def main() -> None:
    verb, words = sys.argv[1], sys.argv[2:]
    fault = next_fault()
    if fault == "refused":
        fail("The connection to the server 127.0.0.1:6443 was refused - is the host right?")
    VERBS[verb](words)
    if fault == "lost":
        fail("Unable to connect to the server: EOF")
    print(OUTPUT, end="")


OUTPUT = ""


def say(text: str) -> None:
    global OUTPUT
    OUTPUT += f"{text}\n"


def fail(*lines: str) -> NoReturn:
    print(*lines, sep="\n", file=sys.stderr)
    sys.exit(1)


def next_fault() -> str:
    file = CLUSTER / "faults"
    if not file.exists():
        return "ok"
    first, _, rest = file.read_text().partition("\n")
    file.write_text(rest)
    return first or "ok"


def parser(*flags: str) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(allow_abbrev=False)
    for flag in flags:
        found.add_argument(f"--{flag}", required=True)
    found.add_argument("--request-timeout", required=True, choices=["30s"])
    return found


def auth(words: list[str]) -> None:
    found = parser()
    found.add_argument("question", nargs=3)
    assert found.parse_args(words).question == ["can-i", "create", "jobs.batch"]
    if (CLUSTER / "forbidden").exists():
        print("no")
        sys.exit(1)
    say("yes")


def create(words: list[str]) -> None:
    import yaml  # here, for most calls need none of it

    errors = []
    documents = list(
        yaml.safe_load_all(Path(parser("filename").parse_args(words).filename).read_text())
    )
    for one in documents:
        check_object(one)
    if (CLUSTER / "forbidden").exists():
        fail('Error from server (Forbidden): jobs.batch is forbidden: User "me" cannot create it')
    for one in documents:
        kind, name = one["kind"], one["metadata"]["name"]
        if kind == "PyTorchJob" and not (CLUSTER / "operator").exists():
            fail('error: no matches for kind "PyTorchJob" in version "kubeflow.org/v1"')
        file = CLUSTER / f"{kind}.{name}.json"
        one["metadata"]["creationTimestamp"] = now()
        one["status"] = {}
        try:
            with file.open("x") as opened:  # only one of two at once makes it
                json.dump(one, opened)
        except FileExistsError:
            what = f'{KINDS[kind]} "{name}" already exists'
            errors.append(
                f'Error from server (AlreadyExists): error when creating "job.yaml": {what}'
            )
            continue
        say(f"{KINDS[kind].replace('s.', '.', 1)}/{name} created")
    if errors:
        fail(*errors)


def get(words: list[str]) -> None:
    found = argparse.ArgumentParser(allow_abbrev=False, parents=[])
    found.add_argument("resource", choices=RESOURCES)
    found.add_argument("name", nargs="?")
    found.add_argument("--selector")
    found.add_argument("--output", required=True, choices=["json"])
    found.add_argument("--request-timeout", required=True, choices=["30s"])
    asked = found.parse_args(words)
    kind = RESOURCES[asked.resource]
    if kind == "PyTorchJob" and not (CLUSTER / "operator").exists():
        fail(f'error: the server doesn\'t have a resource type "{asked.resource}"')
    if asked.name:
        assert asked.selector is None
        say(json.dumps(one_object(kind, asked.name)))
        return
    key, value = asked.selector.split("=")
    assert KEY.fullmatch(key)
    assert LABEL.fullmatch(value)
    items = [json.loads(file.read_text()) for file in sorted(CLUSTER.glob(f"{kind}.*.json"))]
    items = [one for one in items if one["metadata"]["labels"].get(key) == value]
    say(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def one_object(kind: str, name: str) -> Any:
    file = CLUSTER / f"{kind}.{name}.json"
    if not file.exists():
        fail(f'Error from server (NotFound): {KINDS[kind]} "{name}" not found')
    return json.loads(file.read_text())


def patch(words: list[str]) -> None:
    found = parser("type", "patch")
    found.add_argument("resource", choices=["job", "pytorchjob"])
    found.add_argument("name")
    asked = found.parse_args(words)
    assert asked.type == "merge"
    kind = RESOURCES[asked.resource]
    thing = one_object(kind, asked.name)
    changes = json.loads(asked.patch)
    (note,) = changes["metadata"]["annotations"]
    thing["metadata"]["annotations"][note] = changes["metadata"]["annotations"][note]
    assert set(changes) == {"metadata", "spec"}
    assert set(changes["metadata"]) == {"annotations"}
    wanted = (
        {"suspend": True, "parallelism": 0} if kind == "Job" else {"runPolicy": {"suspend": True}}
    )
    assert changes["spec"] == wanted
    (CLUSTER / f"{kind}.{asked.name}.json").write_text(json.dumps(thing))
    # As the controller does with a job that is suspended: its pods are ended and deleted.
    for file in CLUSTER.glob("Pod.*.json"):
        labels = json.loads(file.read_text())["metadata"]["labels"]
        if labels["forerun/uid"] == thing["metadata"]["labels"]["forerun/uid"]:
            file.unlink()
    say(f"{KINDS[kind].replace('s.', '.', 1)}/{asked.name} patched")


def logs(words: list[str]) -> None:
    asked = parser("selector", "tail", "prefix").parse_args(words)
    assert (asked.tail, asked.prefix) == ("-1", "true")
    key, value = asked.selector.split("=")
    for file in sorted(CLUSTER.glob("Pod.*.json")):
        pod = json.loads(file.read_text())
        if pod["metadata"]["labels"].get(key) == value:
            say(f"[pod/{pod['metadata']['name']}/main] {pod['log']}")


def api_resources(words: list[str]) -> None:
    asked = parser("api-group", "output").parse_args(words)
    assert (asked.api_group, asked.output) == ("kubeflow.org", "name")
    if (CLUSTER / "operator").exists():
        say("pytorchjobs.kubeflow.org\ntfjobs.kubeflow.org")


VERBS = {
    "api-resources": api_resources,
    "auth": auth,
    "create": create,
    "get": get,
    "patch": patch,
    "logs": logs,
}


def check_object(thing: Any) -> None:
    kind = thing.get("kind")
    if kind not in KINDS or thing.get("apiVersion") != VERSIONS[kind]:
        refuse("kind", thing.get("kind"))
    tree = {"apiVersion": str, "kind": str, "metadata": METADATA, "spec": SPECS[kind]}
    check_fields(kind, thing, tree)
    name = thing["metadata"]["name"]
    if not NAME.fullmatch(name) or len(name) > 52:  # and the pods add to it
        refuse("metadata.name", name)
    check_labels(thing["metadata"]["labels"])
    if kind == "Job":
        body = thing["spec"]
        if body["completions"] > 1 and body.get("completionMode") != "Indexed":
            refuse("completionMode", None)
        check_pod(body["template"])
    for one in thing["spec"].get("pytorchReplicaSpecs", {}).values():
        check_pod(one["template"])


def check_fields(path: str, value: Any, tree: Tree) -> None:
    if tree is ...:
        right = isinstance(value, dict) and all(
            isinstance(x, str) for p in value.items() for x in p
        )
    elif isinstance(tree, set):
        right = value in tree
    elif isinstance(tree, type):
        right = type(value) is tree
    elif isinstance(tree, list):
        right = isinstance(value, list)
        for one in value if right else ():
            check_fields(f"{path}[]", one, tree[0])
    else:
        right = isinstance(value, dict)
        for key, one in value.items() if right else ():
            if key not in tree:
                fail(
                    f'Error from server (BadRequest): strict decoding error: unknown field "{key}"'
                )
            check_fields(f"{path}.{key}", one, tree[key])
    if not right:
        refuse(path, value)


def check_labels(labels: dict[str, str]) -> None:
    for key, value in labels.items():
        if not KEY.fullmatch(key) or not LABEL.fullmatch(value) or len(value) > 63:
            refuse("labels", {key: value})


def check_pod(template: Any) -> None:
    check_labels(template["metadata"]["labels"])
    pod = template["spec"]
    check_labels(pod.get("nodeSelector", {}))
    (container,) = pod["containers"]
    names = [one["name"] for one in container.get("env", [])]
    if len(set(names)) < len(names) or not all(map(VARIABLE.fullmatch, names)):
        refuse("env", names)
    for amount in container.get("resources", {}).get("limits", {}).values():
        if not QUANTITY.fullmatch(amount):
            refuse("limits", amount)
    mounts = {one["name"]: one["mountPath"] for one in container.get("volumeMounts", [])}
    paths = {one["name"]: one["hostPath"]["path"] for one in pod.get("volumes", [])}
    if mounts != paths or len(set(mounts.values())) < len(mounts):
        refuse("volumeMounts", mounts)
    for path in paths.values():
        if ":" in path or ".." in path.split("/") or not path.startswith("/"):
            refuse("mountPath", path)


def refuse(path: str, value: object) -> NoReturn:
    fail(f"Error from server (Invalid): {path}: Invalid value: {value!r}")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


main()
