"""What a worker's memory must hold where no run has measured it.

    4 bytes * parameters * (weight, gradient, and what the optimiser keeps of each)
    + activations of a sample * samples of a worker's batch * 2
    + what the framework takes itself

Training keeps every layer's output until its gradient is known, and has those gradients besides:
twice what `forerun describe` counts for a forward pass. Inference keeps them once, and has neither
gradients nor an optimiser. Several workers exchange gradients in buffers of their own, one copy
more. The data set is not counted, nor what an operator wants for itself while it runs. So the
sum is taken 1.25 times: that was enough for 435 of the 441 LeNet runs of benchmarks/measured.
"""

from __future__ import annotations

import math

from forerun import quantities
from forerun.compilers import Framework
from forerun.factors import VARIANT, Point
from forerun.infrastructure import Partition
from forerun.measuring.holes import Template
from forerun.planning.candidates import Roles, uses_devices
from forerun.planning.request import Network, Request

# Of the interval of what was measured whose upper end must fit, a one-sided bound of 97 %: of the
# candidates that it calls feasible under 2 % need more, by benchmarks/memory.py, in each framework.
COVERAGE = 0.94
NUMBER = 4  # bytes of a parameter
KEPT = 2.0  # of the activations: each output, and its gradient
MARGIN = 1.25
NOTE = "memory estimated, not measured"
COPIES = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adagrad": 1, "adam": 2, "adamw": 2}

_MIB = 2.0**20
# Peak resident memory of a process that imports the framework and takes three steps of Adam with a
# network of two layers on images of 8 by 8: PyTorch 2.13.0, TensorFlow 2.21.0, MXNet 1.9.1, JAX
# 0.10.2, one thread, on x86-64 Linux with Python 3.11. An accelerator's
# context is taken to be as large.
BASE: dict[Framework, float] = {
    "pytorch": 302 * _MIB,
    "tensorflow": 517 * _MIB,
    "mxnet": 151 * _MIB,
    "jax": 257 * _MIB,
}


def worker_bytes(
    network: Network,
    batch: float,
    framework: Framework = "other",
    *,
    training: bool = True,
    workers: int = 1,
    half: bool = False,
) -> float:
    """The sum of the module's head, without its margin; `half`: activations of 16 bits."""
    copies = 2 + COPIES[network.optimiser] + (workers > 1) if training else 1
    outputs = network.activation_bytes * batch * (0.5 if half else 1.0)
    fixed = NUMBER * network.parameters * copies + BASE.get(framework, 0.0)
    return fixed + outputs * (KEPT if training else 1.0)


def estimated(request: Request, roles: Roles, point: Point) -> float | None:
    """What a worker may need at a point; None where the request has no network, or no batch."""
    network, name = request.network, roles["batch"]
    if network is None or name is None:
        return None
    workers = roles.count(point, "workers")
    batch = float(point[name]) / (1 if request.batch_is == "worker" else workers)
    return MARGIN * worker_bytes(
        network,
        batch,
        request.application.framework,
        training=request.task == "training",
        workers=workers,
        half=_is_half(request, roles, point),
    )


def _is_half(request: Request, roles: Roles, point: Point) -> bool:
    """Whether the application keeps numbers of 16 bits.

    It does so only where it is told the precision: the lever of that name sets how products are
    computed, and leaves what is kept as it was.
    """
    name = roles["precision"]
    if name is None or "16" not in str(point[name]):
        return False
    named = request.application.named
    command = named.get(str(point.get(VARIANT))) or next(iter(named.values()))
    return name in Template.parse(command).holes


def room(
    request: Request, partition: Partition, roles: Roles, point: Point, nodes: int, measured: bool
) -> float:
    """The memory that a worker has: its device's, or its share of the fullest node's.

    What was measured is a process's own, in the node's memory, whatever it has on a device.
    """
    share = partition.memory / -(-roles.count(point, "workers") // nodes)
    devices = partition.accelerators
    if not measured and uses_devices(request, roles) and devices is not None and devices.memory:
        share = devices.memory
    return min(share, request.constraints.memory or math.inf)


def beside_measured(
    request: Request,
    partition: Partition,
    roles: Roles,
    point: Point,
    nodes: int,
) -> str:
    """What a worker's device lacks where the runs' memory, which is the node's, was measured.

    Empty where it lacks nothing, or nobody knows: the request has no network, or no device.
    """
    devices, need = partition.accelerators, estimated(request, roles, point)
    if need is None or not uses_devices(request, roles) or not (devices and devices.memory):
        return ""
    has = room(request, partition, roles, point, nodes, measured=False)
    if need <= has:
        return ""
    much, little = (quantities.amount(one, "bytes") for one in (need, has))
    return f"memory: a worker may need {much} of its device by estimate, more than {little}"
