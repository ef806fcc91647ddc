"""How to measure: what flags, a study file and the study itself may say, in one model.

Nothing that is left out has a value here, so that what was said later goes over what was said
before; the defaults come last, where the settings are put to use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from forerun._documents import Duration, Share, validated
from forerun.compilers import Framework
from forerun.errors import InputError, StudyError
from forerun.factors import Point, Space
from forerun.jobs.marker import Marker
from forerun.measuring.constraint import Constraint
from forerun.measuring.design import MOST_RUNS, Design, design_by_name
from forerun.measuring.domain import Allowed
from forerun.measuring.holes import Template
from forerun.measuring.program import Program
from forerun.measuring.progress import Limits

_LIMITS = ("runs", "budget", "error")
_NOT_KEPT = ("timeout", "prepare", "cleanup", "marker", "shell", "directory", "env")


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _path(value: object) -> object:
    return Path(value) if isinstance(value, str) and value else value


def _line(text: str) -> str:
    if not text or not text.isprintable():
        raise ValueError("a text of one line, without control characters")
    return text


Text = Annotated[str, AfterValidator(_line)]
Count = Annotated[int, Field(ge=1, le=MOST_RUNS)]
Whole = Annotated[int, Field(ge=0)]
Few = Annotated[int, Field(ge=0, le=1000)]


class Settings(BaseModel):
    """What may be said about measuring; None is not said."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    design: Literal["adaptive", "grid", "latin", "d-optimal", "random"] | None = None
    runs: Count | None = None
    budget: Duration | None = None
    error: Share | None = None
    repeats: Count | None = None
    seed: Whole | None = None
    where: Annotated[tuple[str, ...] | None, Field(strict=False), BeforeValidator(_listed)] = None
    on: Text | None = None  # the file of an infrastructure, or a profile; local: this machine
    partition: Text | None = None
    framework: Framework | None = None  # whose launcher starts workers
    slots: Annotated[int, Field(ge=1, le=1024)] | None = None
    retries: Few | None = None
    retry_failed: bool | None = None
    retry_disturbed: bool | None = None
    warmup: Few | None = None
    warmup_point: Few | None = None
    timeout: Duration | None = None
    prepare: str | None = None
    cleanup: str | None = None
    marker: str | None = None
    shell: bool | None = None
    directory: Annotated[Path | None, BeforeValidator(_path)] = None
    env: dict[str, str] | None = None

    @property
    def said(self) -> dict[str, Any]:
        """What was said."""
        return self.model_dump(exclude_none=True)

    def over(self, before: Settings) -> Settings:
        """These settings where they say something, and those of before where they do not.

        When to stop is one thing: who gives a new limit no longer wants the old ones. Nor does who
        wants another design, whose repeats are its own too. Partitions are those of one place.
        """
        old, new = before.said, self.said
        if "on" in new:
            old.pop("partition", None)
        another = "design" in new and new["design"] != old.get("design", "adaptive")
        if another or any(name in new for name in _LIMITS):
            gone = (*_LIMITS, "repeats") if another else _LIMITS
            old = {name: value for name, value in old.items() if name not in gone}
        if "env" in old and "env" in new:
            new["env"] = old["env"] | new["env"]
        return Settings.model_validate(old | new)

    def beside(self, directory: Path) -> Settings:
        """The same, with the infrastructure's file found from this directory for good."""
        path = directory / (self.on or "")
        if self.on is None or not path.is_file():
            return self
        return self.model_copy(update={"on": str(path.absolute())})

    def kept(self) -> dict[str, Any]:
        """What a study keeps of them, as JSON, to go on in the same way."""
        said = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {name: value for name, value in said.items() if name not in _NOT_KEPT}

    def limits(self) -> Limits:
        """When to stop; a design of known points has its own end."""
        said = self.said
        adaptive = said.get("design", "adaptive") == "adaptive"
        if adaptive and not any(name in said for name in _LIMITS):
            return Limits.usual(said.get("retries", 1))
        return Limits(
            target_error=said.get("error"),
            runs=said.get("runs"),
            budget_seconds=said.get("budget"),
            retries=said.get("retries", 1),
        )

    def constraints(self, space: Space) -> Allowed | None:
        """Which points may be run; InputError unless the constraints speak of the factors."""
        found = [Constraint.parse(text) for text in self.where or ()]
        for one in found:
            one.check(space)

        def allowed(point: Point) -> bool:
            return all(one.allows(point) for one in found)

        return allowed if found else None

    def design_for(self, space: Space, allowed: Allowed | None = None) -> Design:
        """The design over a space; InputError where it does not go with the rest.

        `allowed` says which points may be run where more than these settings do.
        """
        name, repeats = self.design or "adaptive", self.repeats
        if name == "adaptive" and repeats is not None:
            expected = "another --design: the adaptive one repeats as the noise needs"
            raise InputError("--repeats", repeats, expected)
        if name != "adaptive" and self.error is not None:
            expected = "--design adaptive: no other one fits a model as it goes on"
            raise InputError("--error", f"{self.error:g}", expected)
        points = None if self.runs is None else max(1, -(-self.runs // (repeats or 1)))
        return design_by_name(
            name,
            space,
            points=points,
            repeats=repeats or 1,
            seed=self.seed or 0,
            allowed=allowed or self.constraints(space),
        )

    def program(self, text: str) -> Program:
        """The program of a command as typed, with what surrounds it."""
        return Program.parse(
            text,
            shell=bool(self.shell),
            prepare=self.prepare or "",
            cleanup=self.cleanup or "",
            marker=self.marker or "",
            directory=(self.directory or Path()).absolute(),
            environment=self.env,
            timeout=self.timeout,
        )

    def onto(self, program: Program) -> Program:
        """A program that a study has, with what is said now in place of what it had."""
        shell = program.template.shell if self.shell is None else self.shell
        changes: dict[str, Any] = {"template": Template.parse(program.template.text, shell)}
        for name in ("prepare", "cleanup"):
            if (text := getattr(self, name)) is not None:
                changes[name] = Template.parse(text, shell) if text else None
        if self.marker is not None:
            changes["marker"] = Marker(self.marker) if self.marker else None
        if self.directory is not None:
            changes["directory"] = self.directory.absolute()
        if self.timeout is not None:
            changes["timeout"] = self.timeout
        if self.env:
            changes["environment"] = {**program.environment, **self.env}
        return replace(program, **changes)


def kept_settings(document: Mapping[str, Any], study: str) -> Settings:
    """The settings that a study keeps; StudyError if they are not as `kept` gives them."""
    for name in document:
        if name in _NOT_KEPT:
            raise StudyError(f"{study}, kept settings", name, "no part of a command")
    return validated(Settings, document, f"{study}, kept settings: ")
