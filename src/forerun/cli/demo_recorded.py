"""The demonstration on runs that ship with the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from forerun import _outputs
from forerun.cli.demo_steps import say, type_
from forerun.errors import InputError
from forerun.quantities import amount, percent

if TYPE_CHECKING:
    import pandas as pd

INTRINSIC = ("kernel", "filters", "activation", "optimiser")
FACTORS = (*INTRINSIC, "batch", "samples", "workers")
_SEED = 0  # of the split: fixed before anything was fitted, and never looked for
_HELD_OUT = 0.2


def walk(output: Path) -> dict[str, Any]:
    """Every step in turn; what came out of it is what `--json` prints."""
    learnt, unseen = split(shipped_runs())
    output.mkdir(parents=True, exist_ok=True)
    table, study, page = output / "lenet.csv", output / "lenet.db", output / "report.html"
    _write(table, learnt)
    _write(output / "unseen.csv", unseen)
    say(_opening(len(learnt), len(unseen)))
    columns = ["--factors", ",".join(FACTORS), "--intrinsic", ",".join(INTRINSIC)]
    type_("import", str(table), "-o", str(study), *columns, "--memory", "memory_bytes")
    type_("fit", str(study))
    type_("explain", str(study))
    values = [f"{name}={unseen.iloc[0][name]}" for name in FACTORS]
    type_("predict", str(study), *(word for value in values for word in ("-f", value)))
    verdict = _judge(study, unseen)
    say(_comparison(verdict))
    type_("report", str(study), "-o", str(page))
    say(_closing(page))
    return {"directory": str(output), "study": str(study), "page": str(page), **verdict}


def _write(path: Path, runs: pd.DataFrame) -> None:
    """Write a table to a new file, or find it there from an earlier demonstration."""
    content = runs.to_csv(index=False).encode()
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(str(path), "a link or no file", "another directory for the demonstration")
    if not path.exists():
        _outputs.write(path, content)
    elif path.read_bytes() != content:
        raise InputError(str(path), "another file", "another directory for the demonstration")


def shipped_runs() -> pd.DataFrame:
    """The table of runs that ships with the package; `lenet.md` beside it says how it was made."""
    from importlib.resources import as_file, files

    import pandas as pd

    with as_file(files("forerun").joinpath("data", "lenet.csv")) as path:
        return pd.read_csv(path)


def split(runs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The runs to learn from, and those of a random fifth of the points, repeats together."""
    points = runs[list(FACTORS)].drop_duplicates()
    kept_apart = points.sample(frac=_HELD_OUT, random_state=_SEED)
    apart = runs.merge(kept_apart, on=list(FACTORS), how="left", indicator=True)["_merge"] == "both"
    return runs[~apart.to_numpy()], runs[apart.to_numpy()]


def _judge(study: Path, unseen: pd.DataFrame) -> dict[str, Any]:
    """How the model does on the runs that were kept from it; the first is the one shown."""
    from forerun.modelling.kept import model_of
    from forerun.study import Study

    with Study.open(study) as opened:
        model = model_of(opened).model
    points, measured = unseen[list(FACTORS)], unseen["seconds"]
    predicted = model.predict(points)
    low, high = model.predict_interval(points, 0.9)
    inside = (measured >= low) & (measured <= high)
    return {
        "measured": float(measured.iloc[0]),
        "predicted": float(predicted[0]),
        "unseen_runs": len(unseen),
        "unseen_error": float(abs(predicted / measured - 1).mean()),
        "unseen_inside": int(inside.sum()),
    }


def _opening(learnt: int, unseen: int) -> str:
    return (
        f"{learnt + unseen} trainings of a small LeNet were timed on one machine. "
        f"forerun learns from {learnt} of them; {unseen} it never sees."
    )


def _comparison(verdict: dict[str, Any]) -> str:
    error = abs(verdict["predicted"] / verdict["measured"] - 1)
    return (
        f"Measured: {amount(verdict['measured'])}, so this prediction was {percent(error)} off. "
        f"Over all {verdict['unseen_runs']} runs that the model never saw, the mean error is "
        f"{percent(verdict['unseen_error'])}, and {verdict['unseen_inside']} of them lie in their "
        "90 % interval."
    )


def _closing(page: Path) -> str:
    return (
        f"The report is {page}: open it in a browser.\n\n"
        "With runs of your own, a table with a column `seconds` and a column for each factor:\n"
        "  forerun import runs.csv -o runs.db\n"
        "  forerun fit runs.db\n"
        "  forerun report runs.db"
    )
