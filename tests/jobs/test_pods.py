"""What runs in a pod: hostile strings in every field of a manifest, and the fixed script itself."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from forerun.errors import InputError
from forerun.jobs import pods
from forerun.jobs.manifests import job_manifest, pytorch_job_manifest, skypilot_task
from forerun.jobs.spec import Container, JobSpec, Staging
from forerun.jobs.targets import job_name

PLAIN = JobSpec("lenet", ("true",), "/shared/jobs/lenet", "0123456789abcdef" * 2)
IMAGE = Container("docker", "a")

# Strings that shells, YAML, Kubernetes or directives might take for more than that, a line each.
_LINES = r"""
$(touch canary)
`touch canary`
; touch canary;
&& touch canary
| touch canary
' ; touch canary ; '
" ; touch canary ; "
\'; touch canary
$(HOME)
$$(HOME)
$$$(HOME)
$HOME
${HOME}
$
$$
$$$
$(now)
$(
$()
$((1+1))
$(FORERUN_JOB)
$(A)$(A)
%(A)s
{{ 7*7 }}
{% raw %}
%s%n
!ls
!!
a: b
a: [b
- a
? a
{a: b}
[a, b]
&a b
*a
!!python/object:os.system x
| a
> a
# a
a # b
%YAML 1.1
---
...
@a
<<
=
~
null
true
False
yes
NO
on
y
1
01
0x1f
0o17
1e3
1_000
12:30:45
.5
.inf
.nan
+1
-1
2026-11-16
2026-11-16T12:00:00Z
0b11
1.
''
-
--
-f
--help
--all
../../etc/passwd
/etc/passwd
/
//
.
..
~root
a/b/../c
C:\x
\n
\
\\
a\
a'b
a"b
a''b
*
?
[a]
a=b
=a
a==b
a=b=c
a/b=c
a,b
a;b
a b
#SBATCH --wrap=x
#PBS -l x
EOF
${IFS}
$'\n'
$"a"
<(ls)
>canary
2>&1
&
naïve
日本語
🚀
""".strip().splitlines()
_UNPRINTABLE = "\n \r\n \t \0 \x1b[31m \x7f \x85 \u2028 \u2029 \ufeff \u202e \u200b \ud800 \u00a0"
_TRICKS = [
    *_LINES,
    *(f"a{one}touch canary" for one in _UNPRINTABLE.split(" ")),
    *("", " ", " lead", "trail ", "a" * 63, "a" * 64, "a" * 255, "b" * 4096),
]
STRINGS = list(
    dict.fromkeys(
        [*_TRICKS, *(f"x{one}" for one in _TRICKS[:60]), *(f"{x}x" for x in _TRICKS[:60])]
    )
)
BENIGN = "benign0token"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, but faster

FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "name": lambda text: {"name": text},
    "words": lambda text: {"words": ("echo", text)},
    "program": lambda text: {"words": (text,)},
    "folder": lambda text: {"folder": f"/{text}"},
    "uid": lambda text: {"uid": text},
    "directory": lambda text: {"directory": f"/{text}"},
    "environment": lambda text: {"environment": {"A": text}},
    "variable": lambda text: {"environment": {text: "1"}},
    "queue": lambda text: {"queue": text},
    "features": lambda text: {"features": (text,)},
    "feature's value": lambda text: {"features": (f"infra={text}",)},
    "hosts": lambda text: {"hosts": (text,)},
    "account": lambda text: {"account": text},
    "qos": lambda text: {"qos": text},
    "array": lambda text: {"array": text},
    "after": lambda text: {"after": text},
    "begin": lambda text: {"begin": text},
    "output": lambda text: {"output": text},
    "errors": lambda text: {"errors": text},
    "mail_to": lambda text: {"mail_to": text},
    "variables": lambda text: {"variables": (text,)},
    "prologue": lambda text: {"prologue": (("echo", text),)},
    "epilogue": lambda text: {"epilogue": (("echo", text),)},
    "source": lambda text: {"source": f"/{text}"},
    "build": lambda text: {"build": (("make", text),)},
    "staging from": lambda text: {"staging": Staging(f"/{text}", "/scratch")},
    "staging to": lambda text: {"staging": Staging("/somewhere", f"/{text}")},
    "image": lambda text: {"container": Container("docker", text)},
    "binds": lambda text: {"container": Container("docker", "a", (f"/{text}",))},
    "made_by": lambda text: {"made_by": (text,)},
}
TARGETS: dict[str, Callable[[JobSpec], str]] = {
    "job": job_manifest,
    "command": lambda spec: job_manifest(spec, record=False),
    "nodes": lambda spec: job_manifest(replace(spec, nodes=2, launcher="torchrun")),
    "pytorchjob": pytorch_job_manifest,
    "skypilot": skypilot_task,
}
# These take few forms, or become names and values of labels; see below.
FORMS = {"uid", "array", "after", "begin", "mail_to", "features", "feature's value"}
PATHS = {"folder", "directory", "binds", "staging from", "staging to"}
VARIABLES = dict.fromkeys(("HOME", "A", "now", "FORERUN_JOB", "", "touch canary"), "EXPANDED")


def kubelet(text: str, variables: dict[str, str]) -> str:
    """What Kubernetes makes of a word of a command or of a variable's value."""
    found, at = "", 0
    while at < len(text):
        if text[at] == "$" and text[at + 1 : at + 2] == "$":
            found, at = found + "$", at + 2
        elif text[at] == "$" and text[at + 1 : at + 2] == "(" and ")" in text[at:]:
            end = text.index(")", at)
            name = text[at + 2 : end]
            found, at = found + variables.get(name, f"$({name})"), end + 1
        else:
            found, at = found + text[at], at + 1
    return found


def documents(text: str) -> list[Any]:
    return list(yaml.load_all(text, Loader=LOADER))


Leaf = tuple[tuple[str, ...], Any]


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Every scalar with the names of the fields above it, and empty things."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from leaves(one, (*path, key))
    elif isinstance(value, list) and value:
        for n, one in enumerate(value):
            yield from leaves(one, (*path, str(n)))
    else:
        yield path, value


def taken(text: str) -> dict[tuple[str, ...], Any]:
    """Every scalar as it is taken in the end: by Kubernetes where it replaces, or by a shell."""
    found: dict[tuple[str, ...], Any] = {}
    for path, value in leaves(documents(text)):
        if path[-1] in ("run", "setup"):
            found[path] = tuple(shlex.split(value))
        elif isinstance(value, str) and ("command" in path or path[-1] == "value"):
            found[path] = kubelet(value, VARIABLES)
        else:
            found[path] = value
    return found


def with_hostile(value: Any, *changes: tuple[str, str]) -> Any:
    """What is taken when the benign string, and what is made of it, is replaced by another."""
    if isinstance(value, tuple):
        return tuple(with_hostile(one, *changes) for one in value)
    for before, after in changes:
        value = value.replace(before, after) if isinstance(value, str) else value
    return value


def without_volumes(found: dict[tuple[str, ...], Any]) -> dict[tuple[str, ...], Any]:
    """Volumes are in the order of their paths, and a path there is written in one way only."""
    volumes = {"volumes", "volumeMounts"}
    return {path: one for path, one in found.items() if not volumes & set(path)}


def test_there_are_enough_hostile_strings() -> None:
    assert len(STRINGS) >= 200


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("field", FIELDS)
def test_a_hostile_string_is_refused_or_stays_one_string(
    field: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target == "nodes" and field not in ("name", "words", "environment", "made_by"):
        return  # as for one node
    (tmp_path / "pod.sh").write_text("exit\n")  # the real one is read 30 000 times otherwise
    monkeypatch.setattr(pods, "SCRIPT", tmp_path / "pod.sh")
    write, change = TARGETS[target], FIELDS[field]
    base = replace(PLAIN, container=None if target == "skypilot" else IMAGE)
    benign = None
    if field not in FORMS and (target == "skypilot" or field not in ("source", "build")):
        try:
            benign = taken(write(replace(base, **change(BENIGN))))
        except InputError:
            assert (field, target) == ("hosts", "skypilot")
    refused = 0
    for text in STRINGS:
        try:
            spec = replace(base, **change(text))
            found = taken(write(spec))
        except InputError as error:
            refused += "\n" not in str(error)
            continue
        if field in FORMS:
            continue
        assert benign is not None, text
        own = (job_name(replace(spec, name=BENIGN)), job_name(spec))
        changes = [own, (BENIGN, text)] if field == "name" else [(BENIGN, text)]
        expected = dict(with_hostile(tuple(benign.items()), *changes))
        if field in PATHS:
            assert len(found) == len(expected), text
            found, expected = without_volumes(found), without_volumes(expected)
        assert found == expected, text
    assert refused >= 12  # those that cannot be printed, and one line for each


@pytest.mark.parametrize("target", ["job", "command", "pytorchjob"])
def test_features_become_labels_and_nothing_else(target: str) -> None:
    base = replace(PLAIN, container=IMAGE)
    bare = dict(leaves(documents(TARGETS[target](base))))
    kept = 0
    for text in STRINGS:
        try:
            made = documents(TARGETS[target](replace(base, features=(text,))))
        except InputError:
            continue
        kept += 1
        more = {(path[-2:], one) for path, one in leaves(made) if path not in bare}
        key, equals, value = text.partition("=")
        if equals:
            assert more == {(("nodeSelector", key), value)}
        else:
            assert more == {(("0", "key"), key), (("0", "operator"), "Exists")}
    assert kept >= 10


def test_a_cloud_is_asked_for_what_features_say() -> None:
    kept = 0
    for text in STRINGS:
        try:
            (task,) = documents(skypilot_task(replace(PLAIN, features=(f"infra={text}",))))
        except InputError:
            continue
        assert task["resources"] == {"infra": text, "labels": {"forerun-uid": PLAIN.uid}}
        kept += 1
    assert kept >= 10


def test_no_word_of_a_cloud_task_is_read_by_its_shell(tmp_path: Path) -> None:
    ran = 0
    for text in STRINGS:
        words = ("printf", "%s", text)
        try:
            spec = replace(PLAIN, words=words, prologue=(words,), epilogue=(words,), walltime=60.0)
        except InputError:
            continue
        (task,) = documents(skypilot_task(spec))
        bash = ["bash", "-c", task["run"]]
        done = subprocess.run(bash, cwd=tmp_path, capture_output=True, check=True)
        assert done.stdout.decode() == text * 3
        ran += 1
    assert ran > 180
    assert list(tmp_path.iterdir()) == []


def test_a_cloud_task_finds_the_first_of_its_nodes(tmp_path: Path) -> None:
    program = tmp_path / "torchrun"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    spec = replace(PLAIN, words=("python", "a b.py"), nodes=2, launcher="torchrun", processes=4)
    (task,) = documents(skypilot_task(spec))
    told = {
        "SKYPILOT_NUM_NODES": "2",
        "SKYPILOT_NODE_RANK": "1",
        "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    done = subprocess.run(["bash", "-c", task["run"]], env=told, capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == [
        *("--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1", "--master-port=29500"),
        *("--nproc-per-node=4", "--no-python", "python", "a b.py"),
    ]


class Pod:
    """The first pod of a job as a node would start it, but without its container."""

    def __init__(self, spec: JobSpec, index: int = 0) -> None:
        template = documents(job_manifest(replace(spec, container=IMAGE)))[-1]["spec"]["template"]
        (container,) = template["spec"]["containers"]
        fields = {
            "spec.nodeName": "n1",
            "metadata.annotations['batch.kubernetes.io/job-completion-index']": str(index),
        }
        told: dict[str, str] = {}
        for one in container["env"]:
            ref = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            told[one["name"]] = fields[ref] if ref else kubelet(one["value"], told)
        self.command = [kubelet(one, told) for one in container["command"]]
        self.environment = {"PATH": os.environ["PATH"], **told}
        self.directory = container["workingDir"]

    def start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.command,
            env=self.environment,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self) -> int:
        started = self.start()
        printed, errors = started.communicate(timeout=60)
        assert printed == errors == b""  # all of it is in the folder
        return started.returncode


@pytest.fixture
def spec(tmp_path: Path) -> JobSpec:
    (tmp_path / "job").mkdir()
    return replace(PLAIN, folder=str(tmp_path / "job"))


def attempt(spec: JobSpec, name: str = "1") -> dict[str, str]:
    lines = (Path(spec.folder) / "attempts" / name).read_text().splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def output(spec: JobSpec, name: str = "job.out") -> str:
    return (Path(spec.folder) / name).read_text()


def test_no_word_is_read_by_the_pods_shell(spec: JobSpec) -> None:
    ran = 0
    for text in STRINGS:
        words = ("printf", "%s", text)
        try:
            given = replace(
                spec, words=words, prologue=(words,), epilogue=(words,), environment={"now": text}
            )
        except InputError:
            continue
        pod = Pod(given)
        assert pod.environment["now"] == text
        assert pod.run() == 0
        assert output(spec) == text * 3
        ran += 1
        (Path(spec.folder) / "job.out").unlink()
    assert ran > 180
    assert not list(Path(spec.folder).parent.rglob("canary"))


@pytest.mark.parametrize("shell", [one for one in ("dash", "bash", "busybox") if shutil.which(one)])
def test_what_a_pod_keeps(shell: str, spec: JobSpec, tmp_path: Path) -> None:
    (tmp_path / "data" / "more").mkdir(parents=True)
    (tmp_path / "data" / "more" / "a b").write_text("numbers\n")
    given = replace(
        spec,
        words=("sh", "-c", 'cat "$FORERUN_DATA/more/a b"; echo wrong >&2; sleep 0.2; exit 3'),
        prologue=(("echo", "before"),),
        epilogue=(("false",), ("echo", "after")),
        staging=Staging(str(tmp_path / "data"), str(tmp_path / "fast" / "data")),
        errors="job.err",
    )
    pod = Pod(given)
    assert pod.command[0] == "/bin/sh"
    pod.command[:1] = [shell, "sh"] if shell == "busybox" else [shell]
    before = time.time()
    assert pod.run() == 3
    found = attempt(spec)
    assert output(spec) == "before\nnumbers\nafter\n"
    assert output(spec, "job.err") == "wrong\nepilogue: exit code 1\n"
    keys = ["job", "host", "nodes", "started", "staged", "begun", "done", "code", "ended"]
    assert list(found) == keys
    assert (found["job"], found["host"], found["nodes"]) == (job_name(spec), "n1", "n1")
    assert found["code"] == "3"
    times = [float(found[one]) for one in ("started", "begun", "done", "ended")]
    assert times == sorted(times)
    assert before - 1 <= times[0]
    assert times[-1] <= time.time()
    assert shell == "busybox" or times[2] - times[1] >= 0.19


def test_a_second_start_is_a_second_attempt(spec: JobSpec) -> None:
    assert [Pod(spec).run() for _ in range(2)] == [0, 0]
    assert attempt(spec, "2")["code"] == "0"
    assert output(spec) == ""


def test_tasks_and_nodes(spec: JobSpec) -> None:
    array = replace(spec, array="0-3", words=("sh", "-c", 'echo "task $FORERUN_TASK"'))
    assert Pod(array, index=2).run() == 0
    assert attempt(spec, "2.1")["code"] == "0"
    assert output(spec) == "task 2\n"
    nodes = replace(spec, nodes=2, words=("sh", "-c", 'echo "rank $FORERUN_NODE_RANK"'))
    assert [Pod(nodes, index=n).run() for n in range(2)] == [0, 0]
    assert output(spec) == "task 2\nrank 0\nrank 1\n"
    assert "nodes" not in attempt(spec)  # the first pod keeps the times, and knows no others
    kept = (Path(spec.folder) / "attempts").iterdir()
    assert sorted(one.name for one in kept) == ["1", "2.1"]


SAVES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit("saved"))
print("ready", flush=True)
time.sleep(60)
"""


def test_a_program_is_asked_to_save(spec: JobSpec, tmp_path: Path) -> None:
    program = tmp_path / "saves.py"
    program.write_text(SAVES)
    started = Pod(replace(spec, words=(sys.executable, str(program)))).start()
    limit = time.monotonic() + 20
    while not (Path(spec.folder) / "job.out").exists() or output(spec) != "ready\n":
        assert time.monotonic() < limit
        time.sleep(0.05)
    started.send_signal(signal.SIGTERM)
    started.communicate(timeout=20)
    assert started.returncode == 143  # not done, so that it may start again
    assert output(spec) == "ready\nsaved\n"
    found = attempt(spec)
    assert found["code"] == "1"
    assert float(found["begun"]) <= float(found["warned"]) <= float(found["done"])


def test_a_prologue_that_fails_ends_it(spec: JobSpec) -> None:
    given = replace(spec, prologue=(("sh", "-c", "exit 7"),), words=("echo", "never"))
    assert Pod(given).run() == 7
    assert output(spec) == ""
    assert list(attempt(spec)) == ["job", "host", "nodes", "started", "ended"]


WORKER = """
import os, sys
print(sys.argv[1][-10:], flush=True)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def test_the_worker_is_used_where_it_is(spec: JobSpec) -> None:
    (Path(spec.folder) / "worker.py").write_text(WORKER)
    assert Pod(replace(spec, words=("echo", "a b"))).run() == 0
    assert output(spec) == "attempts/1\na b\n"


def test_a_folder_that_is_not_there(spec: JobSpec, tmp_path: Path) -> None:
    pod = Pod(replace(spec, folder=str(tmp_path / "gone")))
    pod.directory = str(tmp_path)
    started = pod.start()
    _, errors = started.communicate(timeout=20)
    assert started.returncode != 0
    assert b"gone" in errors


def test_kubernetes_leaves_the_script_as_it_is() -> None:
    text = pods.SCRIPT.read_text(encoding="utf-8")
    assert "$$" not in text
    assert Pod(replace(PLAIN, environment={"now": "touch canary"})).command[2] == text
    if shutil.which("shellcheck"):
        # What `first` calls is not seen to be called.
        flags = ["--shell=sh", "--exclude=SC2317,SC2329"]
        subprocess.run(["shellcheck", *flags, str(pods.SCRIPT)], check=True)
