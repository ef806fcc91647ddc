"""What layers take: models of studies whose truth is known, the plain rule, and real layers."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forerun.errors import InputError
from forerun.factors import Factor, Space
from forerun.splitting import layers
from forerun.splitting.layers import (
    NOTE,
    SPACE,
    Layer,
    PlainRule,
    Predictor,
    Timed,
    default_study,
    layer_times,
)
from forerun.study import Run, Study


def conv(before: int, after: int, size: int, kernel: int = 3) -> Layer:
    inside = before * kernel**2
    return Layer(
        "conv",
        macs=after * size**2 * inside,
        weights_bytes=4 * after * inside,
        in_bytes=4 * before * size**2,
        out_bytes=4 * after * size**2,
        kernel=kernel,
        channels=before,
    )


def truth(layer: Layer) -> float:
    """Small kernels use the processor less well."""
    moved = layer.weights_bytes + layer.in_bytes + layer.out_bytes
    return layer.macs / (2e10 * math.pow(layer.kernel, 0.2)) + moved / 8e9


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    made = Study.create(tmp_path_factory.mktemp("layers") / "layers.db", SPACE)
    rng = np.random.default_rng(1)
    for _ in range(80):
        before, after = (int(2 ** rng.uniform(3, 9)) for _ in range(2))
        one = conv(before, after, int(rng.integers(7, 57)), int(rng.choice([1, 3, 5])))
        made.add(Run(one.point, {"seconds": truth(one) * math.exp(rng.normal(0, 0.02))}))
    made.set_note(NOTE, PlainRule.constants.to_dict())
    return made


def test_layers_that_nobody_has_timed_are_predicted(study: Study) -> None:
    asked = [conv(100, 48, 30), conv(256, 64, 28, 1), conv(24, 200, 20, 5), conv(64, 64, 56)]
    seconds, half = Timed(study).each(asked)
    for layer, said, width in zip(asked, seconds, half, strict=True):
        assert said == pytest.approx(truth(layer), rel=0.1)
        assert abs(said - truth(layer)) < 2 * width * said


def test_a_model_is_fitted_once(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Timed(study).each([conv(64, 64, 28)])[0]

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr(layers, "fitted", refused)
    assert Timed(study).each([conv(64, 64, 28)])[0] == before


def test_what_was_not_timed_is_told_by_the_rule_with_wide_intervals(study: Study) -> None:
    pool = Layer("pool", 1e6, 0, 1e6, 2.5e5)
    seconds, half = Timed(study).each([pool])
    assert seconds == PlainRule().each([pool])[0]
    assert half == [math.log(3)]


def test_the_rule_knows_what_is_more() -> None:
    small, large = conv(64, 64, 28), conv(64, 128, 28)
    whole = replace(small, precision="int8")
    (one, more, less), half = PlainRule().each([small, large, whole])
    assert less < one < more
    assert not half.any()
    assert "rule of thumb" in PlainRule.told


def test_a_segment_is_its_layers_and_a_call() -> None:
    predictor, rule = Predictor(PlainRule()), PlainRule()
    parts = [conv(8, 8, 14), conv(8, 16, 14)]
    taken = predictor.segment(parts)
    each = rule.each(parts)[0]
    constants = rule.constants
    assert taken.seconds == pytest.approx(constants.call + 2 * constants.node + each.sum())
    assert predictor.half(taken) == pytest.approx(math.log(3))
    assert predictor.half(taken + taken) == pytest.approx(math.log(3))  # it averages out nowhere


def test_errors_of_many_layers_average_out(study: Study) -> None:
    predictor = Predictor(Timed(study))
    one = predictor.segment([conv(64, 64, 28)])
    several = predictor.segment([conv(64, 60 + i, 28) for i in range(16)])
    shared = predictor.times.constants.common

    def own(taken: layers.Taken) -> float:
        return math.sqrt(predictor.half(taken) ** 2 - shared**2)

    assert own(several) < own(one) / 2


def test_where_a_users_layers_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study: Study
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert isinstance(layer_times(), PlainRule)
    default_study().parent.mkdir()
    default_study().write_bytes(study.path.read_bytes())
    found = layer_times()
    assert isinstance(found, Timed)
    assert "80 layers" in found.told
    assert layer_times(study.path).constants == found.constants


@pytest.mark.parametrize(
    ("note", "told"),
    [
        (None, "another study, expected a study of timed layers"),
        ({"call": 1}, "no layers, or damaged ones"),
        ({**PlainRule.constants.to_dict(), "scale": -1.0}, "a number that is not finite"),
    ],
)
def test_a_study_that_is_none_of_layers(
    tmp_path: Path, note: dict[str, object] | None, told: str
) -> None:
    made = Study.create(tmp_path / "other.db", SPACE)
    if note is not None:
        made.set_note(NOTE, note)
    with pytest.raises(InputError, match=told):
        layer_times(made.path)


def test_a_study_of_something_else(tmp_path: Path) -> None:
    made = Study.create(tmp_path / "other.db", Space([Factor.parse("batch=1,2")]))
    made.set_note(NOTE, PlainRule.constants.to_dict())
    with pytest.raises(InputError, match="another study, expected a study of timed layers"):
        layer_times(made.path)
