"""`forerun measure`: run a command at well-chosen points and time it, into a study."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.common import BAD_INPUT, INTERRUPTED, Json, pairs, print_json, working
from forerun.errors import InputError

if TYPE_CHECKING:
    from forerun.factors import Space
    from forerun.measuring.asking import Asked
    from forerun.measuring.settings import Settings

_COMMAND, _FACTORS, _POINTS = "Command", "Factors", "Which points"
_WHEN, _RUNS, _WHERE = "When to stop", "Each run", "Where"
_SQLITE = b"SQLite format 3\0"


def _option(
    panel: str | None, metavar: str, text: str, *names: str, default: str | bool = False
) -> Any:
    """An option that may be left out; `default` is only what the help says of that."""
    return typer.Option(
        *names, metavar=metavar, help=text, rich_help_panel=panel, show_default=default
    )


def measure(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="COMMAND|FILE.toml|STUDY",
            help="A command with {factor} where a value goes, a study file, or a study to go on.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        _option(None, "STUDY", "The study to make or to go on with.", "-o", "--output"),
    ] = None,
    command: Annotated[
        list[str] | None, _option(_COMMAND, "NAME=COMMAND", "One of several commands to compare.")
    ] = None,
    directory: Annotated[
        Path | None,
        _option(_COMMAND, "DIR", "Where commands run; without it here.", "-C", "--directory"),
    ] = None,
    env: Annotated[
        list[str] | None,
        _option(_COMMAND, "NAME=VALUE", "A variable for the commands; it may hold {factor}."),
    ] = None,
    shell: Annotated[
        bool | None,
        _option(_COMMAND, "", "Let /bin/sh read the command; values are quoted.", "--shell"),
    ] = None,
    prepare: Annotated[
        str | None, _option(_COMMAND, "COMMAND", "Run before each run, untimed.")
    ] = None,
    cleanup: Annotated[
        str | None, _option(_COMMAND, "COMMAND", "Run after each run, untimed.")
    ] = None,
    trust: Annotated[
        bool, _option(_COMMAND, "", "Run the commands of a study that others made.", "--trust")
    ] = False,
    factors: Annotated[
        list[str] | None,
        _option(
            _FACTORS,
            "NAME=VALUES",
            "A range (batch=16..256), a list (workers=1,2) or categories (act=relu,tanh).",
            "-f",
            "--factor",
        ),
    ] = None,
    intrinsic: Annotated[str, _option(_FACTORS, "A,B", "Factors of the application itself.")] = "",
    categorical: Annotated[
        str, _option(_FACTORS, "A,B", "Factors whose numbers are only names.")
    ] = "",
    unit: Annotated[
        list[str] | None, _option(_FACTORS, "NAME=UNIT", "The unit of a factor.")
    ] = None,
    role: Annotated[
        list[str] | None,
        _option(_FACTORS, "NAME=ROLE", "What a factor counts: workers, nodes, threads, batch …"),
    ] = None,
    design: Annotated[
        str | None,
        _option(
            _POINTS,
            "NAME",
            "adaptive (what teaches the model most a second), grid, latin, d-optimal or random.",
            default="adaptive",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        _option(_POINTS, "EXPRESSION", 'Only points of which it is true: "image >= kernel".'),
    ] = None,
    repeats: Annotated[
        int | None,
        _option(_POINTS, "N", "Runs of each point; adaptive repeats as the noise needs."),
    ] = None,
    seed: Annotated[
        int | None, _option(_POINTS, "N", "Of all random choices.", default="0")
    ] = None,
    error: Annotated[
        str | None,
        _option(_WHEN, "PERCENT", "Stop when the model's error on unseen points is this: 5%."),
    ] = None,
    runs: Annotated[
        int | None,
        _option(_WHEN, "N", "Stop after so many good runs, those of earlier starts included."),
    ] = None,
    budget: Annotated[
        str | None,
        _option(
            _WHEN,
            "SECONDS",
            "Stop when the timed runs together took this (600, 10min, 2h); the last is finished.",
        ),
    ] = None,
    timeout: Annotated[
        str | None, _option(_RUNS, "SECONDS", "End a run that takes longer: 600, 10min, 2h.")
    ] = None,
    marker: Annotated[
        str | None,
        _option(
            _RUNS,
            "REGEX",
            "Take times from the output: the mean time between matching lines, or, with a group, "
            "the last number that it captures.",
        ),
    ] = None,
    warmup: Annotated[
        int | None, _option(_RUNS, "N", "Untimed runs of each command at the start.", default="1")
    ] = None,
    warmup_point: Annotated[
        int | None, _option(_RUNS, "N", "Untimed runs before the first of a point.", default="0")
    ] = None,
    retries: Annotated[
        int | None, _option(_RUNS, "N", "How often a failed run is tried again.", default="1")
    ] = None,
    retry_failed: Annotated[
        bool | None,
        _option(_RUNS, "", "Try again what failed in earlier starts.", "--retry-failed"),
    ] = None,
    retry_disturbed: Annotated[
        bool | None,
        _option(_RUNS, "", "Measure again what other programs disturbed.", "--retry-disturbed"),
    ] = None,
    slots: Annotated[
        int | None,
        _option(
            _RUNS,
            "N",
            "Runs at a time; on one machine they disturb each other.",
            default="1; jobs: as many as fit, up to 4",
        ),
    ] = None,
    on: Annotated[
        str | None,
        _option(
            _WHERE,
            "CLUSTER.yaml",
            "Make each run a job of this cluster (see forerun infra); local: of this machine.",
        ),
    ] = None,
    partition: Annotated[
        str | None, _option(_WHERE, "NAME", "The partition; else the default one, or the first.")
    ] = None,
    framework: Annotated[
        str | None,
        _option(
            _WHERE,
            "NAME",
            "Whose launcher starts the workers of a job: pytorch, tensorflow, mxnet, jax or mpi.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, _option(None, "", "Only print what would be run first.", "--dry-run")
    ] = False,
    json: Json = False,
) -> None:
    """Time a command, as it is, at points chosen so that the model soon knows enough.

    Every run is in the study before the next one starts: stop with Ctrl-C, go on with
    `forerun measure STUDY`. Where nothing says when to stop, the adaptive design does at a stated
    error of 10 %, and at the latest after 60 runs or one hour of runs; other designs run all of
    their points (40, or what `--runs` says; a grid has its own).
    """
    settings = settings_of(
        design=design,
        where=where,
        repeats=repeats,
        seed=seed,
        error=error,
        runs=runs,
        budget=budget,
        timeout=timeout,
        marker=marker,
        warmup=warmup,
        warmup_point=warmup_point,
        retries=retries,
        retry_failed=retry_failed,
        retry_disturbed=retry_disturbed,
        slots=slots,
        on=on,
        partition=partition,
        framework=framework,
        shell=shell,
        prepare=prepare,
        cleanup=cleanup,
        directory=directory,
        env=dict(pairs("--env", env)) or None,
    ).beside(Path())
    described: dict[str, Mapping[str, Any]] = {
        "unit": dict(pairs("--unit", unit)),
        "role": dict(pairs("--role", role)),
        "intrinsic": dict.fromkeys(_names(intrinsic), True),
        "categorical": dict.fromkeys(_names(categorical), True),
    }
    space = space_of(pairs("--factor", factors), described)
    asked = asked_for(what, pairs("--command", command), output, space, settings)
    run(replace(asked, trust=trust), dry_run, json)


def run(asked: Asked, dry_run: bool, json: bool) -> None:
    """Measure what is asked for, or only tell what would be run."""
    from forerun.cli import campaign as shown
    from forerun.cli.foreign import refuse_foreign
    from forerun.cli.places import placed
    from forerun.measuring.asking import campaign_of, rehearsed

    if dry_run:
        asked = placed(asked)
        with rehearsed(asked) as (campaign, rehearsal), working("choosing the first runs"):
            first = shown.first_runs(campaign, rehearsal, asked.study)
        if json:
            print_json(first)
        else:
            shown.print_first_runs(first)
        return
    refuse_foreign(asked)
    campaign = campaign_of(placed(asked, checked=True))
    with shown.progress_shown() as tell:
        summary = campaign.run(tell)
    document = shown.outcome(campaign, summary)
    if json:
        print_json(document)
    else:
        shown.print_outcome(document)
    if summary.ended == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if summary.ended == "failing" or (summary.failed and not summary.done):
        raise typer.Exit(BAD_INPUT)


def settings_of(**options: Any) -> Settings:
    """The settings that flags give; InputError, which names the flag, where one is wrong."""
    from forerun._documents import validated
    from forerun.measuring.settings import Settings

    said = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    return validated(Settings, said, "--")


def space_of(
    given: list[tuple[str, str]], described: Mapping[str, Mapping[str, Any]]
) -> Space | None:
    """The factors that flags give; None where they give none."""
    from forerun.factors import Space
    from forerun.measuring.given import GivenFactor

    names = [name for name, _ in given]
    for option, words in described.items():
        for name in words:
            if name not in names:
                known = f"one of {', '.join(names)}" if names else "a factor given by -f"
                raise InputError(f"--{option}", name, known)
    made = []
    for name, values in given:
        told = {option: words[name] for option, words in described.items() if name in words}
        made.append(GivenFactor.model_validate({"values": values, **told}).factor(name))
    return Space(made) if made else None


def asked_for(
    what: str | None,
    commands: list[tuple[str, str]],
    output: Path | None,
    space: Space | None,
    settings: Settings,
) -> Asked:
    """What to measure: a command or several, a study file, or a study that exists."""
    from forerun.measuring.asking import Asked
    from forerun.measuring.studyfile import read_study_file

    named = dict(commands)
    if len(named) < len(commands):
        raise InputError("--command", "a name twice", "a name of its own for each command")
    if what is not None and named:
        raise InputError("--command", f"also the command {what}", "a name for each of several")
    if what is not None and _is_study_file(what):
        filed = read_study_file(Path(what))
        study = output or filed.study
        return Asked(study, space or filed.space, filed.commands, settings.over(filed.settings))
    if what is not None and _is_study(what):
        if output is not None and output.resolve() != Path(what).resolve():
            raise InputError("-o", output, f"none: the runs go into {what}")
        return Asked(Path(what), space, None, settings)
    if what is None and not named:
        return _going_on(output, space, settings)
    if output is None:
        raise InputError("-o", "none", "a study to put the runs into, such as -o runs.db")
    if space is None and not output.exists():
        from forerun.factors import Space

        space = Space()
    return Asked(output, space, named or {"": what or ""}, settings)


def _going_on(output: Path | None, space: Space | None, settings: Settings) -> Asked:
    from forerun.measuring.asking import Asked

    if output is None or not output.exists():
        raise InputError("command", "none", "a command, a study file or a study that exists")
    return Asked(output, space, None, settings)


def _is_study_file(what: str) -> bool:
    """Whether this is the name of a study file, and no command whose last word is one."""
    return what.endswith(".toml") and (len(what.split()) == 1 or _is_file(what))


def _is_file(what: str) -> bool:
    with suppress(OSError):  # a command may be longer than a name can be
        return Path(what).is_file()
    return False


def _is_study(what: str) -> bool:
    """Whether this is the name of a study; InputError where it was clearly meant to be one."""
    path = Path(what)
    if _is_file(what):
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    if path.suffix in (".db", ".sqlite", ".sqlite3") and len(what.split()) == 1:
        raise InputError(what, "no such file", "a study that exists, or a command")
    return False


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
