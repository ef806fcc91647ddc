"""CSV and TSV: what becomes of each column, and one exact line for everything that is wrong."""

import os
from pathlib import Path
from typing import Any

import pytest

from forerun.errors import DataWarning, InputError, TableError
from forerun.importing import read_runs

FIXTURES = Path(__file__).parent / "fixtures"
LENET = FIXTURES / "lenet.csv"


def written(folder: Path, content: str | bytes, name: str = "runs.csv") -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def refusal(folder: Path, content: str | bytes, **options: Any) -> str:
    """The line with which a table is refused, without the folder."""
    with pytest.raises(InputError) as caught:
        read_runs(written(folder, content), **options)
    return str(caught.value).replace(f"{folder}/", "")


def test_factors_measures_and_failures_of_a_table() -> None:
    found = read_runs(
        LENET, factors="batch,workers,activation", intrinsic="activation", memory="peak",
        units={"memory": "MiB"},
    )  # fmt: skip
    batch, workers, activation = found.space.values()
    assert (batch.kind, batch.scope, batch.role) == ("numeric", "extrinsic", "batch")
    assert batch.values == (16, 32, 64, 128, 256, 4096)
    assert (workers.role, workers.values) == ("workers", (1, 2, 4))
    assert (activation.kind, activation.scope) == ("categorical", "intrinsic")
    assert activation.values == ("", "relu", "tanh")
    first = found.runs[0]
    assert dict(first.point) == {"batch": 16, "workers": 1, "activation": "relu"}
    assert dict(first.measures) == {"seconds": 40.2, "memory_bytes": 612 * 2**20}
    assert [run.status for run in found.runs[-3:]] == [
        "out_of_memory",
        "out_of_memory",
        "timed_out",
    ]
    assert found.runs[9].seconds is None
    assert found.runs[9].measures == {}
    assert found.runs[5].point["activation"] == ""
    assert found.runs[6].source == "lenet.csv line 8"


def test_by_default_every_other_column_that_varies_is_a_factor(tmp_path: Path) -> None:
    path = written(
        tmp_path, "a,b,site,status,seconds\n1,x,here,0,1.5\n2,y,here,1,2\n3,y,here,0,4\n"
    )
    found = read_runs(path)
    assert found.space.names == ("a", "b")
    assert found.notes == ("left out, one value in all runs: site (--factors)",)
    assert [run.seconds for run in found.runs] == [1.5, None, 4.0]
    assert read_runs(path, factors="a,site").space.names == ("a", "site")


def test_tabs_time_units_and_a_column_of_another_name() -> None:
    found = read_runs(FIXTURES / "steps.tsv", seconds="step_ms", time_unit="ms")
    assert [run.seconds for run in found.runs] == pytest.approx([0.2805, 0.301, 0.25, 0.26])
    assert found.space["framework"].values == ("PyTorch", "TensorFlow")


def test_rows_are_chosen_by_value(tmp_path: Path) -> None:
    path = written(tmp_path, "a,kind,seconds\n1,x,1\n2.0,y,2\n2,x,3\n4,z,oops\n")
    assert [run.seconds for run in read_runs(path, where={"a": 2}).runs] == [2.0, 3.0]
    both = read_runs(path, where=[("kind", "x"), ("kind", "y"), ("a", "2")])
    assert [run.seconds for run in both.runs] == [2.0, 3.0]
    # A row that is left out is not read, so what is wrong in it does no harm.
    assert len(read_runs(path, where=[("a", "1"), ("a", "2")]).runs) == 3


def test_the_variant_column_names_the_command(tmp_path: Path) -> None:
    path = written(tmp_path, "program,n,seconds\n1,1,1\n2,1,2\n")
    found = read_runs(path, variant="program", factors="n")
    assert found.space.names == ("n", "variant")
    assert [(run.variant, run.point["variant"]) for run in found.runs] == [("1", "1"), ("2", "2")]


