"""Short trials before a plan, where nothing or too little was measured.

What is tried is what the plan may choose: the request's commands at the values that it fixes or
frees, on this machine, by the adaptive design, which looks for the best of them. What would take
long in every run, such as the number of epochs, is given its values for trials by the request:

    trial: { epochs: "1,2" }

A factor that no command has a hole for may be a lever, such as threads or allocator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from forerun._rows import with_variants
from forerun.compilers import variants
from forerun.errors import InputError
from forerun.factors import VARIANT, Factor, Point, Space
from forerun.measuring import attempts
from forerun.measuring.asking import Asked
from forerun.measuring.domain import Domain
from forerun.measuring.holes import Template, check_holes
from forerun.measuring.settings import Settings
from forerun.planning.amounts import Amounts
from forerun.planning.request import Request
from forerun.study import Study

MOST_WANTED = 1_000  # points of which the best is looked for
COMPILER = "compiler"  # the lever whose values depend on the framework


def trial_of(request: Request, path: Path, seconds: float) -> Asked:
    """What to measure for a request, within so many seconds of runs; `path` is the request's."""
    study = request.study or path.with_suffix(".db")
    commands = request.application.named
    holes = dict.fromkeys(hole for text in commands.values() for hole in Template.parse(text).holes)
    given = {**request.free, **request.fixed, **request.trial}
    for name in holes:
        if name not in given:
            raise InputError(f"the hole {{{name}}}", "no values", "fixed, free or trial values")
    if COMPILER in given and COMPILER not in holes:
        _check_compilers(request, Factor.parse(f"{COMPILER}={given[COMPILER]}"))
    names = dict.fromkeys([*holes, *(name for name in given if name != VARIANT)])
    factors = [Factor.parse(f"{name}={given[name]}") for name in names]
    for text in commands.values():
        check_holes([Template.parse(text)], Space(factors))
    if not any(len(factor.values) > 1 for factor in factors) and len(commands) < 2:
        raise InputError(request.name, "one configuration", "a free factor, or several commands")
    spent = attempts.spent(Study.open(study).runs()) if study.exists() else 0.0
    directory = Path(request.application.directory or path.parent)
    settings = Settings(budget=spent + seconds, directory=directory)
    wanted = _wanted(request, factors, commands)
    return Asked(study, Space(factors), commands, settings, wanted=wanted)


def _wanted(
    request: Request, factors: Sequence[Factor], commands: Mapping[str, str]
) -> dict[Point, float]:
    """What the plan may choose, at the values that it has in earnest; some of it where it is much.

    With each, how often what is timed is done with it. What only trials are given values for may
    have any of them in the plan too; but of steps the most, for fewer are quicker and no better.
    """
    earnest = []
    for factor in factors:
        given, values = request.choices(factor.name), factor.values
        if given is not None:
            values = tuple(map(factor.value, given))
        elif factor.role == "steps":
            values = (max(values, key=float),)
        earnest.append(replace(factor, values=values))
    space = with_variants(Space(earnest), list(commands))
    amounts = Amounts(request, space)
    points = dict.fromkeys(map(amounts.point, Domain(space).draw(MOST_WANTED, seed=0)))
    return {point: amounts.repeats(point) for point in points}


def _check_compilers(request: Request, compiler: Factor) -> None:
    """InputError for one that is none of the framework's, or that only the application can use."""
    framework = request.application.framework
    known = {one.name: one for one in variants(framework)}
    if len(known) == 1:  # nothing is known of the framework
        return
    for value in map(str, compiler.values):
        if value not in known:
            expected = f"one of {', '.join(known)}, those of {framework}"
            raise InputError(f"factor {COMPILER}", value, expected)
        if known[value].needs:
            expected = f"commands, one of which has it: it needs {known[value].needs}"
            raise InputError(f"factor {COMPILER}", value, expected)
