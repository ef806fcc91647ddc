"""Extra-P's text, JSON and JSON-lines files."""

from pathlib import Path
from typing import Any

import pytest

from forerun.errors import InputError
from forerun.importing import read_runs

FIXTURES = Path(__file__).parent / "fixtures"


def rows(name: str, **options: Any) -> list[tuple[float | str, ...]]:
    """(p, n, seconds) of each run."""
    found = read_runs(FIXTURES / name, **options)
    assert found.space.names == ("p", "n")
    return [(run.point["p"], run.point["n"], run.seconds or 0.0) for run in found.runs]


def test_text() -> None:
    main = rows("extra_p.txt", region="main")
    assert main[:4] == [(1, 100, 8.0), (1, 100, 8.2), (2, 100, 4.5), (2, 100, 4.4)]
    assert main[-1] == (4, 200, 5.0)
    assert len(main) == 12
    halo = rows("extra_p.txt", region="main->halo")
    assert halo[-1] == (4, 200, 0.4)


def test_another_metric_is_the_time_or_a_measure() -> None:
    assert rows("extra_p.txt", region="main", metric="bytes_sent")[-1] == (4, 200, 600.0)
    found = read_runs(FIXTURES / "extra_p.txt", region="main", measures={"sent": "bytes_sent"})
    assert dict(found.runs[0].measures) == {"seconds": 8.0, "sent": 100.0}
    assert found.runs[0].source == "extra_p.txt line 8"


def test_json_by_region_and_metric() -> None:
    assert rows("extra_p.json") == [
        (1, 100, 8.0), (1, 100, 8.2), (2, 100, 4.5), (1, 200, 16.25), (1, 200, 16.0),
    ]  # fmt: skip


def test_json_by_ids() -> None:
    assert rows("extra_p_ids.json") == [(1, 100, 8.0), (1, 100, 8.2), (2, 200, 9.5)]


def test_json_lines() -> None:
    assert rows("extra_p.jsonl") == [
        (1, 100, 8.0), (2, 100, 4.5), (2, 100, 4.4), (4, 200, 5.125),
    ]  # fmt: skip


def test_one_parameter_needs_no_brackets(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("PARAMETER p\nPOINTS 1 2 4\nDATA 1\nDATA 2\nDATA 3\n")
    assert [(run.point["p"], run.seconds) for run in read_runs(path).runs] == [
        (1, 1),
        (2, 2),
        (4, 3),
    ]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (
            "PARAMETER p\nPOINTS 1 2\nDATA 1\nDATA 2\nDATA 3\n",
            " line 5: found 3 DATA lines, expected 2, as POINTS",
        ),
        (
            "PARAMETER p n\nPOINTS (1 2) (3)\n",
            " line 2: found 3 coordinates, expected a multiple of 2",
        ),
        (
            "POINTS 1\nPARAMETER p\n",
            " line 1: found POINTS before PARAMETER, expected PARAMETER first",
        ),
        (
            "PARAMETER p\nPOINT 1\n",
            " line 2: found POINT, expected a line that begins with PARAMETER, POINTS, METRIC,"
            " REGION, DATA",
        ),
        ("PARAMETER p\nPOINTS 1\n", ": found no measurements, expected at least one value"),
        (
            "PARAMETER p\nPOINTS 1 2\nDATA 1\nDATA x\n",
            " line 4 column time: found 'x', expected a positive time",
        ),
        (
            "PARAMETER p\nPOINTS 1 2\nREGION a\nDATA 1\nREGION b\nDATA 1\n",
            " --region: found 2 regions, expected one of a, b",
        ),
        (
            "PARAMETER p\nPOINTS 1 2\nMETRIC a\nDATA 1\nMETRIC b\nDATA 1\n",
            " --metric: found 2 metrics, expected one of a, b",
        ),
        (
            '{"params": {"p": 1}, "value": 1}\n{"params": {"q": 1}, "value": 1}\n',
            " line 2 params: found q, expected p",
        ),
        (
            '{"params": {"p": 1}, "value": 1}\n{"params": {"p": 1}}\n',
            " line 2: found no params or no value, expected an object with params and value",
        ),
        (
            '{"parameters": ["p"], "measurements": {"a": {"time": [{"point": [1, 2], "values":'
            " [1]}]}}}",
            " measurement 1 point: found 2 coordinates, expected 1",
        ),
        (
            '{"parameters": ["p"], "measurements": {"a": {"time": [{"point": [1]}]}}}',
            ": found KeyError 'values', expected Extra-P's parameters and measurements",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, content: str, line: str) -> None:
    path = tmp_path / "extra_p.txt"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read_runs(path)
    assert str(caught.value) == f"{path}{line}"


def test_a_region_that_does_not_exist() -> None:
    with pytest.raises(
        InputError, match=r"--region: found init, expected one of main, main->halo$"
    ):
        read_runs(FIXTURES / "extra_p.txt", region="init")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("PARAMETER n\nPARAMETER n\nPOINTS (1 2)\nDATA 1\n", " line 2"),
        (
            '{"parameters": ["n", "n"], "measurements": {"main": {"time": []}}}',
            " parameters",
        ),
        (
            '{"parameters": [{"id": 1, "name": "n"}, {"id": 2, "name": "n"}],'
            ' "callpaths": [], "metrics": [], "coordinates": [], "measurements": []}',
            " parameters",
        ),
    ],
)
def test_a_parameter_twice_is_refused(tmp_path: Path, content: str, place: str) -> None:
    path = tmp_path / "twice.txt"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read_runs(path, "extra-p")
    assert str(caught.value) == f"{path}{place}: found n twice, expected each parameter once"
