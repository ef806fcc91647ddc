"""Jobs of all kinds, by name, and the schedulers that each is written for: the golden files."""

from __future__ import annotations

from dataclasses import replace

from forerun.jobs.script import Scheduler
from forerun.jobs.spec import Container, JobSpec, Staging

UID = "0123456789abcdef0123456789abcdef"
GIB = 2**30

PLAIN = JobSpec(
    name="lenet",
    words=("python", "train.py", "--batch", "64"),
    folder="/shared/jobs/lenet",
    uid=UID,
    made_by=("Made by forerun 0.1.0 from plan 1a2b3c of lenet.", "Predicted: 5 min, 4 to 6 min."),
)
FULL = replace(
    PLAIN,
    name="all-options",
    words=("./train", "--name", "it's", "--data=${FORERUN_DATA}/train", "--rate", "$5"),
    expand=True,
    folder="/shared/jobs/all-options",
    directory="/shared/my project",
    environment={"OMP_NUM_THREADS": "4", "GREETING": 'a "b" $HOME `c`'},
    cores=4,
    accelerators=2,
    accelerator="nvidia",
    memory=16 * GIB,
    memory_per_core=GIB,
    walltime=90061.5,
    queue="normal",
    features=("mc", "ssd"),
    hosts=("n1",),
    exclusive=True,
    account="project-1",
    qos="high",
    array="1,4-8:2%2",
    after="41",
    begin="2027-01-31T18:00",
    output="train.out",
    errors="train.err",
    mail_to="user@example.org",
    mail_on=("fail", "begin", "end"),
    variables=("EDITOR", "LANG"),
    prologue=(("module", "load", "cuda"), ("export", "A=b c")),
    epilogue=(("rm", "-rf", "${FORERUN_DATA}"),),
    source="https://example.org/code/train-1.2.tar.gz",
    build=(("make", "-j", "4"),),
    staging=Staging("/archive/images", "/scratch/images"),
)
ALONE = replace(FULL, array=None, after=None, begin=None)  # without a scheduler
TORCHRUN = replace(PLAIN, launcher="torchrun", nodes=2, processes=2, cores=3)
TENSORFLOW = replace(PLAIN, launcher="tensorflow", nodes=2, processes=2)
MXNET = replace(PLAIN, launcher="mxnet", nodes=2, processes=2)
MPI = replace(PLAIN, words=("./solve", "input"), launcher="mpi", nodes=2, processes=12, cores=2)
STAGED = replace(PLAIN, nodes=2, staging=Staging("/archive/images", "/local/images"))
STAGED_AGAIN = replace(
    PLAIN, requeues=1, staging=Staging("/archive/images", f"/scratch/forerun-{UID}")
)
AGAIN = replace(PLAIN, walltime=3600.0, requeues=3)
SIF = Container("apptainer", "/images/lenet.sif", ("/archive",))
GPU = replace(
    PLAIN,
    container=SIF,
    accelerators=1,
    accelerator="nvidia",
    environment={"LD_PRELOAD": "/usr/lib/libtcmalloc.so", "OMP_NUM_THREADS": "4"},
)
BUILT = replace(
    PLAIN,
    words=("./xthi",),
    launcher="mpi",
    processes=2,
    source="https://example.org/affinity/Xthi.c",
    build=(("mpicc", "-o", "xthi", "-fopenmp", "Xthi.c"),),
    container=replace(SIF, runtime="singularity", image="docker://example/mpich:3.1.4"),
)

SPECS: dict[str, tuple[JobSpec, tuple[Scheduler, ...]]] = {
    "plain": (PLAIN, ("slurm", "pbs", "none")),
    "full": (FULL, ("slurm", "pbs")),
    "alone": (ALONE, ("none",)),
    "several": (replace(PLAIN, processes=3), ("slurm", "none")),
    "torchrun": (TORCHRUN, ("slurm", "pbs")),
    "torchrun-here": (replace(TORCHRUN, nodes=1), ("slurm", "none")),
    "tensorflow": (TENSORFLOW, ("slurm", "pbs")),
    "tensorflow-here": (replace(TENSORFLOW, nodes=1), ("none",)),
    "tensorflow-array": (replace(TENSORFLOW, array="1-3"), ("pbs",)),
    "mxnet": (MXNET, ("slurm",)),
    "mxnet-here": (replace(MXNET, nodes=1), ("none",)),
    "mpi": (MPI, ("slurm", "pbs")),
    "mpi-here": (replace(MPI, nodes=1), ("none",)),
    "staged": (STAGED, ("slurm", "pbs")),
    "staged-again": (STAGED_AGAIN, ("slurm", "none")),
    "again": (AGAIN, ("slurm", "pbs", "none")),
    "again-array": (replace(AGAIN, array="1-3", processes=2), ("slurm", "pbs")),
    "apptainer": (GPU, ("slurm",)),
    "built": (BUILT, ("pbs",)),
    "docker": (replace(GPU, container=replace(SIF, runtime="docker", image="lenet:1")), ("none",)),
    "podman": (
        replace(GPU, container=replace(SIF, runtime="podman", image="lenet:1"), accelerator="amd"),
        ("none",),
    ),
    "charliecloud": (
        replace(
            PLAIN,
            container=replace(SIF, runtime="charliecloud", image="/images/lenet"),
            source="https://example.org/lenet.git",
            build=(("make",),),
        ),
        ("slurm",),
    ),
}
