from pathlib import Path
from typing import Any

import pytest

from forerun._documents import duration, share, validated
from forerun.errors import InputError
from forerun.factors import Factor, Space
from forerun.measuring.program import Program
from forerun.measuring.settings import Settings

SPACE = Space([Factor("batch", values=(16, 32, 64)), Factor("workers", values=(1, 2))])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(90, 90), ("90", 90), ("1.5", 1.5), ("500ms", 0.5), ("10min", 600), ("10 min", 600),
     ("2h", 7200), ("1h30min", 5400), ("1 h 30 min", 5400), ("2d", 172_800)],
)  # fmt: skip
def test_durations(text: object, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "10 parsecs", "-5", "1e3", "5 5", True, "٣"])
def test_no_durations(text: object) -> None:
    with pytest.raises(ValueError, match="10min"):
        duration(text)


def test_shares() -> None:
    assert share("5%") == share("5 %") == share("0.05") == share(0.05) == 0.05
    for text in ("5", "0", "0%", "100%", "-5%", "five", True):
        with pytest.raises(ValueError, match="percentage"):
            share(text)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"runs": 0}, "--runs: found 0, expected at least 1"),
        ({"runs": "many"}, "--runs: found many, expected a whole number"),
        ({"budget": "soon"}, "--budget: found soon, expected seconds above 0, or a time"),
        ({"budget": 0}, "--budget: found 0, expected more than 0"),
        ({"error": "200%"}, "--error: found 200%, expected a percentage below 100"),
        ({"design": "adaptiv"}, "--design: found adaptiv, expected 'adaptive', 'grid'"),
        ({"budget": "9" * 400}, f"--budget: found {'9' * 79}…, expected a finite number"),
        ({"repeats": 10**9}, "--repeats: found 1000000000, expected at most 1000000"),
        ({"runs": 10**20}, "--runs: found 100000000000000000000, expected at most 1000000"),
        ({"warmup": 10**20}, "--warmup: found 100000000000000000000, expected at most 1000"),
        ({"slots": 10**6}, "--slots: found 1000000, expected at most 1024"),
        ({"desing": "grid"}, "--desing: found a field of that name, expected one of design, runs"),
    ],
)
def test_what_is_wrong_is_named(said: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        validated(Settings, said, "--")
    assert str(raised.value).startswith(message)


def test_what_is_said_now_goes_over_what_was_said_before() -> None:
    before = Settings(design="grid", repeats=3, env={"A": "1", "B": "2"})
    now = Settings(repeats=2, env={"B": "3"})
    merged = now.over(before)
    assert merged.said == {"design": "grid", "repeats": 2, "env": {"A": "1", "B": "3"}}


def test_a_new_limit_replaces_all_the_old_ones() -> None:
    before = Settings(runs=20, budget=60.0, seed=1)
    assert Settings(error=0.05).over(before).said == {"error": 0.05, "seed": 1}
    assert Settings(slots=2).over(before).said == {"runs": 20, "budget": 60, "seed": 1, "slots": 2}


def test_a_study_keeps_how_to_go_on_but_nothing_that_its_programs_keep() -> None:
    said = validated(Settings, {"where": "batch > 16", "warmup-point": 1, "timeout": "1min"})
    kept = said.kept()
    assert kept == {"where": ["batch > 16"], "warmup-point": 1}
    assert validated(Settings, kept).where == ("batch > 16",)


def test_without_a_limit_the_adaptive_design_has_some() -> None:
    limits = Settings().limits()
    assert (limits.target_error, limits.runs, limits.budget_seconds) == (0.1, 60, 3600)
    limits = Settings(runs=5).limits()
    assert (limits.target_error, limits.runs, limits.budget_seconds) == (None, 5, None)
    assert Settings(design="grid").limits().runs is None


def test_runs_are_the_size_of_a_design_that_has_to_be_told() -> None:
    latin = Settings(design="latin", runs=4, repeats=2).design_for(SPACE)
    assert latin.total == 4
    grid = Settings(design="grid", repeats=3).design_for(SPACE)
    assert grid.total == 18


def test_constraints_all_hold() -> None:
    settings = Settings(design="grid", where=("batch > 16", "workers == 1"))
    assert settings.design_for(SPACE).total == 2
    with pytest.raises(InputError, match="one of batch, workers"):
        Settings(where=("bacth > 16",)).design_for(SPACE)
    with pytest.raises(InputError, match="no point"):
        Settings(design="grid", where=("batch > 999",)).design_for(SPACE).next([], [], 1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(repeats=2), "--repeats"),
        (Settings(design="grid", error=0.05), "--error"),
    ],
)
def test_what_does_not_go_together(settings: Settings, said: str) -> None:
    with pytest.raises(InputError, match=said):
        settings.design_for(SPACE)


def test_a_programs_settings_change_only_where_something_is_said(tmp_path: Path) -> None:
    program = Program.parse(
        "train {batch}", prepare="make", marker="epoch", directory=tmp_path, timeout=5.0
    )
    assert Settings().onto(program) == program
    changed = Settings(timeout=9.0, prepare="", env={"A": "1"}).onto(program)
    assert (changed.timeout, changed.prepare, changed.environment) == (9.0, None, {"A": "1"})
    assert (changed.marker, changed.directory) == (program.marker, tmp_path)


def test_another_design_forgets_the_limits_and_repeats_of_the_old_one() -> None:
    before = Settings(design="grid", repeats=3, runs=20, seed=1)
    assert Settings(design="adaptive").over(before).said == {"design": "adaptive", "seed": 1}
    assert Settings(design="grid").over(before) == before
    assert Settings(design="latin").over(Settings(error=0.05)).said == {"design": "latin"}


def test_partitions_are_those_of_one_place(tmp_path: Path) -> None:
    before = Settings(on="/one.yaml", partition="cpu", framework="pytorch")
    assert Settings(partition="gpu").over(before).said == {**before.said, "partition": "gpu"}
    moved = Settings(on="local").over(before).said
    assert moved == {"on": "local", "framework": "pytorch"}
    (tmp_path / "two.yaml").touch()
    assert Settings(on="two.yaml").beside(tmp_path).on == str(tmp_path / "two.yaml")
    assert Settings(on="a-profile").beside(tmp_path).on == "a-profile"
    assert before.kept() == {"on": "/one.yaml", "partition": "cpu", "framework": "pytorch"}
