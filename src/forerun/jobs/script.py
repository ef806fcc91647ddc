"""A job as a bash script to read and to keep: for Slurm, for PBS or Torque, or for no scheduler.

    Path(folder, "job.sh").write_text(render(spec, "slurm"))

One template has what all schedulers share. A value comes into it through a filter that quotes it or
says that it needs none; one that went through neither is an error, not a line of the script.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, get_args

from forerun.errors import InputError
from forerun.jobs import quoting
from forerun.jobs.directives import check, directives, tasks, wall_seconds, warning_seconds
from forerun.jobs.inside import inside
from forerun.jobs.quoting import Shell
from forerun.jobs.spec import JobSpec

if TYPE_CHECKING:
    from jinja2 import Environment

Scheduler = Literal["slurm", "pbs", "none"]
Kind = Literal["git", "archive", "file", "directory"]

_WHERE = {"slurm": "for Slurm", "pbs": "for PBS or Torque", "none": "without a scheduler"}
# Seconds for saving when a job is cancelled: schedulers force its end after 30, forerun after 10.
_GRACE = {"slurm": 20, "pbs": 20, "none": 8}
_PYTHON = re.compile(r"(.*/)?python[0-9.]*", re.ASCII)
_HTTPS = re.compile(r"https://[A-Za-z0-9]\S*", re.ASCII)
_GIT = re.compile(
    r"git\+(https|ssh)://[A-Za-z0-9]\S*|ssh://[A-Za-z0-9]\S*|https://[A-Za-z0-9]\S*\.git/?"
    r"|[A-Za-z0-9_]+@[A-Za-z0-9][A-Za-z0-9.-]*:\S+",
    re.ASCII,
)
_ARCHIVE = re.compile(r".*\.(tar|tar\.\w+|tgz|tbz2|txz)", re.ASCII)
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Source:
    kind: Kind
    address: str
    name: str = ""  # of the file that is fetched


def render(spec: JobSpec, scheduler: Scheduler) -> str:
    """The script; InputError for what this scheduler, or a shell, cannot be told."""
    if scheduler not in get_args(Scheduler):
        raise InputError("scheduler", scheduler, f"one of {', '.join(get_args(Scheduler))}")
    _check(spec, scheduler)
    source = _source(spec.source)
    target = spec.staging.target if spec.staging else ""
    seen = [spec.directory, *([source.address] if source and source.kind == "directory" else [])]
    wall, requeues = wall_seconds(spec), spec.requeues > 0
    warns = requeues and wall is not None and scheduler != "slurm"  # Slurm sends the signal itself
    expires = wall is not None and scheduler == "none"
    way = _way(spec, scheduler)
    apart = scheduler != "slurm"  # the script itself puts its output where it is read
    return (
        _environment(spec.expand)
        .get_template("job.sh.j2")
        .render(
            spec=spec,
            scheduler=scheduler,
            where=_WHERE[scheduler],
            directives=directives(spec, scheduler),
            output=_in_folder(spec, spec.output) if apart else "",
            errors=_in_folder(spec, spec.errors) if spec.errors else "",
            exported=_exported(spec),
            # What is built is built before there are data.
            inside=lambda part: inside(
                spec, [path for path in (*seen, target if part == "run" else "") if path]
            ),
            program=_program(spec),
            source=source,
            directory=spec.directory,
            total=spec.nodes * spec.processes,
            distributed=_finds_others(spec, way),
            starts_several=way == "local" or (way == "nodes" and spec.launcher != "torchrun"),
            finds_place=way == "nodes",
            carried=spec.nodes > 1 and scheduler == "pbs",
            pbsdsh=scheduler == "pbs" and (way == "nodes" or (spec.nodes > 1 and bool(target))),
            modes=_modes(spec, way),
            stage=_stage(spec, scheduler),
            target=target,
            # Of a directory of the job's own, and where it is one job on one node that had it.
            removes=target.endswith(f"/forerun-{spec.uid}") and spec.nodes == 1 and not spec.array,
            launch=_launch(spec, scheduler, way),
            again=_again(scheduler),
            steps=_steps(scheduler, way),
            expires=expires,
            warns=warns,
            timers=requeues or expires,
            wall=wall or 0,
            warn_at=max(1, (wall or 0) - warning_seconds(spec)),
            grace=_GRACE[scheduler],
            patience=max(1, warning_seconds(spec) * 3 // 4),
        )
    )


@cache
def _environment(expand: bool) -> Environment:
    """Jinja2, strict: names that are not there and values that nobody quoted are errors."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    def finished(value: object) -> object:
        if isinstance(value, Shell) or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise TypeError(f"a value without quotes in a script: {value!r}")

    environment = Environment(
        loader=PackageLoader("forerun"),
        undefined=StrictUndefined,
        finalize=finished,
        trim_blocks=True,
        lstrip_blocks=True,
        comment_start_string="<#",  # bash counts by ${#name}
        comment_end_string="#>",
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "quote": quoting.quote,
        "word": lambda text: quoting.word(text, expand),
        "command": lambda texts: quoting.command(texts, expand),
        "comment": lambda text: Shell(f"# {text}"),
        "plain": Shell,
    }
    return environment


