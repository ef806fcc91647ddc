"""Requests in MODAK's own language: its JSON, read into the same request as any other.

MODAK (SODALITE, 2019 to 2022) is unmaintained, and people still have its files. All fields of its
last schema and of its older examples are known; what cannot be honoured becomes a note of the
request, and a field that nobody knows is named.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from forerun._documents import duration, read_json, size, validated
from forerun.compilers import Framework
from forerun.errors import InputError
from forerun.planning.request import Request

# What each table may hold. A star stands for fields with free content.
_DATA: dict[str, Any] = {
    **dict.fromkeys(("location", "basedata", "size", "count")),
    "etl": {"prefetch": None, "cache": None},
}
_OPTIONS = (
    *("job_name", "queue", "partition", "wall_time_limit", "node_count", "request_gpus"),
    *("core_count", "process_count_per_node", "standard_output_file", "standard_error_file"),
    *("combine_stdout_stderr", "request_event_notification", "email_address"),
    *("copy_environment", "copy_environment_variable", "request_specific_nodes"),
    *("account", "qos", "core_count_per_process", "memory_limit", "minimum_memory_per_processor"),
    *("job_array", "architecture_constraint", "job_dependency", "defer_job", "node_exclusive"),
)
_FIELDS: dict[str, Any] = {
    "job": {
        "job_options": dict.fromkeys(_OPTIONS),
        "target": dict.fromkeys(("name", "job_scheduler_type", "queue_type")),
        "application": {
            **dict.fromkeys(("app_tag", "app_type", "executable", "arguments")),
            **dict.fromkeys(("container_runtime", "mpi_ranks", "threads", "minimal_efficiency")),
            **dict.fromkeys(("storage_class_pref", "pre-execution", "post-execution")),
            "build": dict.fromkeys(("src", "build_command", "build_parallelism")),
        },
        "optimisation": {
            **dict.fromkeys(("enable_opt_build", "enable_autotuning", "app_type", "app_name")),
            "opt_build": dict.fromkeys(("cpu_type", "acc_type")),
            "arch_build": dict.fromkeys(("cpu_type", "acc_type")),
            "app_build": {"*": None},
            "autotuning": dict.fromkeys(("tuner", "input")),
            "app_type-ai_training": {
                "config": dict.fromkeys(
                    ("ai_framework", "type", "distributed_training", "layers", "parameters")
                ),
                "data": _DATA,
                "ai_framework-tensorflow": dict.fromkeys(("version", "xla")),
                "ai_framework-pytorch": dict.fromkeys(("version", "glow")),
                "ai_framework-keras": dict.fromkeys(("version", "backend")),
                "ai_framework-mxnet": {"version": None},
                "ai_framework-cntk": {"version": None},
            },
            "app_type-ai_inference": {"*": None},
            "app_type-big_data": {"*": None},
            "app_type-hpc": {
                "config": {"parallelisation": None},
                "data": _DATA,
                "parallelisation-mpi": dict.fromkeys(
                    ("library", "version", "scaling_efficiency", "core_subscription")
                )
                | {"message_size": None},
                "parallelisation-openmp": dict.fromkeys(
                    ("number_of_threads", "scaling_efficiency", "affinity")
                ),
                **{
                    f"parallelisation-{name}": dict.fromkeys(
                        ("compiler", "version", "number_of_acc")
                    )
                    for name in ("opencc", "openacc", "opencl")
                },
            },
        },
    },
}
# Texts that hold a path, a command or a sentence, in which a slash says nothing.
_FREE = frozenset(
    {
        *("executable", "arguments", "container_runtime", "pre-execution", "post-execution"),
        *("src", "build_command", "location", "input", "standard_output_file"),
        *("standard_error_file", "copy_environment_variable"),
    }
)
_ALTERNATIVES = re.compile(r"[\w-]+(?:/[\w-]+)+")
_CLOCK = re.compile(r"\d{1,9}(:\d{1,9}){0,2}", re.ASCII)
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_FRAMEWORKS: Mapping[str, Framework] = {
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "pytorch": "pytorch",
    "mxnet": "mxnet",
    "cntk": "other",
}
_PROCESSORS = {"x86": "x86", "amd": "x86", "arm": "arm", "power": "power"}
_OTHER_TASKS = ("app_type-ai_inference", "app_type-big_data")
_WHOLE = 0.999  # an efficiency that many workers can have; all of it none but one has
_SCHEDULERS = {"slurm": "slurm", "torque": "pbs", "none": "none"}
_MAIL: Mapping[str, Literal["begin", "end", "fail"]] = {
    "a": "fail",
    "b": "begin",
    "e": "end",
    "BEGIN": "begin",
    "END": "end",
    "FAIL": "fail",
}

Found = dict[str, Any]


def read_modak(path: Path) -> Request:
    """The request of a MODAK file; InputError, in one line, where it is none."""
    document = read_json(path)
    if "container_file" in document or "image_hub" in document:
        raise InputError(str(path), "a container mapping", "a request, with job.application")
    bare = "optimisation" in document and "job" not in document  # as its editor had it
    document = {"job": document} if bare else document
    notes = [f"unknown field: {name}" for name in _unknown(document, _FIELDS, "")]
    job = _table(path, document, "job")
    templates = list(_templates(job, "" if bare else "job."))
    if "application" not in job and templates:
        where, text = templates[0]
        expected = f"job.application; and {where} is a template's: {text}"
        raise InputError(str(path), "no application to run", expected)
    if templates:
        where, text = templates[0]
        raise InputError(f"{path}: {where}", text, "one of these: it is a template")
    application = _table(path, job, "application")
    if not str(application.get("executable", "")).strip():
        raise InputError(str(path), "no application", "job.application.executable, what to run")
    made = _request(path, job, application, notes)
    return validated(Request, {**made, "notes": notes}, f"{path}: ")


def is_modak(path: Path) -> bool:
    """Whether a file is JSON by its name: ours are YAML."""
    return path.suffix.lower() == ".json"


def _request(path: Path, job: Found, application: Found, notes: list[str]) -> Found:
    options = _table(path, job, "job_options", optional=True)
    wanted = _table(path, job, "optimisation", optional=True)
    target = _table(path, job, "target", optional=True)
    training = _inner(wanted, "app_type-ai_training")
    framework = _text(_inner(training, "config").get("ai_framework"))
    details = _inner(training, f"ai_framework-{framework}")
    build = _inner(application, "build")
    kind: Framework = _FRAMEWORKS.get(framework, "other")
    if application.get("mpi_ranks") is not None or _text(application.get("app_type")) == "mpi":
        kind = "mpi" if not framework else kind
    _note_rest(wanted, target, framework, notes)
    made: Found = {
        "name": _text(options.get("job_name")) or _text(application.get("app_tag")) or "job",
        "task": "inference" if _text(wanted.get("app_type")) == "ai_inference" else "training",
        "application": {
            "command": _command(path, application),
            "framework": kind,
            "version": "" if framework == "keras" else _text(details.get("version")),
            "source": _text(build.get("src")),
            "build": _build(build),
            "directory": "" if build else str(path.parent),  # what is built is in the job's folder
            "expand": True,
        },
        "job": _job(path, options, application, notes),
        "wishes": _wishes(wanted, application, details, notes),
        "constraints": {},
        "target": {},
    }
    efficiency = application.get("minimal_efficiency")
    if efficiency == 1 and not isinstance(efficiency, bool):
        notes.append("minimal_efficiency 1 is what one worker has: taken as 99.9 %")
        efficiency = _WHOLE
    if efficiency is not None:
        made["constraints"]["efficiency"] = efficiency
    if (nodes := options.get("node_count")) is not None:
        made["target"]["nodes"] = nodes
    data = _inner(training, "data") or _inner(_inner(wanted, "app_type-hpc"), "data")
    for name in sorted(data):
        notes.append(f"data.{name} is kept as a note: {_text(data[name]) or 'a table'}")
    if scheduler := _text(target.get("job_scheduler_type")):
        made["target"]["scheduler"] = _SCHEDULERS.get(scheduler, scheduler)
    return made


def _job(path: Path, options: Found, application: Found, notes: list[str]) -> Found:
    """MODAK's job options in our words; what is empty was not said."""
    said = {name: value for name, value in options.items() if _text(value) or value is False}
    made: Found = {}
    for theirs, ours in {
        "job_name": "name",
        "queue": "queue",
        "node_count": "nodes",
        "core_count": "cores",
        "process_count_per_node": "processes",
        "core_count_per_process": "cores_per_process",
        "request_gpus": "accelerators",
        "node_exclusive": "exclusive",
        "account": "account",
        "qos": "qos",
        "job_array": "array",
        "job_dependency": "after",
        "defer_job": "begin",
        "standard_output_file": "output",
        "email_address": "mail_to",
        "copy_environment": "environment",
    }.items():
        if theirs in said:
            value = said[theirs]
            made[ours] = value.strip() if isinstance(value, str) else value
    if "wall_time_limit" in said:
        made["walltime"] = _walltime(path, said["wall_time_limit"])
    for theirs, ours in (
        ("memory_limit", "memory"),
        ("minimum_memory_per_processor", "memory_per_core"),
    ):
        if theirs in said:
            made[ours] = _memory(path, theirs, said[theirs])
    constraints = ("partition", "architecture_constraint")
    made["features"] = [_text(said[name]) for name in constraints if name in said]
    made["hosts"] = _listed(said.get("request_specific_nodes"))
    made["variables"] = _listed(said.get("copy_environment_variable"))
    if "standard_error_file" in said:
        if said.get("combine_stdout_stderr", True):
            notes.append(
                "standard_error_file is not used: combine_stdout_stderr puts errors into the output"
            )
        else:
            made["errors"] = _text(said["standard_error_file"])
    if "request_event_notification" in said:
        made["mail_on"] = _mail(path, _text(said["request_event_notification"]))
    for theirs, ours in (("mpi_ranks", "ranks"), ("threads", "threads")):
        if application.get(theirs) is not None:
            made[ours] = application[theirs]
    made["prologue"] = _text(application.get("pre-execution"))
    made["epilogue"] = _text(application.get("post-execution"))
    return made


