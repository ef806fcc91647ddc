"""`forerun import`: bring runs from the files of other tools into a study."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.common import Json, counted, note, pairs, print_json, results, shown

if TYPE_CHECKING:
    from forerun.importing import ImportedRuns
    from forerun.importing.adding import Added

_COLUMNS = "Columns"
_FORMATS = "Formats"


def import_(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file, or sqlite:///FILE of Optuna.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="STUDY", help="The study to make or add to.")
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="csv, tsv, optuna, sacct, hyperfine or extra-p; without it the content tells.",
        ),
    ] = None,
    seconds: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="The time. Optuna: duration, value, values:N or user_attrs:NAME.",
            rich_help_panel=_COLUMNS,
        ),
    ] = "",
    time_unit: Annotated[
        str,
        typer.Option(metavar="UNIT", help="ns, us, ms, s, min or h.", rich_help_panel=_COLUMNS),
    ] = "s",
    factors: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="The factors; without it all other columns.",
            rich_help_panel=_COLUMNS,
        ),
    ] = "",
    intrinsic: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="Factors of the application itself.", rich_help_panel=_COLUMNS
        ),
    ] = "",
    categorical: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="Factors whose numbers are only names.", rich_help_panel=_COLUMNS
        ),
    ] = "",
    memory: Annotated[
        str, typer.Option(metavar="COLUMN", help="The peak memory.", rich_help_panel=_COLUMNS)
    ] = "",
    joules: Annotated[
        str, typer.Option(metavar="COLUMN", help="The energy.", rich_help_panel=_COLUMNS)
    ] = "",
    measure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COLUMN", help="Another measured column.", rich_help_panel=_COLUMNS
        ),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=UNIT",
            help="The unit of a factor, memory or joules.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ROLE",
            help="What a factor counts: workers, nodes, threads, batch …",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Only these rows; several values of one column are alternatives.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    status: Annotated[
        str, typer.Option(metavar="COLUMN", help="How each run ended.", rich_help_panel=_COLUMNS)
    ] = "",
    variant: Annotated[
        str, typer.Option(metavar="COLUMN", help="Which command ran.", rich_help_panel=_COLUMNS)
    ] = "",
    study: Annotated[
        str, typer.Option(metavar="NAME", help="Optuna: which study.", rich_help_panel=_FORMATS)
    ] = "",
    pattern: Annotated[
        str,
        typer.Option(
            metavar="REGEX",
            help="sacct: job names that match it; its named groups are factors.",
            rich_help_panel=_FORMATS,
        ),
    ] = "",
    metric: Annotated[
        str,
        typer.Option(metavar="NAME", help="Extra-P: which metric.", rich_help_panel=_FORMATS),
    ] = "",
    region: Annotated[
        str,
        typer.Option(metavar="NAME", help="Extra-P: which region.", rich_help_panel=_FORMATS),
    ] = "",
    as_json: Json = False,
) -> None:
    """Bring runs that you already have into a study: CSV, Optuna, sacct, hyperfine, Extra-P."""
    from forerun.importing import read_runs
    from forerun.importing.adding import add_to_study

    imported = read_runs(
        file,
        format_,
        like=_space(output),
        seconds=seconds,
        time_unit=time_unit,
        factors=factors,
        intrinsic=intrinsic,
        categorical=categorical,
        memory=memory,
        joules=joules,
        measures=dict(pairs("--measure", measure)),
        units=dict(pairs("--unit", unit)),
        roles=dict(pairs("--role", role)),
        where=pairs("--where", where),
        status=status,
        variant=variant,
        study=study,
        pattern=pattern,
        metric=metric,
        region=region,
    )
    added = add_to_study(output, imported)
    document = _document(output, imported, added)
    for one in imported.notes:
        note(one)
    if as_json:
        print_json(document)
    else:
        _print(document)


def _space(path: Path) -> Any:
    """The space of the study, if there is one already."""
    from forerun.study import Study

    if not path.exists():
        return None
    with Study.open(path) as study:
        return study.space


def _document(path: Path, imported: ImportedRuns, added: Added) -> dict[str, Any]:
    from forerun.cli.factor_table import factor_rows

    return {
        "study": str(path),
        "added": added.added,
        "already": added.already,
        "failed": imported.runs.failed,
        "measures": list(imported.runs.measures),
        "factors": factor_rows(imported.space, imported.runs.factors),
        "notes": list(imported.notes),
        "next": f"forerun fit {shlex.quote(str(path))}",
    }


def _print(document: dict[str, Any]) -> None:
    from forerun.cli.factor_table import factor_table

    to = results()
    were = "was" if document["already"] == 1 else "were"
    already = f", {document['already']} {were} there already" if document["already"] else ""
    failed = f"; {document['failed']} of the file's runs failed" if document["failed"] else ""
    count = f"{counted(document['added'], 'run')} added{already}{failed}"
    # Lines that somebody may copy are not broken.
    to.print(f"{shown(document['study'])}: {count}", soft_wrap=True)
    to.print(f"measured: {shown(', '.join(document['measures']))}", soft_wrap=True)
    to.print(factor_table(document["factors"]))
    to.print(f"next: {shown(document['next'])}", soft_wrap=True)