def _check(spec: JobSpec, scheduler: Scheduler) -> None:
    check(spec, scheduler)
    for texts in (spec.words, *spec.prologue, *spec.epilogue, *spec.build):
        if not texts or not texts[0] or texts[0].startswith("-"):
            raise InputError("job, command", " ".join(texts), "a program and its arguments")
    for name in (*spec.environment, *spec.variables):
        own = name.lower().startswith("forerun_") and name != "FORERUN_DATA"
        if own or quoting.of_the_shell(name):
            raise InputError("job, variable", name, "a variable that a job can set")
    if spec.requeues and scheduler == "pbs" and _way(spec, scheduler) == "nodes":
        expected = "0 on several nodes of PBS: its pbsdsh tells no program to save"
        raise InputError("job, requeues", spec.requeues, expected)
    if spec.build and not spec.source:
        raise InputError("job, source", "nothing", "what is to be built")
    if spec.staging:
        for path in (spec.staging.source, spec.staging.target):
            if not (path.startswith("/") or (spec.expand and path.startswith("${"))):
                raise InputError("job, staging", path, "absolute paths")
        if spec.staging.target.endswith("/"):  # or a link there would be taken for a directory
            raise InputError(
                "job, staging", spec.staging.target, "a directory without / at its end"
            )


def _source(text: str) -> _Source | None:
    """Where the program is made from, and how it is fetched."""
    if not text:
        return None
    if text.startswith("/"):
        return _Source("directory", text)
    if _GIT.fullmatch(text):
        return _Source("git", text.removeprefix("git+"))
    if not _HTTPS.fullmatch(text):
        expected = "a directory, an https address, or one of a git repository by https or ssh"
        raise InputError("job, source", text, expected)
    last = text.partition("?")[0].partition("#")[0].rpartition("/")[2]
    name = last if _FILE.fullmatch(last) else "download"
    return _Source("archive" if _ARCHIVE.fullmatch(name) else "file", text, name)


def _in_folder(spec: JobSpec, path: str) -> str:
    return path if path.startswith("/") else f"{spec.folder}/{path}"


def _exported(spec: JobSpec) -> list[tuple[str, str]]:
    """Variables of the job's shell: a library for the image is not loaded into its programs."""
    held_back = ("LD_PRELOAD", "LD_LIBRARY_PATH") if spec.container else ()
    return [pair for pair in spec.environment.items() if pair[0] not in held_back]


def _program(spec: JobSpec) -> Shell:
    """The words of the program; with torchrun, its launcher takes the place of `python`."""
    if spec.launcher != "torchrun":
        return quoting.words(spec.words, spec.expand)
    options = [f"--nnodes={spec.nodes}", f"--nproc_per_node={spec.processes}"]
    if spec.nodes > 1:
        options += [
            '--node_rank="${FORERUN_NODE:-${SLURM_NODEID:-0}}"',
            '--master_addr="${FORERUN_HOSTS%% *}"',
            '--master_port="$FORERUN_PORT"',
        ]
    else:
        options.append("--standalone")
    first, *rest = spec.words
    python = _PYTHON.fullmatch(first) is not None
    # Options of Python's own stay with it; torchrun knows -m alone.
    if not python or (rest and rest[0].startswith("-") and rest[0] != "-m"):
        options.append("--no_python")
        rest = list(spec.words)
    start = quoting.word(first, spec.expand) if python else Shell("python3")
    end = quoting.words(rest, spec.expand)
    return Shell(" ".join((start, "-m torch.distributed.run", *options, end)))


Way = Literal["single", "local", "srun", "mpirun", "nodes"]


def _way(spec: JobSpec, scheduler: Scheduler) -> Way:
    """How the processes are started."""
    several = spec.processes > 1 and spec.launcher != "torchrun"
    if scheduler == "slurm":
        return "srun" if spec.nodes > 1 or several or spec.launcher == "mpi" else "single"
    if spec.launcher == "mpi":
        return "mpirun"
    if spec.nodes > 1:
        return "nodes"
    return "local" if several else "single"


