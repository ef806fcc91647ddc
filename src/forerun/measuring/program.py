"""A program to time: the template of its command, and all that surrounds a run of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from forerun import levers
from forerun._values import printable
from forerun.errors import InputError, StudyError
from forerun.factors import Point, Role, Space
from forerun.jobs.command import Command, check_program
from forerun.jobs.marker import Marker
from forerun.measuring.holes import Template, Text, check_holes
from forerun.study import Study

NOTE = "programs"  # of a study, under which everything but the commands' texts is kept

# Or times would mean something else.
_MUST_STAY = ("shell", "marker", "prepare", "environment", "levers")
_MAY_CHANGE = ("cleanup", "directory", "timeout")


@dataclass(frozen=True)
class Program:
    """A command with holes, and what surrounds each run of it.

    `prepare`, `cleanup` and the values of `environment` may have holes too. `levers` are factors
    that no text has a hole for: variables set them, unless `environment` has those.
    """

    template: Template
    directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None  # seconds
    prepare: Template | None = None
    cleanup: Template | None = None
    marker: Marker | None = None
    levers: tuple[str, ...] = ()
    # Roles whose factors a place sees to that is not this machine; None: it runs here.
    placed: frozenset[Role] | None = None

    def __post_init__(self) -> None:
        for name in self.environment:
            if not name or "=" in name or not name.isprintable():
                raise InputError("environment", name, "the name of a variable")
        printable("directory", str(self.directory or ""), InputError)  # a study keeps it
        for text in self.texts:
            _ = text.holes  # InputError where braces are not closed
        if self.timeout is not None and not 0 < self.timeout < float("inf"):
            raise InputError("timeout", self.timeout, "a positive number of seconds")
        for name in self.levers:
            if not levers.is_lever(name):
                raise InputError("levers", name, "factors that forerun can set from outside")

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        shell: bool = False,
        prepare: str = "",
        cleanup: str = "",
        marker: str = "",
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float | None = None,
        levers: Iterable[str] = (),
    ) -> Program:
        """A program from texts as typed; `shell` holds for `prepare` and `cleanup` too."""
        return cls(
            Template.parse(text, shell),
            directory=directory,
            environment=dict(environment or {}),
            timeout=timeout,
            prepare=Template.parse(prepare, shell) if prepare else None,
            cleanup=Template.parse(cleanup, shell) if cleanup else None,
            marker=Marker(marker) if marker else None,
            levers=tuple(levers),
        )

    @property
    def texts(self) -> Sequence[Template | Text]:
        """All its texts that may have holes, the command first."""
        others = [template for template in (self.prepare, self.cleanup) if template is not None]
        return [self.template, *others, *map(Text, self.environment.values())]

    def over(self, space: Space) -> Program:
        """The program for these factors: those that it has no holes for are its levers.

        InputError unless each is one or the other.
        """
        return replace(self, levers=check_holes(self.texts, space, self.placed or ()))

    @property
    def overruled(self) -> dict[str, tuple[str, ...]]:
        """The levers some of whose variables its own environment sets, and those variables."""
        own = {
            name: tuple(v for v in levers.variables_of(name) if v in self.environment)
            for name in self.levers
        }
        return {name: found for name, found in own.items() if found}

    def check_installed(self, space: Space) -> None:
        """InputError unless this machine has the program, and those that prepare and clean up.

        What another place has only that place can tell.
        """
        if self.placed is not None:
            return
        command = self.command(Point({name: (f.values or (0,))[0] for name, f in space.items()}))
        for words in filter(None, (command.words, command.prepare, command.cleanup)):
            check_program(words, command.directory, command.environment)

    def command(self, point: Point) -> Command:
        """The command to run at a point."""
        pulled = (levers.variables(name, point[name]) for name in self.levers)
        environment = {k: v for variables in pulled for k, v in variables.items()}
        environment |= {k: Text(v).fill(point) for k, v in self.environment.items()}
        return Command(
            words=self.template.fill(point),
            directory=self.directory,
            environment=environment,
            timeout=self.timeout,
            prepare=self.prepare.fill(point) if self.prepare else (),
            cleanup=self.cleanup.fill(point) if self.cleanup else (),
            marker=self.marker,
        )

    def to_dict(self) -> dict[str, Any]:
        """All but the command's text, as JSON holds it; levers only where it has some."""
        return {
            "shell": self.template.shell,
            "prepare": self.prepare.text if self.prepare else "",
            "cleanup": self.cleanup.text if self.cleanup else "",
            "marker": self.marker.pattern if self.marker else "",
            "directory": str(self.directory) if self.directory else None,
            "environment": dict(self.environment),
            "timeout": self.timeout,
            **({"levers": list(self.levers)} if self.levers else {}),
        }


def as_program(command: str | Template | Program) -> Program:
    """The program of a text as typed, or of a template, with nothing around it."""
    if isinstance(command, Program):
        return command
    return Program(command) if isinstance(command, Template) else Program.parse(command)


def programs_in(study: Study) -> dict[str, Program]:
    """The programs that a study was measured with, by name.

    Only to be run if `trust.made_here(study)`, or if the user has seen and confirmed them.
    """
    found, notes = {}, study.note(NOTE) or {}
    for name, text in study.commands.items():
        try:
            kept = dict(notes.get(name, {}))
            directory = kept.pop("directory", None)
            found[name] = Program.parse(
                text, directory=None if directory is None else Path(directory), **kept
            )
        except (InputError, TypeError, AttributeError, ValueError) as error:
            where = f"{study.path}, {label(name)}"
            raise StudyError(where, f"a damaged description ({error})", "one by forerun") from error
    return found


def keep_programs(
    study: Study, programs: Mapping[str, Program], *, for_later: bool = False
) -> None:
    """Add programs to a study; StudyError if one that it has by that name is another.

    A clean-up, a directory or a time-out that the study has otherwise holds for this time alone,
    unless they are kept `for_later` too.
    """
    before, after = study.note(NOTE) or {}, {}
    for name, program in programs.items():
        known, now = before.get(name, {}), program.to_dict()
        _check_same(study, name, known, now)
        as_before = {one: known[one] for one in _MAY_CHANGE if one in known}
        after[name] = now if for_later else now | as_before
    for name, program in programs.items():
        study.add_command(name, program.template.text)
    if before | after != before:
        study.set_note(NOTE, before | after)


def label(name: str) -> str:
    """What a command is called: `command eager`, or only `command` where it has no name."""
    return f"command {name}".strip()


def timed(study: Study) -> set[str]:
    """The names of the commands of which a run has ended well."""
    return {run.variant for run in study.runs("ok")}


def _check_same(study: Study, name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """What changes the meaning of the times must stay as soon as there are any."""
    now = {"levers": [], **now}
    before = {**now, "levers": [], **before} if before else now
    for setting in _MUST_STAY:
        if before[setting] != now[setting] and name in timed(study):
            where = f"{study.path}, {label(name)}, {setting}"
            raise StudyError(where, _words(now[setting]), f"as before: {_words(before[setting])}")


def _words(setting: object) -> str:
    if isinstance(setting, Mapping):
        setting = ", ".join(f"{name}={value}" for name, value in setting.items())
    if isinstance(setting, list):
        setting = ", ".join(setting)
    return str(setting) or "none"