def _wishes(wanted: Found, application: Found, details: Found, notes: list[str]) -> Found:
    build = _inner(wanted, "opt_build") or _inner(wanted, "arch_build")
    made: Found = {}
    if wanted.get("enable_autotuning") is True:
        notes.append("enable_autotuning: short trials, with forerun plan --trial SECONDS")
    if image := _text(application.get("container_runtime")):
        notes.append(f"container_runtime is kept as a note: {image}")
    if storage := _text(application.get("storage_class_pref")):
        notes.append(f"storage_class_pref is kept as a note: {storage}; plans weigh all storage")
    if processor := _text(build.get("cpu_type")):
        made["processor"] = _PROCESSORS.get(processor, processor)
    accelerator = _text(build.get("acc_type"))
    if accelerator and accelerator != "none":
        made["accelerator"] = accelerator
    if details.get("xla") is True:
        made["compiler"] = "xla"
    if details.get("glow") is True:
        notes.append("glow is no longer made: inductor is what PyTorch compiles with")
    return made


def _note_rest(wanted: Found, target: Found, framework: str, notes: list[str]) -> None:
    """What is understood, and for which forerun has no use."""
    if framework == "cntk":
        notes.append("cntk is no longer made: no framework environment for it")
    if framework == "keras":
        notes.append("keras is tensorflow's: its own version is not asked for")
    if "enable_opt_build" in wanted and wanted["enable_opt_build"] is False:
        notes.append("enable_opt_build is false: an official image is taken")
    kept = {name: wanted.get(name) for name in ("app_name", "app_build", *_OTHER_TASKS)}
    kept |= {"queue_type": target.get("queue_type"), "target.name": target.get("name")}
    config = _inner(_inner(wanted, "app_type-ai_training"), "config")
    kept |= {f"config.{name}": config[name] for name in config if name != "ai_framework"}
    kept |= {f"autotuning.{name}": one for name, one in _inner(wanted, "autotuning").items()}
    hpc = _inner(wanted, "app_type-hpc")
    kept |= {name: one for name, one in hpc.items() if name.startswith("parallelisation-")}
    for name, value in kept.items():
        if value not in (None, "", {}):
            notes.append(f"{name} is kept as a note: {_shown(value)}")


