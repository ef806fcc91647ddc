"""The ways in which a framework can run the same training: plain, or through a graph compiler.

Whatever else there is registers itself with `register`. A variant says what makes a job use it: the
environment's variables, and where that is not enough the words that the application must have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Framework = Literal["pytorch", "tensorflow", "mxnet", "jax", "mpi", "other"]

PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a framework's training."""

    name: str
    framework: Framework
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""  # of the application, in words: what no variable can do
    tasks: tuple[str, ...] = ("training", "inference")
    families: tuple[str, ...] = ()  # of processors that it compiles for; all where it says nothing

    def why_not(self, task: str, family: str) -> str:
        """Why it cannot do a task on processors of a family; empty where it can."""
        if task not in self.tasks:
            return f"{self.name} cannot {'train' if task == 'training' else 'infer'}"
        if self.families and family not in self.families:
            return f"{self.name} does not compile for {family} processors"
        return ""


_VARIANTS: dict[tuple[Framework, str], Variant] = {}


def register(variant: Variant) -> None:
    """Let plans consider this variant too."""
    _VARIANTS[variant.framework, variant.name] = variant


def variants(framework: Framework) -> list[Variant]:
    """The variants of a framework, the plain one first."""
    found = [one for one in every() if one.framework == framework]
    return found or [Variant(PLAIN, framework)]


def every() -> list[Variant]:
    """The variants of all frameworks, the plain ones first."""
    return sorted(_VARIANTS.values(), key=lambda one: one.name != PLAIN)


# All variants of a framework set the same variables: what a shell has set must not tell.
for _variant in (
    Variant(PLAIN, "pytorch"),
    Variant("inductor", "pytorch", needs="torch.compile(model) in the application"),
    Variant(
        "openvino",
        "pytorch",
        needs='torch.compile(model, backend="openvino") in the application',
        tasks=("inference",),
        families=("x86", "arm"),
    ),
    Variant(PLAIN, "tensorflow", {"TF_XLA_FLAGS": "--tf_xla_auto_jit=0"}),
    Variant("xla", "tensorflow", {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"}),
    Variant(PLAIN, "jax", {"JAX_DISABLE_JIT": "1"}),
    Variant("xla", "jax", {"JAX_DISABLE_JIT": "0"}),
    Variant(PLAIN, "mxnet"),
    Variant("hybridised", "mxnet", needs="network.hybridize() in the application"),
):
    register(_variant)
