"""The error on held-out runs, beside what people would use instead."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from forerun.factors import Space
from forerun.modelling.held_out import HeldOut, held_out

NAMES = ["forerun", "formula alone", "log-log straight line", "random forest"]
NONE = [HeldOut(name, None, None) for name in NAMES]


def runs(count: int = 60, seed: int = 0) -> pd.DataFrame:
    """0.01·batch/gpus + 0.1 with 2 % noise."""
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "batch": draw.choice([8, 16, 32, 64, 128], count),
            "gpus": draw.choice([1, 2, 4, 8], count),
        }
    )
    noise = np.exp(0.02 * draw.standard_normal(count))
    return table.assign(seconds=(0.01 * table.batch / table.gpus + 0.1) * noise)


def errors(table: pd.DataFrame, **settings: Any) -> list[HeldOut]:
    space = Space.from_table(table.drop(columns="seconds"))
    return held_out(table, "seconds", space, **settings)


def test_forerun_comes_first_and_is_the_best_on_its_own_kind_of_data() -> None:
    found = errors(runs())
    assert [row.name for row in found] == NAMES
    near = {row.name: row.mape for row in found}
    largest = {row.name: row.mape_largest for row in found}
    assert near["forerun"] is not None
    assert 0.01 < near["forerun"] < 0.05
    assert near["log-log straight line"] is not None
    assert near["log-log straight line"] > 2 * near["forerun"]
    assert largest["forerun"] is not None
    assert largest["random forest"] is not None
    assert largest["forerun"] < largest["random forest"]


def test_the_same_seed_gives_the_same_errors() -> None:
    table, quick = runs(30), {"expression": "generic", "strength": 1e-3}
    first = errors(table, **quick)
    assert errors(table, **quick) == first
    assert errors(table, random_state=1, **quick) != first


def test_settings_are_those_of_the_model() -> None:
    found = errors(runs(30), expression="generic", strength=1e-3)
    assert found[0].mape == found[1].mape  # the generic expression is its formula


@pytest.mark.parametrize("count", [2, 7])
def test_too_few_runs_are_not_compared(count: int) -> None:
    assert errors(runs(count)) == NONE


def test_eight_runs_are_enough() -> None:
    found = errors(runs(8))
    assert [row.name for row in found] == NAMES
    assert all(row.mape is not None for row in found)


def test_times_that_never_change_have_no_largest() -> None:
    found = errors(runs(20).assign(seconds=2.0))
    assert [row.name for row in found] == NAMES
    assert all(row.mape is not None and row.mape < 0.01 for row in found)
    assert all(row.mape_largest is None for row in found)


def test_a_level_seen_only_in_held_out_runs_is_left_out() -> None:
    table = runs(40).assign(device="v100")
    table.loc[5, "device"] = "once"
    table.loc[table.seconds.idxmax(), "device"] = "largest"
    found = errors(table)
    assert all(row.mape is not None and row.mape_largest is not None for row in found)


def test_where_every_run_has_its_own_level_nothing_can_be_held_out() -> None:
    table = runs(20)
    assert errors(table.assign(run=[f"r{i}" for i in table.index])) == NONE


def test_a_zero_seen_only_in_held_out_runs_is_left_out() -> None:
    """Learnt without it the factor is a power, of which 0 is none."""
    table = runs(40).assign(padding=1)
    table.loc[::7, "padding"] = 2
    table.loc[5, "padding"] = 0
    found = errors(table)
    assert all(row.mape is not None and row.mape < 0.5 for row in found)


def test_repeats_of_a_point_are_held_out_together() -> None:
    """Each point has its own time, which only its repeats know: nobody can predict it."""
    draw = np.random.default_rng(0)
    seconds = np.exp(draw.standard_normal(30))
    table = pd.DataFrame({"x": np.repeat(np.arange(1, 31), 3), "seconds": np.repeat(seconds, 3)})
    assert all(row.mape is not None and row.mape > 0.3 for row in errors(table))


def test_empty_cells_are_a_level() -> None:
    table = runs(40)
    found = errors(table.assign(compiler=pd.Series("xla", table.index).where(table.index % 2 == 1)))
    assert all(row.mape is not None for row in found)


def test_of_many_runs_a_part_is_compared() -> None:
    found = errors(runs(3_000), expression="generic", strength=1e-3)
    assert all(row.mape is not None and row.mape < 0.3 for row in found)
