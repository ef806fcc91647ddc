"""The part that a factor plays where that matters, and how its name gives it away."""

import re
from typing import Literal

Kind = Literal["numeric", "categorical"]
Role = Literal[
    "workers",
    "nodes",
    "threads",
    "batch",
    "steps",
    "partition",
    "storage",
    "compiler",
    "precision",
    "device",
]

# Roles that count something, which only a numeric factor can.
COUNTED: frozenset[Role] = frozenset({"workers", "nodes", "threads", "batch", "steps"})

_WORDS: dict[Role, str] = {
    "device": "device accelerator hardware",
    "precision": "precision dtype amp",
    "compiler": "compiler xla jit",
    "storage": "storage filesystem disk",
    "partition": "partition queue",
    "batch": "batch batchsize minibatch bsz bs",
    "steps": "steps epochs iterations iters",
    "nodes": "nodes nnodes hosts machines",
    "threads": "threads nthreads cores cpus",
    "workers": "workers gpus ngpus processes procs nproc processors ranks replicas world",
}
_ROLES = {word: role for role, words in _WORDS.items() for word in words.split()}


def guess_role(name: str, kind: Kind = "numeric") -> Role | None:
    """The role that a factor's name suggests: `num_gpus` are workers, `batch_per_gpu` is a batch.

    A category never becomes a count. What is counted per node or per process has no role of
    its own, unless it is a batch or threads.
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    words = [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word]
    if "norm" in words:  # batch normalisation is no batch
        return None
    counted = words[: words.index("per")] if "per" in words else words
    for role in (_ROLES[word] for word in counted if word in _ROLES):
        per_something = counted is not words and role in {"workers", "nodes"}
        if not per_something and (kind == "numeric" or role not in COUNTED):
            return role
    return None