def _finds_others(spec: JobSpec, way: Way) -> bool:
    """Whether processes must be told where the others are."""
    by_address = spec.launcher in ("tensorflow", "mxnet") and spec.nodes * spec.processes > 1
    return way == "nodes" or by_address or (spec.launcher == "torchrun" and spec.nodes > 1)


def _modes(spec: JobSpec, way: Way) -> dict[str, str]:
    """What the script does when it is called with a word."""
    modes = {}
    if spec.staging and spec.nodes > 1:
        modes["stage"] = "forerun_stage"
    if way in ("srun", "mpirun", "nodes"):
        modes["process"] = "forerun_process"
    if way == "nodes" and spec.launcher == "torchrun":
        modes["node"] = "FORERUN_NODE=$(forerun_place) && export FORERUN_NODE && forerun_process"
    elif way == "nodes":
        modes["node"] = 'forerun_number=$(forerun_place) && forerun_node "$forerun_number"'
    return modes


_SELF = '"$BASH" "$forerun_folder/job.sh"'
# Of an array's task its own.
_CARRIED = '"$forerun_folder/${forerun_task}environment"'
_MACHINES = '"$forerun_folder/${forerun_task}machines"'


def _srun(spec: JobSpec, mode: str) -> str:
    each, cores = (1, None) if mode == "stage" else tasks(spec)
    options = [f"--nodes={spec.nodes}", f"--ntasks={spec.nodes * each}"]
    options += [f"--ntasks-per-node={each}", *([f"--cpus-per-task={cores}"] if cores else [])]
    options += ["--distribution=block", "--kill-on-bad-exit=1", "--export=ALL"]
    return f"srun {' '.join(options)} {_SELF} {mode}"


def _stage(spec: JobSpec, scheduler: Scheduler) -> str:
    """How data is staged: on each node, where there are several."""
    if spec.nodes == 1:
        return "forerun_stage"
    if scheduler == "slurm":
        return _srun(spec, "stage")
    return _behind_qsub(
        _srun(spec, "stage"),
        f"(umask 077 && export -p >{_CARRIED})\n  pbsdsh -u {_SELF} stage {_CARRIED}",
    )


def _launch(spec: JobSpec, scheduler: Scheduler, way: Way) -> str:
    """How the program is started, as a process of its own beside the shell that waits for it."""
    if way == "single":
        return "forerun_process &"
    if way == "local":
        return "forerun_node 0 &"
    if way == "srun":
        return _srun(spec, "process") + " &"
    if way == "nodes":
        return _behind_qsub(_srun(spec, "process") + " &", f"pbsdsh -u {_SELF} node {_CARRIED} &")
    start = f"mpirun -np {spec.nodes * spec.processes}"
    if scheduler == "none":
        return f"{start} {_SELF} process &"
    if spec.nodes == 1:
        return _behind_qsub(_srun(spec, "process") + " &", f"{start} {_SELF} process &")
    machines = (
        'for forerun_host in "${forerun_hosts[@]}"; do\n'
        f"    for ((forerun_slot = 0; forerun_slot < {spec.processes}; forerun_slot++)); do "
        'echo "$forerun_host"; done\n'
        f"  done >{_MACHINES}\n"
    )
    end = f"  {start} -machinefile {_MACHINES} {_SELF} process {_CARRIED} &"
    return _behind_qsub(_srun(spec, "process") + " &", machines + end)


def _behind_qsub(slurm: str, pbs: str) -> str:
    """Both ways: `qsub` may be a face of Slurm, where the way of PBS does not exist."""
    return f"if [[ -n $forerun_slurm ]]; then\n  {slurm}\nelse\n  {pbs}\nfi"


def _steps(scheduler: Scheduler, way: Way) -> str:
    """The command that signals the program where it is a step of Slurm's; none where it is not."""
    if way in ("single", "local") or scheduler == "none":
        return ""
    signal = 'scancel --signal=28 "$forerun_slurm" 2>/dev/null'
    return signal if scheduler == "slurm" else f"[[ -n $forerun_slurm ]] && {signal}"


def _again(scheduler: Scheduler) -> str:
    """The command by which a job starts again."""
    slurm = 'scontrol requeue "$forerun_slurm"'
    if scheduler == "slurm":
        return slurm
    return f'if [[ -n $forerun_slurm ]]; then {slurm}; else qrerun "$forerun_job"; fi'