def test_units_roles_and_other_measures(tmp_path: Path) -> None:
    path = written(tmp_path, "size,cards,seconds,energy,loss\n1,1,1,2,0.5\n2,2,2,,0.25\n")
    found = read_runs(
        path, factors=["size", "cards"], joules="energy", measures={"loss": "loss"},
        units={"size": "GiB", "joules": "Wh"}, roles={"cards": "workers"},
    )  # fmt: skip
    assert (found.space["size"].unit, found.space["cards"].role) == ("GiB", "workers")
    assert dict(found.runs[0].measures) == {"seconds": 1, "joules": 7200, "loss": 0.5}
    assert dict(found.runs[1].measures) == {"seconds": 2, "loss": 0.25}


def test_numbers_may_be_declared_names(tmp_path: Path) -> None:
    path = written(tmp_path, "card,seconds\n3090,1\n4090,2\n")
    assert read_runs(path).space["card"].kind == "numeric"
    assert read_runs(path, categorical="card").space["card"].values == ("3090", "4090")


def test_quotes_blanks_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = written(tmp_path, '\ufeff"a, b", seconds\r\n"x\ny", 1\r\n\r\n" z ",2')
    found = read_runs(path, categorical=["a, b"], where={"seconds": 2})
    assert [dict(run.point) for run in found.runs] == [{"a, b": "z"}]
    assert found.runs[0].source == "runs.csv line 5"


def test_a_column_of_row_numbers_without_a_name_is_left_out(tmp_path: Path) -> None:
    found = read_runs(written(tmp_path, ",a,seconds\n0,1,1\n1,2,2\n"))
    assert found.space.names == ("a",)
    assert found.notes == ("left out, no name: column 1",)


def uids(folder: Path, content: str, **options: Any) -> list[str]:
    return [run.uid for run in read_runs(written(folder, content), **options).runs]


def test_a_row_is_named_by_its_cells_and_the_equal_rows_before_it(tmp_path: Path) -> None:
    before = uids(tmp_path, "a,seconds\n1,1\n1,1\n2,3")
    assert len(set(before)) == 3
    grown = uids(tmp_path, "a,seconds\n4,5\n1,1\n1,1\n2,3\n2,3\n")
    assert grown[1:4] == before
    assert len(set(grown)) == 5
    first, again, other = before
    assert uids(tmp_path, "a,seconds\n2,3\n1,1\n1,1\n") == [other, first, again]
    assert uids(tmp_path, "seconds;a\n1; 1\n1;1\n3;2\n") == before
    assert uids(tmp_path, ",a,seconds\n7,1,1\n8,1,1\n9,2,3\n") == before
    assert uids(tmp_path, "a,seconds\n1,1\n1,1\n2,3", where={"a": 2}, factors="a") == [other]
    edited = uids(tmp_path, "a,seconds\n1,1\n1,1\n2,3.5")
    assert (edited[:2], edited[2] == other) == ([first, again], False)
    # Cells that join to the same text are other rows.
    assert uids(tmp_path, "a,b,seconds\n1,23,1\n2,4,1") != uids(
        tmp_path, "a,b,seconds\n12,3,1\n2,4,1"
    )


def test_a_column_of_names_is_warned_of(tmp_path: Path) -> None:
    rows = "".join(f"run{n},{n % 7},{n}\n" for n in range(1, 101))
    with pytest.warns(DataWarning, match="column id: 100 levels in 100 runs look like names"):
        read_runs(written(tmp_path, "id,a,seconds\n" + rows))


def test_a_column_of_results_is_warned_of(tmp_path: Path) -> None:
    path = written(tmp_path, "n,timeUsed_std,samples_per_s,persons,seconds\n1,1,1,1,1\n2,2,2,2,2\n")
    with pytest.warns(DataWarning, match="csv: timeUsed_std, samples_per_s may be measured"):
        assert len(read_runs(path).space) == 4


