"""What a scheduler is told of a job: the `#SBATCH` and `#PBS` lines at the head of its script.

Nothing can be quoted there, so `JobSpec` lets nothing into them that would need it; what one
scheduler alone does not take is refused here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from forerun.errors import InputError
from forerun.jobs.spec import JobSpec

MEBIBYTE = 2**20
LONGEST_NAME = 15  # characters of a job's name that every Torque takes
MOST_TASKS = 10_000  # of an array that are written out
LONGEST_WARNING = 65535  # seconds that `--signal` takes
_SLURM_JOB = re.compile(r"\d+(_\d+)?", re.ASCII)
_PBS_JOB = re.compile(r"\d+(\[\])?(\.[A-Za-z0-9.-]+)?|\d+\.[A-Za-z0-9.-]+(\[\])?", re.ASCII)
_PBS_PATH = re.compile(r"[A-Za-z0-9_./@+~=-]+", re.ASCII)
_PBS_NODE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)  # or it would be a count, or two
_RESOURCES = {"fpga": "fpga", "tpu": "tpu"}  # of Slurm's generic ones; all others are GPUs


def tasks(spec: JobSpec) -> tuple[int, int | None]:
    """Processes that the scheduler starts on each node, and the cores of each.

    torchrun starts a node's processes itself, so there it is one with the cores of all.
    """
    if spec.launcher == "torchrun":
        return 1, spec.processes * (spec.cores or 1)
    return spec.processes, spec.cores


def node_memory(spec: JobSpec) -> int | None:
    """Bytes of each node, where that is known: the larger, where cores have their own share."""
    of_cores = (spec.memory_per_core or 0) * (spec.cores or 1) * spec.processes
    return max(spec.memory, of_cores) if spec.memory else None


def warning_seconds(spec: JobSpec) -> int:
    """Whole seconds before the end of the wall time at which the program is asked to save.

    Never more than half of the wall time: it should do something in between.
    """
    most = LONGEST_WARNING if spec.walltime is None else max(1, math.floor(spec.walltime / 2))
    return max(1, min(round(spec.warning), most, LONGEST_WARNING))


def wall_seconds(spec: JobSpec) -> int | None:
    """The wall time in whole seconds, rounded up."""
    return None if spec.walltime is None else math.ceil(spec.walltime)


def directives(spec: JobSpec, scheduler: str) -> list[str]:
    """The lines for a scheduler, in the order that its manual has; none without one."""
    check(spec, scheduler)
    if scheduler == "slurm":
        return [f"#SBATCH --{option}" for option in _slurm(spec)]
    if scheduler == "pbs":
        # Where `qsub` stands before Slurm, `ppn` is but a sum over all nodes; Torque reads no more
        # than a comment here.
        slots = spec.processes * (spec.cores or 1)
        even = [f"#SBATCH --ntasks-per-node={slots}"] if spec.nodes > 1 else []
        return [*(f"#PBS -{option}" for option in _pbs(spec)), *even]
    return []


def check(spec: JobSpec, scheduler: str) -> None:
    """InputError for what this scheduler cannot do, and would do otherwise if it were left out."""
    if len(spec.hosts) > spec.nodes:
        raise InputError("job, hosts", ", ".join(spec.hosts), f"at most {spec.nodes}, one a node")
    {"slurm": _check_slurm, "pbs": _check_pbs, "none": _check_none}[scheduler](spec)


def _check_slurm(spec: JobSpec) -> None:
    if spec.after and not _SLURM_JOB.fullmatch(spec.after):
        raise InputError("job, after", spec.after, "the number of a job of Slurm, such as 42")
    for name in spec.variables:
        if name.upper() in ("ALL", "NIL", "NONE"):
            raise InputError("job, variables", name, "a name that does not mean all, or none")


def _check_pbs(spec: JobSpec) -> None:
    if spec.after and not _PBS_JOB.fullmatch(spec.after):
        raise InputError("job, after", spec.after, "the number of a job of PBS: 42 or 42.host")
    if not _PBS_PATH.fullmatch(spec.folder):
        expected = "a path without blanks, colons and commas for PBS"
        raise InputError("job, folder", spec.folder, expected)
    for one in (*spec.features, *spec.hosts):
        if not _PBS_NODE.fullmatch(one):
            raise InputError("job, features and hosts", one, "letters, digits and . _ - for PBS")


def _check_none(spec: JobSpec) -> None:
    for name in ("array", "after", "begin"):
        if getattr(spec, name):
            raise InputError(f"job, {name}", getattr(spec, name), "a scheduler to do it")
    if spec.nodes > 1:
        raise InputError("job, nodes", spec.nodes, "1 where there is no scheduler")


def _slurm(spec: JobSpec) -> Iterator[str]:
    """The options of sbatch."""
    each, cores = tasks(spec)
    yield f"job-name={spec.name}"
    yield f"comment=forerun:{spec.uid}"
    yield f"chdir={_blanks(spec.folder)}"
    yield f"output={_blanks(_path(spec, spec.output))}"
    if spec.errors:
        yield f"error={_blanks(_path(spec, spec.errors))}"
    yield "open-mode=append"  # what was printed before a requeue stays
    yield "requeue"  # when a node is lost the job starts again, and its attempts say so
    yield f"nodes={spec.nodes}"
    yield f"ntasks-per-node={each}"
    if cores:
        yield f"cpus-per-task={cores}"
    if spec.accelerators:
        yield f"gres={_RESOURCES.get(spec.accelerator, 'gpu')}:{spec.accelerators}"
    memory = node_memory(spec)
    if memory:
        yield f"mem={_mebibytes(memory)}M"
    elif spec.memory_per_core:
        yield f"mem-per-cpu={_mebibytes(spec.memory_per_core)}M"
    seconds = wall_seconds(spec)
    if seconds:
        yield f"time={_clock(seconds, days=True)}"
    if spec.requeues:
        yield f"signal=B:USR1@{warning_seconds(spec)}"
    if spec.queue:
        yield f"partition={spec.queue}"
    if spec.features:
        yield f"constraint={'&'.join(spec.features)}"
    if spec.hosts:
        yield f"nodelist={','.join(spec.hosts)}"
    if spec.exclusive:
        yield "exclusive"
    if spec.account:
        yield f"account={spec.account}"
    if spec.qos:
        yield f"qos={spec.qos}"
    if spec.array:
        yield f"array={spec.array}"
    if spec.after:
        yield f"dependency=afterok:{spec.after}"
    if spec.begin:
        yield f"begin={spec.begin}"
    if spec.mail_to:
        yield f"mail-user={spec.mail_to}"
    if spec.mail_on:
        events = [one.upper() for one in ("begin", "end", "fail") if one in spec.mail_on]
        yield f"mail-type={','.join(events)}"
    # sbatch hands over the whole environment unless it is told not to. Variables of Slurm's own
    # always go along.
    yield f"export={'ALL' if spec.copy_environment else ','.join(spec.variables) or 'NONE'}"


def _pbs(spec: JobSpec) -> Iterator[str]:
    """The options of Torque's qsub. Slurm's `qsub`, and sbatch itself, read nearly all of them."""
    yield f"N {_pbs_name(spec.name)}"
    yield "S /bin/bash"  # or Torque would take the user's own shell
    # Torque hands output over when the job ends, so the script itself writes it where it is read.
    yield f"o {spec.folder}/scheduler.out"
    yield "j oe"
    yield "r y"  # when a node is lost the job starts again, and its attempts say so
    yield f"l {_pbs_nodes(spec)}"
    memory = node_memory(spec)
    if memory is None and spec.memory_per_core:
        memory = spec.memory_per_core * (spec.cores or 1) * spec.processes
    if memory:
        yield f"l mem={_mebibytes(memory * spec.nodes)}mb"  # of all nodes together
    seconds = wall_seconds(spec)
    if seconds:
        yield f"l walltime={_clock(seconds)}"
    if spec.exclusive:
        yield "l naccesspolicy=singlejob"
    if spec.qos:
        yield f"l qos={spec.qos}"
    if spec.queue:
        yield f"q {spec.queue}"
    if spec.account:
        yield f"A {spec.account}"
    if spec.array:
        yield f"t {_without_steps(spec.array)}"
    if spec.after:
        kind = "afterokarray" if "[]" in spec.after else "afterok"
        yield f"W depend={kind}:{spec.after}"
    if spec.begin:
        digits = re.sub(r"\D", "", spec.begin)
        yield f"a {digits[:12]}" + (f".{digits[12:]}" if digits[12:] else "")
    if spec.mail_to:
        yield f"M {spec.mail_to}"
        letters = {"fail": "a", "begin": "b", "end": "e"}
        yield f"m {''.join(letters[one] for one in letters if one in spec.mail_on) or 'n'}"
    if spec.copy_environment:
        yield "V"
    yield f"v {','.join((f'FORERUN_UID={spec.uid}', *spec.variables))}"


def _pbs_name(name: str) -> str:
    """A job's name as every Torque takes it: it begins with a letter and is short."""
    return (name if name[0].isalpha() else f"j{name}")[:LONGEST_NAME]


