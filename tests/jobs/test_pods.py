"""What runs in a pod: hostile strings in every field of a manifest, and the fixed script itself."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hostile import CANARY, COMMANDS, TOUCH
from hostile import STRINGS as FOR_SHELLS
from patience import ENDLESS, LONG, wait_for

from forerun.errors import InputError
from forerun.jobs import objects, pods, skypilot
from forerun.jobs.manifests import job_manifest, pytorch_job_manifest, skypilot_task
from forerun.jobs.spec import Container, JobSpec, Staging
from forerun.jobs.targets import job_name

PLAIN = JobSpec("lenet", ("true",), "/shared/jobs/lenet", "0123456789abcdef" * 2)
IMAGE = Container("docker", "a")

# What YAML or Kubernetes might take for more than a text, a line each; shells have theirs already.
_LINES = r"""
$(HOME)
$$(HOME)
$$$(HOME)
$$$
$(now)
$(
$()
$(FORERUN_JOB)
$(A)$(A)
a: [b
? a
{a: b}
[a, b]
| a
> a
a # b
%YAML 1.1
---
...
<<
False
yes
NO
y
1
01
0o17
1e3
1_000
12:30:45
.5
.inf
+1
2026-11-16
2026-11-16T12:00:00Z
0b11
1.
''
//
a/b/../c
./.
\n
a\
a=b=c
a/b=c
naïve
日本語
""".strip().splitlines()
STRINGS = list(
    dict.fromkeys([*FOR_SHELLS, *_LINES, *("", " ", " lead", "trail ", "a" * 63, "a" * 64)])
)
# What a job may hold at all: one printable line.
LINES = [text for text in STRINGS if text.isprintable()]
BENIGN = "benign0token"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, but faster

FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "name": lambda text: {"name": text},
    "words, argument": lambda text: {"words": ("echo", text)},
    "words, program": lambda text: {"words": (text,)},
    "words, expanded": lambda text: {
        "words": ("echo", text, f"${{A}}{text}", f"{text}${{A}}"),
        "expand": True,
        "environment": {"A": "b"},
    },
    "folder": lambda text: {"folder": f"/{text}"},
    "uid": lambda text: {"uid": text},
    "directory": lambda text: {"directory": f"/{text}"},
    "environment, value": lambda text: {"environment": {"A": text}},
    "environment, name": lambda text: {"environment": {text: "1"}},
    "queue": lambda text: {"queue": text},
    "features": lambda text: {"features": ("a", text)},
    "features, value": lambda text: {"features": (f"infra={text}",)},
    "hosts": lambda text: {"hosts": ("n1", text)},
    "account": lambda text: {"account": text},
    "qos": lambda text: {"qos": text},
    "array": lambda text: {"array": text},
    "after": lambda text: {"after": text},
    "begin": lambda text: {"begin": text},
    "output": lambda text: {"output": text},
    "errors": lambda text: {"errors": text},
    "mail_to": lambda text: {"mail_to": text},
    "variables": lambda text: {"variables": (text,)},
    "prologue": lambda text: {"prologue": (("echo", text), (text, "x"))},
    "epilogue": lambda text: {"epilogue": (("echo", text), (text, "x"))},
    "source": lambda text: {"source": f"/{text}"},
    "build": lambda text: {"build": (("make", text), (text, "x"))},
    "staging, source": lambda text: {"staging": Staging(f"/{text}", "/scratch/data")},
    "staging, target": lambda text: {"staging": Staging("/somewhere", f"/scratch/{text}")},
    "container, image": lambda text: {"container": Container("docker", text)},
    "container, binds": lambda text: {"container": Container("docker", "a", (f"/{text}",))},
    "made_by": lambda text: {"made_by": (text,)},
}
LAUNCHED: dict[str, dict[str, Any]] = {
    "torchrun": {"nodes": 2, "launcher": "torchrun"},
    "tensorflow": {"nodes": 2, "launcher": "tensorflow"},
    "mpi": {"launcher": "mpi", "processes": 2},
    "mxnet": {"launcher": "mxnet"},
}


def launched(spec: JobSpec) -> str:
    made = (job_manifest(replace(spec, **change)) for change in LAUNCHED.values())
    return json.dumps([json.loads(one) for one in made])


TARGETS: dict[str, Callable[[JobSpec], str]] = {
    "job": job_manifest,
    "skypilot": skypilot_task,
    # These make the same pods of it, but for what is called; see SOME.
    "command": lambda spec: job_manifest(spec, record=False),
    "launched": launched,
    "pytorchjob": lambda spec: pytorch_job_manifest(replace(spec, nodes=2)),
}
SOME = {"words, argument", "words, expanded"}
# These take few forms, or become names and values of labels; see below.
FORMS = {"uid", "array", "after", "begin", "mail_to", "features", "features, value"}
PATHS = {"folder", "directory", "container, binds", "staging, source", "staging, target"}
VARIABLES = dict.fromkeys(("HOME", "A", "now", "FORERUN_JOB", "", TOUCH), "EXPANDED")


def kubelet(text: str, variables: dict[str, str]) -> str:
    """What Kubernetes makes of a word of a command or of a variable's value."""

    def made(match: "re.Match[str]") -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", made, text)


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
    for path, value in leaves(json.loads(text)):
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
    """Volumes are in the order of their paths, and some paths are written in one way only."""
    volumes = {"volumes", "volumeMounts"}
    return {path: tidy(one) for path, one in found.items() if not volumes & set(path)}


def tidy(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] != "/":
        return value
    return [part for part in value.split("/") if part not in ("", ".")]


def test_no_field_that_takes_strings_is_forgotten() -> None:
    held = {field.partition(",")[0] for field in FIELDS}
    numbers = {"nodes", "processes", "cores", "accelerators", "memory", "memory_per_core"}
    closed = {"launcher", "accelerator", "mail_on"}  # names from a table, or they would be refused
    others = {"expand", "exclusive", "copy_environment", "walltime", "requeues", "warning"}
    assert held == {one.name for one in fields(JobSpec)} - numbers - closed - others
    assert len(STRINGS) >= 200


@pytest.mark.parametrize(
    ("field", "target"),
    [(f, t) for t in TARGETS for f in FIELDS if f in SOME or t in ("job", "skypilot")],
)
def test_a_hostile_string_is_refused_or_stays_one_string(
    field: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (field, target) == ("words, expanded", "skypilot"):
        return  # what bash makes of it is seen below
    # YAML takes long to write and to read; what it makes of each string is seen by itself, below.
    (tmp_path / "pod.sh").write_text("exit\n")
    monkeypatch.setattr(pods, "SCRIPT", tmp_path / "pod.sh")
    for module in (objects, skypilot):
        monkeypatch.setattr(module, "dumped", as_json)
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
        if len(text) > 1000:  # only takes longer
            continue
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


def as_json(
    made: Iterable[Any], comments: Sequence[str], spelled: Callable[[str], str] | None = None
) -> str:
    return json.dumps([[objects.plain(one, spelled) for one in made], *comments])


def test_a_string_stays_one_scalar_and_a_comment_one_line() -> None:
    for text in LINES:
        made = objects.dumped([{"a": text, "b": [text]}, {text: "c"}], [text, "d"])
        assert documents(made) == [{"a": text, "b": [text]}, {text: "c"}]
        assert made.startswith(f"# {text}\n# d\n")


def test_features_become_labels_and_nothing_else() -> None:
    base = replace(PLAIN, container=IMAGE)
    bare = dict(leaves(documents(job_manifest(base))))
    kept = 0
    for text in STRINGS:
        try:
            made = documents(job_manifest(replace(base, features=(text,))))
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


def bash(spec: JobSpec, directory: Path) -> "subprocess.CompletedProcess[str]":
    """What a machine of a cloud makes of a task."""
    (task,) = documents(skypilot_task(spec))
    told = {"PATH": os.environ["PATH"], "A": "b"}
    return subprocess.run(
        ["bash", "-s"], input=task["run"], cwd=directory, env=told, capture_output=True, text=True
    )


@pytest.mark.parametrize("walltime", [None, 60.0])
def test_no_word_of_a_cloud_task_is_read_by_its_shell(
    walltime: float | None, tmp_path: Path
) -> None:
    each = tuple(("printf", r"%s\n", text) for text in LINES)
    all_of_them = ("printf", r"%s\n", *LINES)
    spec = replace(PLAIN, words=all_of_them, prologue=each, epilogue=each, walltime=walltime)
    assert bash(spec, tmp_path).stdout.splitlines() == LINES * 3
    plain = [text for text in LINES if "${" not in text and len(text) < 2**16]  # a word's limit
    words = ("printf", r"%s\n", *(f"{text}${{A}}{text}" for text in plain))
    found = bash(replace(spec, words=words, prologue=(), epilogue=(), expand=True), tmp_path)
    assert found.stdout.splitlines() == [f"{text}b{text}" for text in plain]
    assert list(tmp_path.iterdir()) == []


def test_what_stands_first_in_a_cloud_task_is_a_program(tmp_path: Path) -> None:
    first = (*COMMANDS, "x=1", "if", "!", "{", "[[", "((", "time", "function", "coproc", "a[0]=1")
    after = tuple((text, "y") for text in first)
    done = bash(replace(PLAIN, epilogue=after), tmp_path)
    assert (done.returncode, done.stderr.count("epilogue failed\n")) == (0, len(first))
    for words in (("x=1", "y"), ("if", "z"), (f"x=$({TOUCH})",)):
        for spec in (replace(PLAIN, prologue=(words,)), replace(PLAIN, words=words)):
            assert bash(spec, tmp_path).returncode == 127
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
        printed, errors = started.communicate(timeout=LONG)
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
    for at in range(0, len(LINES), 50):
        texts = LINES[at : at + 50]
        each = tuple(("printf", r"%s\n", text) for text in texts)
        given = replace(
            spec,
            words=("printf", r"%s\n", *texts),
            prologue=each,
            epilogue=each,
            environment={f"now{n}": text for n, text in enumerate(texts)},
        )
        pod = Pod(given)
        assert [pod.environment[f"now{n}"] for n in range(len(texts))] == texts
        assert pod.run() == 0
        assert output(spec).splitlines() == texts * 3
        (Path(spec.folder) / "job.out").unlink()
    assert not list(Path(spec.folder).parent.rglob(CANARY))


def test_what_stands_first_is_a_program(spec: JobSpec) -> None:
    first = (*COMMANDS, "x=1", "if", "!", "{", "[[")
    assert Pod(replace(spec, epilogue=tuple((text, "y") for text in first))).run() == 0
    assert output(spec).count("epilogue: exit code 127\n") == len(first)
    for text in ("x=1", f"x=$({TOUCH})"):
        assert Pod(replace(spec, words=(text, "y"))).run() == 127
        assert Pod(replace(spec, prologue=((text, "y"),))).run() == 127
    assert not list(Path(spec.folder).parent.rglob(CANARY))


@pytest.mark.parametrize("shell", [one for one in ("dash", "bash", "busybox") if shutil.which(one)])
def test_what_a_pod_keeps(shell: str, spec: JobSpec, tmp_path: Path) -> None:
    (tmp_path / "data" / "more").mkdir(parents=True)
    (tmp_path / "data" / "more" / "a b").write_text("numbers\n")
    given = replace(
        spec,
        words=("sh", "-c", 'cat "$FORERUN_DATA/more/a b"; echo wrong >&2; sleep 0.2; exit 3'),
        prologue=(("echo", "before"),),
        epilogue=(("false",), ("echo", "after")),
        staging=Staging(str(tmp_path / "data"), str(tmp_path / "data of a job")),
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


SHELLS = [[one] for one in ("dash", "bash") if shutil.which(one)]
SHELLS += [["busybox", "sh"]] if shutil.which("busybox") else []


@pytest.fixture(params=SHELLS, ids=lambda words: words[0])
def staged(
    request: pytest.FixtureRequest, spec: JobSpec, tmp_path: Path
) -> Callable[[Path], "subprocess.CompletedProcess[str]"]:
    """Brings data to `fast`, and lists it."""

    def run(source: Path) -> "subprocess.CompletedProcess[str]":
        staging = Staging(str(source), str(tmp_path / "fast"))
        pod = Pod(replace(spec, staging=staging, words=("ls", "-l", str(tmp_path / "fast"))))
        pod.command[:1] = request.param
        return subprocess.run(pod.command, env=pod.environment, cwd=pod.directory, text=True)

    return run


Staged = Callable[[Path], "subprocess.CompletedProcess[str]"]


def test_data_may_be_one_file(staged: Staged, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_text("numbers\n")
    assert staged(tmp_path / "data.bin").returncode == 0
    assert (tmp_path / "fast" / "data.bin").read_text() == "numbers\n"


def test_staged_data_are_nobody_elses_and_are_staged_once(staged: Staged, tmp_path: Path) -> None:
    (tmp_path / "data" / "more").mkdir(parents=True)
    (tmp_path / "data" / "more" / "numbers").write_text("1\n")
    (tmp_path / "data" / "more" / "numbers").chmod(0o444)
    assert staged(tmp_path / "data").returncode == 0
    modes = {one: (tmp_path / one).stat().st_mode & 0o777 for one in ("fast", "fast/more")}
    assert modes == {"fast": 0o700, "fast/more": 0o700}
    assert (tmp_path / "fast" / "more" / "numbers").stat().st_mode & 0o777 == 0o400
    (tmp_path / "data" / "later").write_text("")
    assert staged(tmp_path / "data").returncode == 0
    assert not (tmp_path / "fast" / "later").exists()


def test_no_data_go_where_somebody_else_has_prepared_it(staged: Staged, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "numbers").write_text("1\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "fast").symlink_to(elsewhere)
    assert staged(tmp_path / "data").returncode == 1
    assert output(replace(PLAIN, folder=str(tmp_path / "job"))) == (
        f"{tmp_path / 'fast'}: found no directory of user {os.getuid()}, "
        "expected a new one, or one of an earlier start\n"
    )
    (tmp_path / "fast").unlink()
    (tmp_path / "fast").write_text("")
    assert staged(tmp_path / "data").returncode == 1
    if os.getuid() == 0:  # who else could give it away
        (tmp_path / "fast").unlink()
        (tmp_path / "fast").mkdir()
        os.chown(tmp_path / "fast", 12345, 12345)
        assert staged(tmp_path / "data").returncode == 1
        assert list((tmp_path / "fast").iterdir()) == []
    assert list(elsewhere.iterdir()) == []


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


SAVES = f"""
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit("saved"))
print("ready", flush=True)
time.sleep({ENDLESS})
"""


def test_a_program_is_asked_to_save(spec: JobSpec, tmp_path: Path) -> None:
    program = tmp_path / "saves.py"
    program.write_text(SAVES)
    started = Pod(replace(spec, words=(sys.executable, str(program)))).start()
    wait_for(lambda: (Path(spec.folder) / "job.out").exists() and output(spec) == "ready\n")
    started.send_signal(signal.SIGTERM)
    started.communicate(timeout=LONG)
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
    # The folder may be the program's own: no module of it is the worker's.
    (Path(spec.folder) / "os.py").write_text("raise SystemExit('another os')\n")
    assert Pod(replace(spec, words=("echo", "a b"))).run() == 0
    assert output(spec) == "attempts/1\na b\n"


def test_a_folder_that_is_not_there(spec: JobSpec, tmp_path: Path) -> None:
    pod = Pod(replace(spec, folder=str(tmp_path / "gone")))
    pod.directory = str(tmp_path)
    started = pod.start()
    _, errors = started.communicate(timeout=LONG)
    assert started.returncode != 0
    assert b"gone" in errors


def test_kubernetes_leaves_the_script_as_it_is() -> None:
    text = pods.SCRIPT.read_text(encoding="utf-8")
    assert "$$" not in text
    assert Pod(replace(PLAIN, environment={"now": TOUCH})).command[2] == text
    if shutil.which("shellcheck"):
        # What `first` calls is not seen to be called.
        flags = ["--shell=sh", "--exclude=SC2317,SC2329"]
        subprocess.run(["shellcheck", *flags, str(pods.SCRIPT)], check=True)