HEAD = "batch,act,seconds\n16,relu,1\n"
TEN = "batch,act,seconds\n" + "16,relu,1\n" * 9


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "runs.csv: found an empty file, expected a header and at least one run"),
        ("batch,seconds\n", "runs.csv: found a header and no rows, expected at least one run"),
        (
            "seconds\n1\n",
            "runs.csv: found one column, seconds, expected columns split by comma or tab",
        ),
        (
            "a,b\n1,2\n",
            "runs.csv: found no column seconds, expected one of a, b (--seconds COLUMN)",
        ),
        (
            "a,a,seconds\n1,2,3\n",
            "runs.csv line 1 column 2: found a again, expected each name once",
        ),
        (
            "a\x1b[31m,seconds\n1,2\n",
            "runs.csv line 1 column 1: found 'a\\x1b[31m', expected a name without control"
            " characters",
        ),
        (
            "=1+1,seconds\n1,2\n2,3\n",
            "runs.csv: found column =1+1, expected a name without = (--factors)",
        ),
        (HEAD + "32,relu\n", "runs.csv line 3: found 2 cells, expected 3, as in the header"),
        (HEAD + "32,relu,1,2\n", "runs.csv line 3: found 4 cells, expected 3, as in the header"),
        (
            HEAD + "32,relu,nan\n",
            "runs.csv line 3 column seconds: found 'nan', expected a positive time",
        ),
        (
            HEAD + "32,relu,inf\n",
            "runs.csv line 3 column seconds: found 'inf', expected a positive time",
        ),
        (
            HEAD + "32,relu,0\n",
            "runs.csv line 3 column seconds: found '0', expected a positive time",
        ),
        (
            HEAD + "32,relu,-1\n",
            "runs.csv line 3 column seconds: found '-1', expected a positive time",
        ),
        (
            HEAD + "32,relu,1e999\n",
            "runs.csv line 3 column seconds: found '1e999', expected a positive time",
        ),
        (
            HEAD + "32,relu,1s\n",
            "runs.csv line 3 column seconds: found '1s', expected a positive time",
        ),
        (
            HEAD + "32,relu,\n",
            "runs.csv line 3 column seconds: found an empty cell, expected a positive time",
        ),
        (
            HEAD + ",relu,1\n",
            "runs.csv line 3 column batch: found an empty cell, expected a finite number"
            " (--categorical batch makes levels of it, --factors leaves it out)",
        ),
        (
            TEN + "many,relu,1\n",
            "runs.csv line 11 column batch: found 'many', expected a finite number"
            " (--categorical batch makes levels of it, --factors leaves it out)",
        ),
        (
            HEAD + '32,"re\x07lu",1\n',
            "runs.csv line 3 column act: found 're\\x07lu', expected text without control"
            " characters",
        ),
        (HEAD.encode() + b"32,\xff,1\n", "runs.csv line 3: found byte 0xff, expected UTF-8 text"),
        (HEAD + "32,\0,1\n", "runs.csv line 3: found a NUL byte, expected UTF-8 text"),
        (
            HEAD + '32,"relu,1\n',
            "runs.csv line 3: found unexpected end of data, expected a CSV row",
        ),
        (
            "a,seconds\n1,1\n1e999,2\nx,3\n",
            "runs.csv line 3 column a: found '1e999', expected a finite number"
            " (--categorical a makes levels of it, --factors leaves it out)",
        ),
        (
            "a,seconds\n1,1\n2,\u0661\n",
            "runs.csv line 3 column seconds: found '\u0661', expected a positive time",
        ),
        (
            ",".join(f"c{at}" for at in range(2001)) + "\n",
            "runs.csv line 1: found 2001 columns, expected up to 2000",
        ),
        (
            "a,seconds\n1,1\n1,2\n",
            "runs.csv: found no column that varies, expected at least one factor (--factors)",
        ),
    ],
)
def test_a_bad_table_is_refused_in_one_line(
    tmp_path: Path, content: str | bytes, line: str
) -> None:
    assert refusal(tmp_path, content) == line