def _command(path: Path, application: Found) -> str:
    """The program and its arguments as one command, quoted anew.

    Both are split as a POSIX shell would, a backslash before a newline is a blank, and `${NAME}` is
    all that will be expanded; everything else is quoted. Braces are no holes: they stand twice.
    """
    words: list[str] = []
    for name in ("executable", "arguments"):
        text = application.get(name, "")
        if not isinstance(text, str):
            raise InputError(f"{path}: job.application.{name}", _shown(text), "a text")
        try:
            words += shlex.split(text.replace("\\\n", " "))
        except ValueError as error:
            where = f"{path}: job.application.{name}"
            raise InputError(where, str(error), "words as a shell has them") from None
    return " ".join(map(_quoted, words)).replace("{", "{{").replace("}", "}}")


def _quoted(word: str) -> str:
    """A word in which variables are expanded, inside double quotes, and nothing else."""
    if not _VARIABLE.search(word):
        return shlex.quote(word)
    parts = re.split(f"({_VARIABLE.pattern})", word)
    inner = [p if _VARIABLE.fullmatch(p) else re.sub(r'([\\"$`])', r"\\\1", p) for p in parts]
    return f'"{"".join(inner)}"'


def _build(build: Found) -> str:
    text = _text(build.get("build_command"))
    return text.replace("{{BUILD_PARALLELISM}}", str(build.get("build_parallelism", 1)))


