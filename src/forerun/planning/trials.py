"""Short trials before a plan, where nothing or too little was measured.

What is tried is what the plan may choose: the request's commands at the values that it fixes or
frees, by the adaptive design, in an interleaved order, on this machine. What would take long in
every run, such as the number of epochs, is given its values for trials by the request:

    trial: { epochs: "1,2" }
"""

from __future__ import annotations

from pathlib import Path

from forerun.errors import InputError
from forerun.factors import VARIANT, Factor, Space
from forerun.measuring import attempts
from forerun.measuring.asking import Asked
from forerun.measuring.holes import Template
from forerun.measuring.settings import Settings
from forerun.planning.request import Request
from forerun.study import Study


def trial_of(request: Request, path: Path, seconds: float) -> Asked:
    """What to measure for a request, within so many seconds of runs; `path` is the request's."""
    study = request.study or path.with_suffix(".db")
    commands = request.application.named
    holes = dict.fromkeys(hole for text in commands.values() for hole in Template.parse(text).holes)
    given = {**request.free, **request.fixed, **request.trial}
    factors = []
    for name in holes:
        if name not in given:
            raise InputError(f"the hole {{{name}}}", "no values", "fixed, free or trial values")
        factors.append(Factor.parse(f"{name}={given[name]}"))
    for name in given:
        if name not in holes and name != VARIANT:
            raise InputError(f"factor {name}", "no hole", f"{{{name}}} in a command")
    if not any(len(factor.values) > 1 for factor in factors) and len(commands) < 2:
        raise InputError(request.name, "one configuration", "a free factor, or several commands")
    spent = attempts.spent(Study.open(study).runs()) if study.exists() else 0.0
    directory = Path(request.application.directory or path.parent)
    settings = Settings(budget=spent + seconds, directory=directory)
    return Asked(study, Space(factors), commands, settings)
