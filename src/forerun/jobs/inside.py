"""What stands before a command so that it runs inside an image.

The image sees the folder of the job, the directory that it runs in, staged data and the binds that
were asked for, each under its own name. Variables of the job are set inside, by `env`, so that a
library that only the image has is not loaded into programs of the node.
"""

from __future__ import annotations

from collections.abc import Sequence

from forerun.errors import InputError
from forerun.jobs.quoting import Shell, quote, word
from forerun.jobs.spec import Container, JobSpec

# What launchers set for each process, which docker and podman pass on only by name.
_OF_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE")
_OF_SLURM = ("SLURM_JOB_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS")
_OF_MXNET = ("ROLE", "PS_ROOT_URI", "PS_ROOT_PORT", "NUM_SERVER", "NUM_WORKER")
_SET = {
    "plain": (),
    "torchrun": ("FORERUN_SAVE_BELOW",),
    "tensorflow": ("TF_CONFIG",),
    "mxnet": tuple(f"DMLC_{name}" for name in _OF_MXNET),
    "mpi": _OF_MPI,
}
_SPECIAL = frozenset(':,"\\')  # that runtimes split binds at, or read otherwise


def inside(spec: JobSpec, directories: Sequence[str]) -> Shell:
    """The words before a command, with a blank at their end; nothing where there is no image."""
    container = spec.container
    if container is None:
        return Shell("")
    if not container.image or container.image.startswith("-"):
        raise InputError("job, image", container.image, "a file, a directory or a name")
    bound = _bound(spec, container, directories)
    form = {
        "apptainer": _apptainer,
        "singularity": _apptainer,
        "docker": _docker,
        "podman": _docker,
        "charliecloud": _charliecloud,
    }[container.runtime]
    variables = [quote(f"{name}={value}") for name, value in spec.environment.items()]
    start = form(spec, container, bound)
    return Shell(" ".join([*start, *(["env", *variables] if variables else []), ""]))


def _bound(spec: JobSpec, container: Container, directories: Sequence[str]) -> list[Shell]:
    """The directories that are seen inside, each once."""
    wanted = dict.fromkeys((spec.folder, *directories, *container.binds))
    for path in wanted:
        if not path or path.startswith("-") or set(path) & _SPECIAL:
            raise InputError("job, bind", path, 'a directory without : , " and \\ in its name')
    return [word(path, spec.expand) for path in wanted]


def _apptainer(spec: JobSpec, container: Container, bound: list[Shell]) -> list[str]:
    devices = {"nvidia": ["--nv"], "amd": ["--rocm"]}.get(spec.accelerator, [])
    binds = [part for path in bound for part in ("--bind", path)]
    used = devices if spec.accelerators else []
    return [container.runtime, "exec", *used, *binds, "--pwd", '"$PWD"', quote(container.image)]


def _docker(spec: JobSpec, container: Container, bound: list[Shell]) -> list[str]:
    podman = container.runtime == "podman"
    nvidia = ["--device", "nvidia.com/gpu=all"] if podman else ["--gpus", "all"]
    amd = ["--device", "/dev/kfd", "--device", "/dev/dri"]
    devices = {"nvidia": nvidia, "amd": amd}.get(spec.accelerator, [])
    # Files that the program writes belong to whoever runs the job.
    user = '"${forerun_user[@]}"' if podman else '--user "$(id -u):$(id -g)"'
    return [
        *(container.runtime, "run", "--rm", "--init", user),
        *("--network=host", "--ipc=host"),  # processes find each other, and share batches
        *(devices if spec.accelerators else []),
        *(part for path in bound for part in ("--volume", f"{path}:{path}")),
        *(part for name in _passed(spec) for part in ("--env", name)),
        *("--workdir", '"$PWD"', quote(container.image)),
    ]


def _passed(spec: JobSpec) -> list[str]:
    """Names of the variables that a process gets from outside."""
    of_several = ("FORERUN_RANK", *_OF_SLURM) if spec.nodes * spec.processes > 1 else ()
    data = ("FORERUN_DATA",) if spec.staging else ()
    return ["FORERUN_UID", *data, *of_several, *_SET[spec.launcher], *spec.variables]


def _charliecloud(spec: JobSpec, container: Container, bound: list[Shell]) -> list[str]:
    del spec
    binds = [f"--bind={path}:{path}" for path in bound]
    return ["ch-run", *binds, '--cd="$PWD"', quote(container.image), "--"]