def _walltime(path: Path, value: object) -> float:
    """Seconds of a number, or of hours, minutes and seconds with colons."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return duration(value)
    if not _CLOCK.fullmatch(_text(value)):
        raise InputError(
            f"{path}: job.job_options.wall_time_limit", _shown(value), "a time such as 12:00:00"
        )
    seconds = 0
    for part in _text(value).split(":"):
        seconds = 60 * seconds + int(part)
    return float(seconds)


def _memory(path: Path, name: str, value: object) -> float:
    try:
        return size(value if isinstance(value, int | float) else _text(value))
    except ValueError as error:
        raise InputError(f"{path}: job.job_options.{name}", _shown(value), str(error)) from None


def _mail(path: Path, text: str) -> list[str]:
    """Torque's letters, or Slurm's words."""
    if text in ("ALL", "NONE", "n"):
        return ["begin", "end", "fail"] if text == "ALL" else []
    words = [word.strip() for word in text.split(",")]
    keys = words if all(word in _MAIL for word in words) else list(text)
    if not all(key in _MAIL for key in keys):
        where = f"{path}: job.job_options.request_event_notification"
        raise InputError(where, text, "letters of abe, or ALL, BEGIN, END, FAIL")
    return list(dict.fromkeys(_MAIL[key] for key in keys))


def _unknown(found: object, known: Mapping[str, Any] | None, place: str) -> Iterator[str]:
    """The fields, at any depth, that no version of MODAK has."""
    if not isinstance(found, dict) or known is None or "*" in known:
        return
    for name, value in found.items():
        where = f"{place}.{name}" if place else name
        if name in known:
            yield from _unknown(value, known[name], where)
        else:
            yield where


def _templates(found: object, place: str) -> Iterator[tuple[str, str]]:
    """The values that are alternatives, of which nobody has chosen one."""
    if not isinstance(found, dict):
        return
    for name, value in found.items():
        where = f"{place}{name}"
        if isinstance(value, str) and name not in _FREE and _ALTERNATIVES.fullmatch(value.strip()):
            yield where, value
        yield from _templates(value, f"{where}.")


def _table(path: Path, found: Found, name: str, optional: bool = False) -> Found:
    value = found.get(name, {} if optional else None)
    if not isinstance(value, dict):
        kind = "none" if value is None else type(value).__name__
        raise InputError(f"{path}: {name}", kind, "a table")
    return value


def _inner(found: Found, name: str) -> Found:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _listed(value: object) -> list[str]:
    return [one for one in re.split(r"[,\s]+", _text(value)) if one]


def _text(value: object) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value).strip()


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