GOOD = "batch,act,end,seconds\n16,relu,ok,1\n32,tanh,ok,2\n"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"seconds": "time"},
            "runs.csv: found no column time, expected one of batch, act, end, seconds (--seconds"
            " COLUMN)",
        ),
        (
            {"factors": "batch,size"},
            "runs.csv: found no column size, expected one of batch, act, end, seconds (--factors)",
        ),
        (
            {"seconds": "Second"},
            "runs.csv: found no column Second, expected one of batch, act, end, seconds"
            " (--seconds COLUMN); did you mean seconds?",
        ),
        (
            {"factors": "batches"},
            "runs.csv: found no column batches, expected one of batch, act, end, seconds"
            " (--factors); did you mean batch?",
        ),
        (
            {"intrinsic": "acts"},
            "runs.csv --intrinsic: found acts, expected a factor: batch, act; did you mean act?",
        ),
        (
            {"factors": "batch,seconds"},
            "runs.csv --factors: found seconds, which is measured, expected each factor once",
        ),
        ({"factors": "act,act"}, "runs.csv --factors: found act, twice, expected each factor once"),
        (
            {"intrinsic": "kernel"},
            "runs.csv --intrinsic: found kernel, expected a factor: batch, act",
        ),
        (
            {"where": {"act": "gelu"}},
            "runs.csv --where act: found gelu in no row, expected one of relu, tanh",
        ),
        (
            {"where": {"x": "1"}},
            "runs.csv: found no column x, expected one of batch, act, end, seconds (--where)",
        ),
        ({"time_unit": "days"}, "--time-unit: found days, expected one of ns, us, ms, s, min, h"),
        (
            {"status": "act"},
            "runs.csv line 2 column act: found 'relu', expected ok, failed, out_of_memory,"
            " timed_out, cancelled, an exit code or a Slurm state",
        ),
        (
            {"roles": {"batch": "boss"}},
            "factor batch, role: found boss, expected one of workers, nodes, threads, batch,"
            " steps, partition, storage, compiler, precision, device",
        ),
        ({"pattern": "x"}, "--pattern: found a file of format csv, expected format sacct"),
        (
            {"format": "xls"},
            "--format: found xls, expected one of csv, tsv, optuna, sacct, hyperfine, extra-p",
        ),
        (
            {"measures": {"seconds": "batch"}},
            "--measure: found seconds, expected another name; --seconds COLUMN chooses the time",
        ),
    ],
)
def test_a_bad_option_is_refused_in_one_line(
    tmp_path: Path, options: dict[str, Any], line: str
) -> None:
    assert refusal(tmp_path, GOOD, **options) == line


def test_an_unknown_option_and_a_missing_file(tmp_path: Path) -> None:
    assert "option colour, expected one of seconds, factors" in refusal(
        tmp_path, GOOD, colour="red"
    )
    with pytest.raises(
        InputError, match="found no such file or directory, expected a file of runs"
    ):
        read_runs(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="found a directory, expected a file"):
        read_runs(tmp_path)


@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_only_files_are_read(tmp_path: Path, prefix: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, found in (
        (tmp_path, "a directory"),
        (tmp_path / "pipe", "a pipe"),
        (Path("/dev/zero"), "a device"),
    ):
        with pytest.raises(InputError) as caught:
            read_runs(f"{prefix}{path}")
        assert str(caught.value) == f"{prefix}{path}: found {found}, expected a file"


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    with path.open("wb") as file:
        file.write(b"a,seconds\n1,1\n")
        file.write(b"x" * ((64 << 20) + 1))
    for name in ("csv", "sacct", "hyperfine", "extra-p"):
        if name == "extra-p":
            path.write_bytes(b"PARAMETER n\n\n" + b"x" * ((64 << 20) + 1))
        with pytest.raises(TableError) as caught:
            read_runs(path, name)
        assert (
            str(caught.value) == f"{path} line 3: found more than 64 MiB, expected a shorter line"
        )


def test_many_columns_take_no_time(tmp_path: Path) -> None:
    names = [f"column{at}" for at in range(1999)]
    rows = [",".join([*(str(at * row % 7) for at in range(1999)), "1"]) for row in (1, 2)]
    path = written(tmp_path, "\n".join([",".join([*names, "seconds"]), *rows]))
    assert len(read_runs(path).space) > 1000


def test_what_is_measured_is_no_factor(tmp_path: Path) -> None:
    path = written(tmp_path, "n,seconds,status,step\n1,5,ok,1\n2,6,odd,2\n")
    found = read_runs(path, seconds="step", where={"n": 1}, factors="n")
    assert found.runs[0].seconds == 1
    with pytest.raises(InputError, match="--factors: found seconds, which is measured"):
        read_runs(path, seconds="step", where={"n": 1}, factors="n,seconds")
    assert read_runs(
        written(tmp_path, "n,seconds,step\n1,5,1\n2,6,2\n"), seconds="step"
    ).space.names == ("n",)


def test_a_refusal_is_a_table_error(tmp_path: Path) -> None:
    with pytest.raises(TableError):
        read_runs(written(tmp_path, "a,seconds\n1,0\n"))
