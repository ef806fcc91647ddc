"""hyperfine's JSON: one run a time, parameters as factors, commands as variants."""

import json
from pathlib import Path
from typing import Any

import pytest

from forerun.errors import DataWarning, TableError
from forerun.importing import read_runs

# Made with hyperfine 1.15 from two commands and two parameters; one command fails for `r`.
HYPERFINE = Path(__file__).parent / "fixtures" / "hyperfine.json"


def saved(folder: Path, *results: dict[str, Any]) -> Path:
    path = folder / "bench.json"
    path.write_text(json.dumps({"results": results}))
    return path


def test_every_time_is_a_run() -> None:
    found = read_runs(HYPERFINE)
    assert found.space.names == ("lines", "order", "variant")
    assert (found.space["lines"].kind, found.space["lines"].values) == ("numeric", (2000, 20000))
    assert found.space["order"].values == ("n", "r")
    plain, tested = (
        "seq {lines} | sort -{order} > /dev/null",
        "seq {lines} | sort -{order} --parallel=1 > /dev/null; test {order} = n",
    )
    assert set(found.space["variant"].values) == {plain, tested}
    assert len(found.runs) == 24
    first = found.runs[0]
    assert dict(first.point) == {"lines": 2000, "order": "n", "variant": plain}
    assert (first.seconds, first.variant, first.status) == (0.0017247049, plain, "ok")
    failed = [run for run in found.runs if run.status == "failed"]
    assert len(failed) == 6
    assert all(run.point["order"] == "r" and run.variant == tested for run in failed)


def test_one_command_is_no_factor_and_memory_is_kept(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        {"command": "train 16 --seed 4", "times": [1.5, 1.25], "exit_codes": [0, None],
         "memory_usage_byte": [1024, 2048], "parameters": {"batch": "16", "seed": "4"}},
        {"command": "train 4 --seed 4", "times": [0.5], "exit_codes": [0],
         "memory_usage_byte": [512], "parameters": {"batch": "4", "seed": "4"}},
    )  # fmt: skip
    found = read_runs(path)
    assert found.space.names == ("batch",)
    assert [dict(run.measures) for run in found.runs] == [
        {"seconds": 1.5, "memory_bytes": 1024},
        {},
        {"seconds": 0.5, "memory_bytes": 512},
    ]
    assert [run.status for run in found.runs] == ["ok", "failed", "ok"]


def test_commands_without_parameters_are_variants(tmp_path: Path) -> None:
    path = saved(tmp_path, {"command": "gzip", "times": [2.0]}, {"command": "zstd", "times": [1]})
    found = read_runs(path)
    assert found.space.names == ("variant",)
    assert [(run.variant, run.seconds) for run in found.runs] == [("gzip", 2), ("zstd", 1)]


@pytest.mark.parametrize(
    ("results", "line"),
    [
        ([], ": found no results, expected a file of hyperfine --export-json"),
        ([{"command": "x"}], " result 1: found no times, expected the list of measured times"),
        (
            [{"times": [1]}],
            " result 1: found no command, expected an object with command and times",
        ),
        (
            [{"command": "x", "times": [1, 2], "exit_codes": [0]}],
            " result 1 exit_codes: found another length, expected 2, as many as times",
        ),
        (
            [{"command": "x", "times": [1.0]}, {"command": "y", "times": [0.0]}],
            " result 2 column seconds: found '0.0', expected a positive time",
        ),
        (
            [{"command": "x", "times": [1.0], "parameters": {"seconds": "1"}}],
            " result 1 parameters: found 'seconds', expected another name for a parameter",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_line(
    tmp_path: Path, results: list[dict[str, Any]], line: str
) -> None:
    path = saved(tmp_path, *results)
    with pytest.raises(TableError) as caught:
        read_runs(path, "hyperfine")
    assert str(caught.value) == f"{path}{line}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"results": [', " : found Expecting value at character 14, expected JSON"),
        ('{"results": [NaN]}', ": found NaN, expected a finite number"),
        ('{"results": ' + "[" * 100000, ": found unreadable JSON (RecursionError), expected JSON"),
    ],
)
def test_what_is_not_json_is_refused(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "bench.json"
    path.write_text(text)
    with pytest.raises(TableError) as caught:
        read_runs(path, "hyperfine")
    assert str(caught.value) == f"{path}{line.strip()}"


def test_many_values_of_a_parameter_are_one_command(tmp_path: Path) -> None:
    found = read_runs(
        saved(
            tmp_path,
            *(
                {"command": f"sleep {n} | wc", "times": [n], "parameters": {"n": str(n)}}
                for n in range(1, 3001)
            ),
        )
    )
    assert (found.space.names, len(found.runs)) == (("n",), 3000)


def test_too_many_commands_or_parameters_are_refused(tmp_path: Path) -> None:
    commands = [{"command": f"sort --seed {n} file", "times": [1]} for n in range(3000)]
    path = saved(tmp_path, *commands[:1000])
    with pytest.warns(DataWarning, match="1000 levels in 1000 runs look like names"):
        assert len(read_runs(path).space["variant"].values) == 1000
    with pytest.raises(TableError) as caught:
        read_runs(saved(tmp_path, *commands))
    assert str(caught.value) == (
        f"{path} result 1001: found more than 1000 different commands,"
        " expected fewer, or parameters in them"
    )
    wide = {"command": "sort", "times": [1], "parameters": {f"p{n}": "1" for n in range(2001)}}
    with pytest.raises(TableError, match=r"found 2001 columns, expected up to 2000$"):
        read_runs(saved(tmp_path, wide))
