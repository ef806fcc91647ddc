"""What somebody wants run, and what matters to them.

    name: lenet
    application:
      commands:
        eager: python train.py --batch {batch} --workers {workers} --epochs {epochs}
        compiled: python train.py --compile --batch {batch} --workers {workers} --epochs {epochs}
      framework: pytorch
    study: lenet.db
    data: { size: 12 GB, at: home, passes: 90, overlap: true }
    fixed: { epochs: 90, batch: 64 }
    free: { workers: 1..8 }
    objective: time                     # or cost, energy, or { time: 0.7, cost: 0.3 }
    constraints: { deadline: 12h, budget: 40, memory: 16 GiB, efficiency: 70% }
    target: { partition: gpu }

Of the factors of the study those that are fixed have one value, those that are free are the
planner's to choose, and those that neither names are free too, at the values that were measured;
but a batch size, steps or an intrinsic factor that varied must be named, for with another value of
it something else is trained. With `batch_effect` the batch may be freed and its price is counted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from forerun._documents import (
    Count,
    Duration,
    NotNegative,
    Share,
    Size,
    Table,
    read_yaml,
    validated,
)
from forerun.compilers import Framework
from forerun.errors import FactorError, InputError
from forerun.factors import Factor, Value

Goal = Literal["time", "cost", "energy"]
GOALS: tuple[Goal, ...] = ("time", "cost", "energy")


def _plain(text: str) -> str:
    if any(not (c.isprintable() or c in "\n\t") for c in text):
        raise ValueError("a text without control characters")
    return text


def _line(text: str) -> str:
    if not text or not text.isprintable():
        raise ValueError("a text of one line, without control characters")
    return text


def _goals(value: object) -> object:
    """One goal alone is all that matters."""
    return {value: 1.0} if isinstance(value, str) else value


def _described(path: Path, name: str) -> dict[str, int]:
    """The network of an ONNX file beside a request; a module is refused, for its code would run."""
    if not (name.endswith(".onnx") and name.isprintable()):
        raise InputError(f"{path}: network", name, "an ONNX file, or a table with parameters")
    from forerun.describing import describe

    found = describe(str(path.parent / name), batch=1)
    return {"parameters": found.parameters, "activation_bytes": found.activation_bytes}


def _one(value: object) -> str:
    """A value as `-f` takes it."""
    if not isinstance(value, str | int | float):
        raise ValueError("a text, a number, or true or false")
    return str(value)


def _listed(value: object) -> str:
    """Values as `-f` takes them, or a list of them."""
    return ",".join(map(_one, value)) if isinstance(value, list) else _one(value)


def _path(value: object) -> object:
    """A path that a system can have."""
    return _line(value) if isinstance(value, str) else value


Text = Annotated[str, AfterValidator(_plain)]
Line = Annotated[str, AfterValidator(_line)]
Texts = Annotated[tuple[Text, ...], Field(strict=False)]
Lines = Annotated[tuple[Line, ...], Field(strict=False)]
Events = Annotated[tuple[Literal["begin", "end", "fail"], ...], Field(strict=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]


class Application(Table):
    """What is run: one command with holes, or several under their names."""

    command: Text | None = None
    commands: dict[Line, Text] = Field(default_factory=dict)
    framework: Framework = "other"
    version: Text = ""  # of the framework, where it must be that one
    source: Text = ""  # where it comes from, if it must be fetched
    build: Text = ""  # what makes a program of that
    directory: Text = ""  # that it runs in, relative to the request
    image: Text = ""  # of a container that it runs in, as the infrastructure's runtime takes it
    expand: bool = False  # whether `${NAME}` (in a command `${{NAME}}`) is the job's variable

    @model_validator(mode="after")
    def _has_a_command(self) -> Self:
        if (self.command is None) == (not self.commands):
            raise ValueError("a command, or commands under their names")
        return self

    @property
    def named(self) -> dict[str, str]:
        """The commands by name; a single one has none."""
        return dict(self.commands) if self.command is None else {"": self.command}


class Data(Table):
    """What is read in one pass: its size, and the storage that it lies on."""

    size: Size
    at: Text = ""  # a storage of the infrastructure; the first where it is not said
    path: Text = ""  # where it lies there: a job is told, and can bring it elsewhere
    passes: Positive | None = None  # how often all of it is read: the epochs if not said, or once
    measured_at: Text = ""  # the storage that the study's runs read it from; as `at` if not said
    overlap: bool | None = None  # whether it is read while computing, or before; None: not known


class Network(Table):
    """What is trained, in numbers, as `forerun describe` prints them: for memory not measured."""

    parameters: Positive  # trained numbers
    activation_bytes: Size = 0.0  # written by all layers together in a forward pass of one sample
    optimiser: Literal["sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw"] = "adam"


class Constraints(Table):
    """What must hold for a candidate to be chosen."""

    deadline: Duration | None = None  # until the result is there
    budget: Positive | None = None  # in the infrastructure's currency
    memory: Size | None = None  # of each worker
    efficiency: Share | None = None  # speed-up a worker, of one worker's, at least


class BatchEffect(Table):
    """How much more data larger batches need, by the gradient's noise (McCandlish, Pollux).

    A step with batch m teaches `(noise + reference) / (noise + m)` as much a sample as one with the
    reference batch.
    """

    reference: Positive
    noise: Positive  # the batch beyond which larger ones hardly help

    def samples(self, batch: float) -> float:
        """Samples until the same result, of those with the reference batch."""
        return (self.noise + batch) / (self.noise + self.reference)


class Target(Table):
    """Where it may run; all of the infrastructure where nothing is said."""

    infrastructure: Text | None = None  # by its name, where it must be that one
    scheduler: Literal["slurm", "pbs", "kubernetes", "none"] | None = None
    partition: Text | None = None
    nodes: Annotated[int, Field(ge=1)] | None = None  # exactly so many


class Job(Table):
    """What the scheduler is to be told besides, in no scheduler's words."""

    name: Line = "job"
    queue: Line | None = None
    walltime: Duration | None = None
    nodes: Count | None = None
    processes: Count = 1  # on each node
    cores: Count | None = None  # of each node
    cores_per_process: Count | None = None
    ranks: Count | None = None  # of an MPI program, on all nodes
    threads: Count | None = None  # of each process
    accelerators: Count | None = None  # of each node
    memory: Size | None = None  # of each node
    memory_per_core: Size | None = None
    features: Lines = ()  # that the nodes must have
    hosts: Lines = ()  # these nodes and no others
    exclusive: bool = False
    account: Line | None = None
    qos: Line | None = None
    array: Line | None = None
    after: Line | None = None  # a job that must have ended well before
    begin: Line | None = None  # not before this time
    output: Line = "job.out"
    errors: Line | None = None  # where they go apart from the output
    mail_to: Line | None = None
    mail_on: Events = ()
    environment: bool = False  # whether the job gets all variables of who submits it
    variables: Lines = ()  # or these
    prologue: Text = ""
    epilogue: Text = ""
    requeues: Annotated[int, Field(ge=0, le=3)] = 0  # starts anew when its time ends; it must save