def _pbs_nodes(spec: JobSpec) -> str:
    """The nodes, each with as many slots as its processes have cores."""
    parts = [f"ppn={spec.processes * (spec.cores or 1)}"]
    if spec.accelerators:
        parts.append(f"gpus={spec.accelerators}")
    each = ":".join((*parts, *spec.features))
    others = spec.nodes - len(spec.hosts)
    wanted = (*spec.hosts, str(others)) if others else spec.hosts
    return "nodes=" + "+".join(f"{one}:{each}" for one in wanted)


def _without_steps(array: str) -> str:
    """An array as Torque takes it, where ranges have no steps: each number is written out."""
    numbers, percent, most = array.partition("%")
    parts: list[str] = []
    for part in numbers.split(","):
        span, colon, step = part.partition(":")
        if not colon:
            parts.append(part)
            continue
        first, last = map(int, span.split("-"))
        found = range(first, last + 1, max(1, int(step)))
        if len(parts) + len(found) > MOST_TASKS:
            expected = f"at most {MOST_TASKS} numbers where PBS has no steps"
            raise InputError("job, array", array, expected)
        parts += [str(number) for number in found]
    return ",".join(parts) + percent + most


def _path(spec: JobSpec, path: str) -> str:
    """Where output goes: below the folder unless absolute, and for each task of an array apart."""
    return (path if path.startswith("/") else f"{spec.folder}/{path}") + (
        ".%a" if spec.array else ""
    )


def _blanks(path: str) -> str:
    """A path for sbatch, which takes what is between quotation marks as one word."""
    return f'"{path}"' if " " in path else path


def _mebibytes(size: int) -> int:
    return -(-size // MEBIBYTE)


def _clock(seconds: int, *, days: bool = False) -> str:
    """Hours, minutes and seconds, with days before them where asked for and reached."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24) if days else (0, hours)
    return (f"{day}-" if day else "") + f"{hour:02}:{minute:02}:{second:02}"
