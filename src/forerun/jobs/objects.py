"""The objects of Kubernetes that forerun writes, typed, and their YAML.

Fields have Kubernetes' names in Python's spelling (`backoff_limit`); what is None or empty is not
written. A text is only ever a scalar: no value of a job can become a field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

import yaml

# Written without quotes: what neither YAML 1.1 nor 1.2 can take for anything but a text. Parsers
# differ about 1e3, 0o17, 12:30 or y, so that all others are quoted.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*", re.ASCII)
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"})


class Block(str):
    """A text of several lines that forerun itself wrote, shown as such."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What an object is called."""

    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A field of the pod itself."""

    field_path: str


@dataclass(frozen=True, slots=True)
class ValueFrom:
    """Where a variable's value is taken from."""

    field_ref: FieldRef


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the environment. In its value `$(NAME)` is one that stands before it."""

    name: str
    value: str | None = None
    value_from: ValueFrom | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """What a container is promised, and may not exceed: the same, so that its time is its own."""

    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """Where a container sees a volume."""

    name: str
    mount_path: str
    read_only: bool | None = None


@dataclass(frozen=True, slots=True)
class HostPath:
    """A directory or a file of the node, which must be there."""

    path: str
    type: Literal["Directory", "File"]


@dataclass(frozen=True, slots=True)
class Volume:
    """A directory that containers may see."""

    name: str
    host_path: HostPath


@dataclass(frozen=True, slots=True)
class SecurityContext:
    """Who a container's processes are; without numbers, whom the image names."""

    allow_privilege_escalation: bool
    run_as_user: int | None = None
    run_as_group: int | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """An image, and what is run in it. `command` knows no shell, but `$(NAME)`."""

    name: str
    image: str
    command: Sequence[str]
    working_dir: str | None = None
    env: Sequence[Variable] = ()
    resources: Resources | None = None
    volume_mounts: Sequence[VolumeMount] = ()
    security_context: SecurityContext | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on labels."""

    key: str
    operator: Literal["In", "Exists"]
    values: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Conditions on the labels of nodes that must all hold."""

    match_expressions: Sequence[Requirement]


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Terms of which one must hold."""

    node_selector_terms: Sequence[NodeSelectorTerm]


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """Which nodes a pod may go to."""

    required_during_scheduling_ignored_during_execution: NodeSelector


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Pods with these labels."""

    match_labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """Pods, and how near is meant."""

    label_selector: LabelSelector
    topology_key: str


@dataclass(frozen=True, slots=True)
class PodAntiAffinity:
    """Which pods a pod may not be with."""

    required_during_scheduling_ignored_during_execution: Sequence[PodAffinityTerm]


@dataclass(frozen=True, slots=True)
class Affinity:
    """Where a pod may go."""

    node_affinity: NodeAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


@dataclass(frozen=True, slots=True)
class PodSpec:
    """What runs together on one node."""

    containers: Sequence[Container]
    restart_policy: Literal["Never"] | None = None
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    subdomain: str | None = None
    priority_class_name: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    automount_service_account_token: bool | None = None
    volumes: Sequence[Volume] = ()


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """Pods that are made of one mould."""

    metadata: Metadata
    spec: PodSpec


@dataclass(frozen=True, slots=True)
class ExitCodes:
    """Codes that a container ended with."""

    container_name: str
    operator: Literal["In", "NotIn"]
    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class FailureRule:
    """What is done where a pod ended with such a code."""

    action: Literal["FailJob"]
    on_exit_codes: ExitCodes


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """Which failures end a job, however often it may start again."""

    rules: Sequence[FailureRule]


@dataclass(frozen=True, slots=True)
class JobBody:
    """The spec of a Job."""

    template: PodTemplate
    backoff_limit: int
    completions: int = 1
    parallelism: int = 1
    completion_mode: Literal["Indexed"] | None = None
    pod_failure_policy: FailurePolicy | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A Job."""

    metadata: Metadata
    spec: JobBody
    api_version: str = "batch/v1"
    kind: str = "Job"


@dataclass(frozen=True, slots=True)
class ServiceBody:
    """The spec of a Service without an address: it gives each pod of a job a name."""

    selector: Mapping[str, str]
    cluster_ip: str = field(default="None", metadata={"key": "clusterIP"})
    publish_not_ready_addresses: bool = True


@dataclass(frozen=True, slots=True)
class Service:
    """A Service."""

    metadata: Metadata
    spec: ServiceBody
    api_version: str = "v1"
    kind: str = "Service"


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """When a PyTorchJob ends, and what is left of it."""

    backoff_limit: int
    clean_pod_policy: Literal["None"] = "None"


@dataclass(frozen=True, slots=True)
class Replica:
    """Pods of one role."""

    replicas: int
    restart_policy: Literal["Never", "ExitCode"]
    template: PodTemplate


@dataclass(frozen=True, slots=True)
class PyTorchBody:
    """The spec of a PyTorchJob."""

    pytorch_replica_specs: Mapping[str, Replica]
    nproc_per_node: str
    run_policy: RunPolicy


@dataclass(frozen=True, slots=True)
class PyTorchJob:
    """A PyTorchJob of Kubeflow's training operator."""

    metadata: Metadata
    spec: PyTorchBody
    api_version: str = "kubeflow.org/v1"
    kind: str = "PyTorchJob"


def plain(value: Any, spelled: Callable[[str], str] | None = None) -> Any:
    """Dictionaries, lists and scalars; `kind` and `apiVersion` first, as people expect them."""
    spelled = spelled or _camel
    if is_dataclass(value) and not isinstance(value, type):
        written = {
            one.metadata.get("key") or spelled(one.name): plain(getattr(value, one.name), spelled)
            for one in sorted(fields(value), key=lambda one: _FIRST.get(one.name, 2))
        }
        return {key: one for key, one in written.items() if one is not None and one not in ([], {})}
    if isinstance(value, Mapping):
        return {key: plain(one, spelled) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, spelled) for one in value]
    return value


_FIRST = {"api_version": 0, "kind": 1}


def dumped(
    documents: Iterable[Any],
    comments: Sequence[str],
    spelled: Callable[[str], str] | None = None,  # the names of fields; as Kubernetes has them
) -> str:
    """One YAML document each, under comments of one line each."""
    head = "".join(f"# {line}\n" for line in comments)
    return head + yaml.dump_all(
        [plain(one, spelled) for one in documents],
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=10**6,
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # each value stands where it is
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)


def _written(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _block(dumper: yaml.SafeDumper, text: Block) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")


_Dumper.add_representer(str, _written)
_Dumper.add_representer(Block, _block)
