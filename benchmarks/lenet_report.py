"""The tables of the three frameworks: errors, constants, one model for all, and a new framework."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lenet_constants import Constants, Figure, constants_of
from lenet_costs import costs_of, what_they_say
from lenet_errors import (
    ALONE,
    DEFAULT,
    FEW,
    FORMULA,
    GENERIC,
    METHODS,
    Cache,
    by_method,
    pooled,
    same_error_alone,
    transfer,
)
from lenet_splits import read, repeat_spread
from peers import PEERS
from rich.console import Console
from rich.progress import track
from rich.table import Table

progress = Console(stderr=True)


@dataclass(frozen=True)
class Results:
    """Everything that the tables are made from."""

    tables: dict[str, pd.DataFrame]
    errors: pd.DataFrame  # framework, method, split, error
    pooled: pd.DataFrame  # framework, split, error
    transfer: pd.DataFrame  # framework, seed, runs, others, error
    constants: dict[str, Constants]
    costs: dict[str, dict[str, Figure]]

    @property
    def frameworks(self) -> list[str]:
        """Those that were measured."""
        return list(self.tables)


def results(folder: Path, cache: Path | None) -> Results:
    """Learn everything anew, or take what the cache knows."""
    tables = read(folder)
    known = Cache(cache, tables)

    def tracked(items: Any, words: str, total: int) -> Any:
        return track(items, words, total, console=progress)

    return Results(
        tables,
        by_method(tables, known, tracked),
        pooled(tables, known, tracked),
        transfer(tables, known, tracked),
        {name: constants_of(runs) for name, runs in tables.items()},
        {name: costs_of(runs) for name, runs in tables.items()},
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """A method's mean error, what it is above the default model's, both in per cent of the time,
    and the standard error of that difference over the splits, on which both were tried."""

    error: float
    above: float
    standard_error: float


Summary = dict[str, dict[str, Compared]]  # framework, method


def summary(errors: pd.DataFrame) -> Summary:
    """Every method beside the default model, split by split."""
    found: Summary = {}
    for framework, rows in errors.groupby("framework", sort=False):
        wide = rows.pivot_table(index="split", columns="method", values="error")
        found[str(framework)] = {
            method: Compared(
                float(wide[method].mean()), *_mean_and_error(wide[method] - wide[DEFAULT])
            )
            for method in METHODS
        }
    return found


def _mean_and_error(values: pd.Series[float]) -> tuple[float, float]:
    array = values.to_numpy(float)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(len(array)))


def best_peer(methods: dict[str, Compared]) -> str:
    """The peer of least error, known only afterwards: a harder opponent than any single one."""
    return min(PEERS, key=lambda name: methods[name].error)


def holds(methods: dict[str, Compared]) -> bool:
    """Whether the default model is not above the best peer by more than the standard error."""
    peer = methods[best_peer(methods)]
    return -peer.above <= peer.standard_error


def floor(runs: pd.DataFrame) -> tuple[float, float, int]:
    """Spread of repeats, the error of a perfect model, both in per cent; how many repeated points.

    Of normal errors the mean absolute one is √(2/π) of the standard deviation.
    """
    spread, points = repeat_spread(runs)
    return 100 * spread, 100 * spread * float(np.sqrt(2 / np.pi)), points


def show(found: Results) -> None:
    """Print all tables."""
    console = Console(width=110)
    summed = summary(found.errors)
    for part in (
        runs_table(found),
        errors_table(found, summed),
        constants_table(found),
        ratios_table(found),
        costs_table(found),
    ):
        console.print(part)
    console.print(what_they_say(found.constants, found.costs) + "\n", highlight=False)
    if len(found.frameworks) > 1:
        console.print(pooled_table(found))
        console.print(transfer_table(found))
    for framework in found.frameworks:
        console.print(verdict(framework, summed[framework]), highlight=False)


def runs_table(found: Results) -> Table:
    table = _table("Runs", found.frameworks)
    parts: dict[str, list[str]] = {}
    for runs in found.tables.values():
        spread, perfect, points = floor(runs)
        times = runs["seconds"]
        row = {
            "configurations": f"{runs['point'].nunique()}",
            "runs": f"{len(runs)}",
            "median run": f"{times.median():.1f} s",
            "shortest and longest": f"{times.min():.1f} s, {times.max():.1f} s",
            "other load, median and most": (
                f"{runs['other_load'].median():.2f}, {runs['other_load'].max():.2f} processors"
            ),
            "points repeated": f"{points}",
            "spread between repeats": f"{spread:.1f} %",
            "error of a perfect model": f"{perfect:.1f} %",
        }
        for name, text in row.items():
            parts.setdefault(name, []).append(text)
    for name, texts in parts.items():
        table.add_row(name, *texts)
    return table


def errors_table(found: Results, summed: Summary) -> Table:
    splits = found.errors["split"].nunique()
    title = (
        f"Mean absolute error on unseen runs, % ({splits} random splits, 70 % learnt);"
        " in brackets above forerun's, ± standard error"
    )
    table = _table(title, found.frameworks)
    for method in METHODS:
        cells = []
        for framework in found.frameworks:
            row = summed[framework][method]
            text = f"{row.error:.1f}"
            if method != DEFAULT:
                text += f" ({row.above:+.1f} ± {row.standard_error:.1f})"
            best = method == best_peer(summed[framework])
            cells.append(f"[bold]{text}[/bold]" if best else text)
        table.add_row(method, *cells, end_section=method in (DEFAULT, FORMULA, GENERIC))
    perfect = [f"{floor(runs)[1]:.1f}" for runs in found.tables.values()]
    table.add_row("perfect model: repeats alone", *perfect)
    return table


def constants_table(found: Results) -> Table:
    title = "Constants of the published expression (spread over bootstrap resamples, 5 % to 95 %)"
    table = _table(title, found.frameworks)
    for name in dict.fromkeys(n for each in found.constants.values() for n in each.constants):
        table.add_row(
            name, *(_spread(each.constants.get(name)) for each in found.constants.values())
        )
    return table


def ratios_table(found: Results) -> Table:
    title = "What the published expression makes of a change: times the whole run"
    table = _table(title, found.frameworks)
    for name in next(iter(found.constants.values())).ratios:
        table.add_row(name, *(f"{each.ratios[name]:.2f}" for each in found.constants.values()))
    return table


def costs_table(found: Results) -> Table:
    table = _table("Costs that add", found.frameworks)
    for name in next(iter(found.costs.values())):
        table.add_row(name, *(_spread(each[name]) for each in found.costs.values()))
    return table


def pooled_table(found: Results) -> Table:
    table = _table("One model for each framework, or one over all: mean error, %", found.frameworks)
    own = found.errors[found.errors["method"] == DEFAULT]
    alone = own.pivot_table(index="split", columns="framework", values="error")
    together = found.pooled.pivot_table(index="split", columns="framework", values="error")
    table.add_row("one for each", *(f"{alone[name].mean():.1f}" for name in found.frameworks))
    table.add_row("one over all", *(f"{together[name].mean():.1f}" for name in found.frameworks))
    gains = (_mean_and_error(alone[name] - together[name]) for name in found.frameworks)
    table.add_row("gain", *(f"{gain:+.1f} ± {error:.1f}" for gain, error in gains))
    return table


def transfer_means(found: Results) -> dict[tuple[str, bool, int], float]:
    """The mean error by framework, whether the others were known, and its own runs."""
    rows = found.transfer.groupby(["framework", "others", "runs"])["error"].mean().reset_index()
    keys = zip(rows["framework"], rows["others"], rows["runs"], strict=True)
    return dict(zip(keys, rows["error"].astype(float), strict=True))


def transfer_table(found: Results) -> Table:
    seeds = found.transfer["seed"].nunique()
    title = f"A new framework once the others are known: mean error, % ({seeds} seeds)"
    table = _table(title, found.frameworks)
    means = transfer_means(found)
    cells = [f"{means[name, True, FEW]:.1f}" for name in found.frameworks]
    table.add_row(f"{FEW} runs of it, all of the others", *cells, end_section=True)
    for runs in ALONE:
        cells = [_error(means.get((name, False, runs))) for name in found.frameworks]
        table.add_row(f"{runs} runs of it alone", *cells, end_section=runs == ALONE[-1])
    worth = [same_error_alone(found.transfer, name) for name in found.frameworks]
    texts = [f"{n:.0f}" if np.isfinite(n) else f"more than {ALONE[-1]}" for n in worth]
    table.add_row("runs of it alone for the same error", *texts)
    return table


def verdict(framework: str, methods: dict[str, Compared]) -> str:
    """Whether forerun holds its own against the best peer, in a line."""
    name = best_peer(methods)
    peer, own = methods[name], methods[DEFAULT]
    word = "holds" if holds(methods) else "DOES NOT HOLD"
    return (
        f"{framework}: forerun {own.error:.2f} %, best peer ({name}) {peer.error:.2f} %,"
        f" difference {-peer.above:+.2f} ± {peer.standard_error:.2f} points: {word}"
    )


def document(found: Results) -> dict[str, Any]:
    """The same as JSON."""
    summed = summary(found.errors)
    means = transfer_means(found)
    together = found.pooled.groupby("framework")["error"].mean()
    frameworks = {}
    for name, runs in found.tables.items():
        spread, perfect, points = floor(runs)
        frameworks[name] = {
            "runs": len(runs),
            "points": int(runs["point"].nunique()),
            "median_seconds": float(runs["seconds"].median()),
            "repeated_points": points,
            "repeat_spread_percent": spread,
            "perfect_error_percent": perfect,
            "errors": {method: asdict(one) for method, one in summed[name].items()},
            "best_peer": best_peer(summed[name]),
            "holds": holds(summed[name]),
            "formula": found.constants[name].formula,
            "constants": {n: asdict(f) for n, f in found.constants[name].constants.items()},
            "ratios": {n: asdict(f) for n, f in found.constants[name].ratios.items()},
            "costs": {n: asdict(f) for n, f in found.costs[name].items()},
            "one_model_over_all_error": float(together[name]),
            "few_runs_and_the_others": means.get((name, True, FEW)),
            "alone": {str(n): means.get((name, False, n)) for n in ALONE},
        }
    return {
        "frameworks": frameworks,
        "what_they_say": what_they_say(found.constants, found.costs),
    }


def _table(title: str, frameworks: list[str]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in frameworks:
        table.add_column(name, justify="right")
    return table


def _spread(figure: Figure | None) -> str:
    return (
        ""
        if figure is None
        else f"{_short(figure.value)} ({_short(figure.low)} to {_short(figure.high)})"
    )


def _short(number: float) -> str:
    return "0" if abs(number) < 1e-6 else f"{number:.3g}"


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
