"""A file's content tells its format."""

from pathlib import Path

import pytest

from forerun.errors import TableError
from forerun.importing.detection import detect

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lenet.csv", "csv"),
        ("steps.tsv", "csv"),
        ("sacct.txt", "sacct"),
        ("hyperfine.json", "hyperfine"),
        ("extra_p.txt", "extra-p"),
        ("extra_p.json", "extra-p"),
        ("extra_p_ids.json", "extra-p"),
        ("extra_p.jsonl", "extra-p"),
    ],
)
def test_the_format_of_each_fixture(name: str, expected: str) -> None:
    assert detect(str(FIXTURES / name)) == expected


def test_other_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"name": 1, "age": 2}')
    with pytest.raises(TableError) as caught:
        detect(str(path))
    assert str(caught.value) == (
        f"{path}: found JSON with name, age, expected JSON of hyperfine or Extra-P, or Optuna's"
        " journal"
    )


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_json_is_refused(tmp_path: Path, opening: str) -> None:
    path = tmp_path / "deep.json"
    path.write_text(opening * 10_000)
    with pytest.raises(TableError, match="found JSON with unknown keys, expected JSON of hyperf"):
        detect(str(path))