class Wishes(Table):
    """What the user would like to have."""

    # Listed first where nothing was measured; what was measured speaks for itself.
    compiler: Literal["inductor", "openvino", "xla", "hybridised"] | None = None
    # Partitions with others are left out, and with an accelerator each worker has one.
    processor: Literal["x86", "arm", "power"] | None = None
    accelerator: Literal["nvidia", "amd", "fpga"] | None = None


class Request(Table):
    """All of it."""

    name: Line = "request"
    task: Literal["training", "inference"] = "training"
    application: Application
    study: Annotated[Path | None, BeforeValidator(_path)] = Field(None, strict=False)
    measured_on: Text | None = None  # the partition whose nodes the study's runs are from
    data: Data | None = None
    network: Network | None = None  # in a file also the name of an ONNX file
    steps: Positive = 1.0  # how often what the study times is done, in one job
    samples: Positive | None = None  # or so many samples: see `amounts.py`
    batch_is: Literal["worker", "total"] = "worker"  # whether the batch is each worker's, or all's
    startup: Duration | None = None  # of a job, before what the study times
    fixed: dict[str, Annotated[str, BeforeValidator(_one)]] = Field(default_factory=dict)
    free: dict[str, Annotated[str, BeforeValidator(_listed)]] = Field(default_factory=dict)
    trial: dict[str, Annotated[str, BeforeValidator(_listed)]] = Field(
        default_factory=dict
    )  # values for short trials
    objective: Annotated[dict[Goal, NotNegative], BeforeValidator(_goals)] = Field({"time": 1.0})
    constraints: Constraints = Constraints()
    batch_effect: BatchEffect | None = None
    target: Target = Target()
    job: Job = Job()
    wishes: Wishes = Wishes()
    notes: Texts = ()  # what its source said and cannot be done

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if not any(self.objective.values()):
            raise ValueError("an objective with at least one weight above 0")
        for name in self.fixed:
            if name in self.free:
                raise ValueError(f"{name} either fixed or free, not both")
        return self

    @classmethod
    def load(cls, path: Path) -> Self:
        """The request of a YAML file; its study and directory are relative to the file."""
        document = read_yaml(path)
        if isinstance(document.get("network"), str):
            document["network"] = _described(path, document["network"])
        found = validated(cls, document, f"{path}: ")
        tables = {"fixed": found.fixed, "free": found.free, "trial": found.trial}
        for table, name, values in (
            (t, *pair) for t, given in tables.items() for pair in given.items()
        ):
            try:
                count = len(Factor.parse(f"{name}={values}").values)
            except FactorError as error:
                raise InputError(f"{path}: {table}: {error}") from None
            if table == "fixed" and count != 1:
                raise InputError(f"{path}: fixed.{name}", values, "one value; free takes several")
        study = None if found.study is None else path.parent / found.study
        here = str(path.parent / found.application.directory)
        application = found.application.model_copy(update={"directory": here})
        return found.model_copy(update={"study": study, "application": application})

    def absolute(self) -> Self:
        """The same, understood from wherever: its study and its directory are absolute paths."""
        study = None if self.study is None else self.study.absolute()
        directory = self.application.directory
        here = os.path.abspath(directory) if directory else ""  # noqa: PTH100 - without its dots
        application = self.application.model_copy(update={"directory": here})
        return self.model_copy(update={"study": study, "application": application})

    def choices(self, name: str) -> tuple[Value, ...] | None:
        """The values that a factor may take, as the request has them; None where it is silent."""
        given = {**self.free, **self.fixed}.get(name)
        return None if given is None else Factor.parse(f"{name}={given}").values

    def score(self, amounts: Mapping[Goal, float], least: Mapping[Goal, float]) -> float:
        """The weighted sum of what a candidate takes, each over the least above 0 of any."""
        total = sum(self.objective.values())
        parts = (
            weight * amounts[goal] / least[goal]
            for goal, weight in self.objective.items()
            if weight
        )
        return sum(parts) / total

    @property
    def main_goal(self) -> Goal:
        """What weighs most."""
        return max(self.objective, key=lambda goal: self.objective[goal])
