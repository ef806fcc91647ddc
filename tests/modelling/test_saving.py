"""A saved model is the same model, to the bit; a damaged file is refused in one line."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forerun import PerformanceModel
from forerun.errors import InputError


@pytest.fixture(scope="session")
def model_file(fitted: PerformanceModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model.json"
    fitted.save(path)
    return path


def through_json(model: PerformanceModel) -> PerformanceModel:
    return PerformanceModel.from_dict(json.loads(json.dumps(model.to_dict(), allow_nan=False)))


ASKED: dict[str, Callable[[PerformanceModel, pd.DataFrame], Any]] = {
    "predict": lambda model, points: model.predict(points).tolist(),
    "interval": lambda model, points: np.array(model.predict_interval(points, 0.8)).tolist(),
    "formula alone": lambda model, points: model.predict_formula(points).tolist(),
    "feasible": lambda model, points: model.feasible(points).tolist(),
    "cautions": lambda model, points: model.cautions(points),
    "explain": lambda model, _: model.explain(),
    "formula": lambda model, _: model.formula("python"),
    "settings": lambda model, _: model.get_params(),
    "notes": lambda model, _: model.notes_,
    "document": lambda model, _: model.to_dict(),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.filterwarnings("ignore::forerun.errors.ForerunWarning")
def test_a_saved_model_answers_alike_to_the_bit(
    fitted: PerformanceModel, model_file: Path, factors: pd.DataFrame, asked: str
) -> None:
    points = pd.concat([factors, factors.assign(batch=1000, workers=3)], ignore_index=True)
    answer = ASKED[asked](fitted, points)
    assert ASKED[asked](PerformanceModel.load(model_file), points) == answer
    assert ASKED[asked](through_json(fitted), points) == answer
    assert ASKED[asked](through_json(through_json(fitted)), points) == answer


@pytest.mark.filterwarnings("ignore::forerun.errors.ForerunWarning")
def test_a_model_without_names_or_failures_is_saved_too() -> None:
    rows = np.array([[1.0, 0.0], [2.0, 0.5], [4.0, 0.1]])
    seed: Any = np.int64(5)
    model = PerformanceModel(random_state=seed).fit(rows, [1, 2, 3.5])
    again = through_json(model)
    assert again.random_state == 5
    assert not hasattr(again, "feature_names_in_")
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    assert again.feasible(rows).all()


def test_saving_leaves_one_file_that_others_may_read(
    fitted: PerformanceModel, tmp_path: Path
) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    for _ in range(2):
        fitted.save(tmp_path / "model.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "usual"]
    assert stat.S_IMODE((tmp_path / "model.json").stat().st_mode) == stat.S_IMODE(
        usual.stat().st_mode
    )


def test_a_model_that_cannot_be_written_leaves_nothing(
    fitted: PerformanceModel, tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="directory"):
        fitted.save(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def edited(text: str, edit: Callable[[dict[str, Any]], object]) -> str:
    document = json.loads(text)
    edit(document)
    return json.dumps(document)


BROKEN: dict[str, tuple[Callable[[str], str], str]] = {
    "empty": (lambda _: "", ": found no JSON, or only a part of it, expected a saved model"),
    "truncated": (
        lambda text: text[:-100],
        ": found no JSON, or only a part of it, expected a saved model",
    ),
    "deep": (
        lambda _: "[" * 100_000,
        ": found no JSON, or only a part of it, expected a saved model",
    ),
    "a list": (lambda text: f"[{text}]", ": found a list, expected a saved model"),
    "foreign": (lambda _: '{"version": 3}', ", format: found None, expected 1"),
    "newer": (
        lambda text: edited(text, lambda document: document.update(format=2)),
        ", format: found 2, expected 1",
    ),
    "without runs": (
        lambda text: edited(text, lambda document: document.pop("runs")),
        ": found no 'runs', expected a saved model",
    ),
    "without intervals": (
        lambda text: edited(text, lambda document: document["model"].pop("intervals")),
        ": found no 'intervals', expected a saved model",
    ),
    "unknown setting": (
        lambda text: edited(text, lambda document: document["settings"].update(depth=3)),
        ": found a damaged model, expected a saved model",
    ),
    "text for numbers": (
        lambda text: edited(text, lambda document: document["model"].update(intervals="wide")),
        ": found a damaged model, expected a saved model",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_damaged_or_foreign_file_is_refused_in_one_line(
    model_file: Path, tmp_path: Path, how: str
) -> None:
    broken, message = BROKEN[how]
    path = tmp_path / "broken.json"
    path.write_text(broken(model_file.read_text()))
    with pytest.raises(InputError) as error:
        PerformanceModel.load(path)
    assert str(error.value) == f"{path}{message}"


def test_a_file_that_is_no_text_or_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.db").write_bytes(b"SQLite\xff\xfe")
    for name, found in {
        "model.db": "no JSON, or only a part of it",
        "nowhere.json": "No such file or directory",
        ".": "Is a directory",
    }.items():
        with pytest.raises(InputError) as error:
            PerformanceModel.load(tmp_path / name)
        assert str(error.value) == f"{tmp_path / name}: found {found}, expected a saved model"
