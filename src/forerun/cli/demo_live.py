"""The demonstration on this machine: a PyTorch training, measured, learnt, deployed, and split."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forerun.cli.common import note
from forerun.cli.demo_deploy import deploy
from forerun.cli.demo_split import can_split, split
from forerun.cli.demo_steps import say, type_
from forerun.cli.tables import words as words_of
from forerun.errors import InputError
from forerun.quantities import amount, between, percent, seconds

if TYPE_CHECKING:
    from forerun.factors import Point
    from forerun.study import Study

FACTORS = {
    "filters": "4..64",
    "batch": "16..256",
    "chunks": "1..8",
    "workers": "1,2",
}
INTRINSIC = "filters"
_SEED = 0  # of the order in which configurations are drawn to be predicted
_ERROR = "5%"
_COVERAGE = 0.9


def trainer() -> list[str]:
    """The program that trains: of this Python if it has PyTorch, else of an environment for it.

    The trained network is exported in the end, so what that takes counts as part of PyTorch.

    InputError where no environment can be made.
    """
    from forerun.workloads.environments import FRAMEWORKS, state, words

    pytorch = FRAMEWORKS["pytorch"]
    if all(importlib.util.find_spec(name) for name in ("torch", "onnx", "onnxscript")):
        return [sys.executable, str(pytorch.script)]
    if state(pytorch) != "ready":
        pins = " and ".join(pytorch.packages)
        note(
            f"PyTorch is not here yet: pip fetches {pins}, about {pytorch.megabytes} MB on the"
            f" disk, into {pytorch.directory}"
        )
        type_("workload", "setup", "pytorch")
    return words(pytorch)


def walk(output: Path, training: Sequence[str], budget: str) -> dict[str, Any]:
    """Every step in turn; what came out of it is what `--json` prints."""
    from forerun._documents import duration
    from forerun.study import Study

    output.mkdir(parents=True, exist_ok=True)
    file, page = output / "lenet.db", output / "report.html"
    say(
        "A small LeNet is trained by an ordinary PyTorch script, which knows nothing of forerun."
        f" For {seconds(duration(budget))} forerun runs it at configurations that it chooses,"
        " and learns from the times of the whole runs."
    )
    command = _command(training)
    _measure(file, command, budget)
    study = Study.open(file)
    type_("fit", str(file))
    type_("explain", str(file))
    point = unseen(study)
    say("Now a configuration, drawn at random, that was not run:")
    values = [word for name, value in point.items() for word in ("-f", f"{name}={value}")]
    type_("predict", str(file), *values)
    verdict = _predicted(study, point)
    say("And it is run after all:")
    type_("measure", str(file), *values, "--design", "grid", "--warmup", "0")
    verdict["measured"] = _measured(study, point)
    say(_comparison(verdict))
    made = deploy(output, command, file)
    made |= split(output, training) if can_split() else {}
    beside = ("--split", made["split_study"]) if "split_study" in made else ()
    type_("report", str(file), *beside, "-o", str(page))
    say(_closing(page))
    found = {"directory": str(output), "study": str(file), "page": str(page), **made}
    return {**found, "runs": len(study.runs("ok")), "point": dict(point), **verdict}


def _command(training: Sequence[str]) -> str:
    """The command with a hole for each factor."""
    holes = " ".join(f"--{name} {{{name}}}" for name in FACTORS)
    # A hole is written in braces: those of a path are doubled.
    words = shlex.join(word.replace("{", "{{").replace("}", "}}") for word in training)
    return f"{words} {holes}"


def _measure(file: Path, command: str, budget: str) -> None:
    listed = [word for name, text in FACTORS.items() for word in ("-f", f"{name}={text}")]
    limits = ("--budget", budget, "--error", _ERROR)
    described = ("--intrinsic", INTRINSIC, *limits)
    type_("measure", command, *listed, *described, "-o", str(file))


def unseen(study: Study) -> Point:
    """The first configuration, in a random order, that no run of the study has."""
    from forerun.measuring.domain import Domain

    done = {run.point for run in study.runs()}
    return next(point for point in Domain(study.space).stream(_SEED) if point not in done)


def _predicted(study: Study, point: Point) -> dict[str, Any]:
    import pandas as pd

    from forerun.modelling.kept import model_of

    model = model_of(study).model
    row = pd.DataFrame([dict(point)])
    low, high = model.predict_interval(row, _COVERAGE)
    return {"predicted": float(model.predict(row)[0]), "low": float(low[0]), "high": float(high[0])}


def _measured(study: Study, point: Point) -> float:
    """The seconds of the run that was predicted; InputError, why it is missing, where it failed."""
    runs = [run for run in study.runs() if run.point == point]
    took = next((run.seconds for run in reversed(runs) if run.seconds is not None), None)
    if took is None:
        found = runs[-1].status.replace("_", " ") if runs else "not run"
        expected = "a run that ends well: start the demo again to try another"
        raise InputError(f"the run at {words_of(point)}", found, expected)
    return took


def _comparison(verdict: dict[str, Any]) -> str:
    predicted, measured = verdict["predicted"], verdict["measured"]
    low, high = verdict["low"], verdict["high"]
    off = percent(abs(predicted / measured - 1))
    where = "inside" if low <= measured <= high else "outside"
    return (
        f"Predicted: {amount(predicted)} (90 % of such runs: {between(low, high)}).\n"
        f"Measured:  {amount(measured)}. The prediction was {off} off,"
        f" the run is {where} the interval."
    )


def _closing(page: Path) -> str:
    return (
        f"The report is {page}: open it in a browser.\n\n"
        "With a program of your own:\n"
        "  forerun measure 'python train.py --batch {batch}' -f batch=16..256 -o runs.db\n"
        "  forerun fit runs.db\n"
        "  forerun report runs.db\n"
        "  forerun plan request.yaml -o plan.json\n"
        "  forerun deploy plan.json --wait\n"
        "  forerun split cut network.onnx --devices 4 -o boards"
    )
