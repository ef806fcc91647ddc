"""Results that take long survive the end of the process that found them."""

from pathlib import Path

from kept import Kept, sources


def test_what_was_kept_is_known_to_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    Kept(path).put({"a": 1.5})
    Kept(path).put({"b": [2]})
    again = Kept(path)
    assert (again["a"], again["b"]) == (1.5, [2])
    assert "c" not in again
    assert [one.name for one in tmp_path.iterdir()] == ["kept.json"]


def test_without_a_file_it_is_kept_in_memory() -> None:
    kept = Kept(None)
    kept.put({"a": 1})
    assert kept["a"] == 1


def test_a_result_belongs_to_its_code() -> None:
    assert sources("modelling") == sources("modelling")
    assert len({sources("modelling"), sources("measuring"), sources("modelling", "measuring")}) == 3
