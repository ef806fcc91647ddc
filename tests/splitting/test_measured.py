"""What running splits took, in a study."""

from pathlib import Path

import pytest

from forerun import Factor, Space, Study
from forerun.errors import InputError, StudyError
from forerun.splitting.measured import (
    NOTE,
    SPACE,
    DeviceShare,
    Measured,
    Timed,
    open_study,
    splits_of,
    store,
)

SHARES = (
    DeviceShare(
        device=0,
        macs=600,
        weights_bytes=40,
        activations_bytes=16,
        sent_bytes=8,
        memory_bytes=50,
        waiting=0.25,
    ),
    DeviceShare(
        device=1, macs=400, weights_bytes=40, activations_bytes=16, sent_bytes=4, memory_bytes=70
    ),
)
TIMED = Timed(1.8e9, (0.1, 0.2, 0.3, 0.4), (0.1, 0.1, 0.1, 0.2))


def measured(wire: str = "float32", in_flight: int = 1) -> Measured:
    p50, p99 = TIMED.percentiles
    return Measured(
        network="lenet",
        layout="rows",
        devices=2,
        wire=wire,
        in_flight=in_flight,
        samples=4,
        p50=p50,
        p99=p99,
        per_second=TIMED.per_second,
        shares=SHARES,
    )


def test_timing_in_figures() -> None:
    assert TIMED.percentiles == pytest.approx((0.25, 0.397))
    assert TIMED.per_second == pytest.approx(8.0)


def test_a_setting_in_figures() -> None:
    one = measured()
    assert (one.memory_bytes, one.sent_bytes, one.waiting) == (70, 12, 0.25)


def test_every_sample_is_a_run(tmp_path: Path) -> None:
    study = open_study(tmp_path / "splits.db")
    assert store(study, measured(), TIMED) == 4
    assert store(study, measured("int8", 2), TIMED) == 4
    runs = study.runs("ok")
    assert [run.seconds for run in runs[:4]] == list(TIMED.latencies)
    assert dict(runs[-1].point) == {
        "network": "lenet",
        "layout": "rows",
        "devices": 2,
        "precision": "float32",
        "wire": "int8",
        "in_flight": 2,
    }
    assert runs[0].measures == {
        "seconds": 0.1,
        "interval_seconds": 0.1,
        "memory_bytes": 70.0,
        "sent_bytes": 12.0,
    }
    assert study.space["wire"].values == ("float32", "int8")
    assert study.space["in_flight"].values == (1, 2)
    assert study.space["devices"].role == "workers"


def test_a_setting_that_is_measured_again_is_kept_once(tmp_path: Path) -> None:
    study = open_study(tmp_path / "splits.db")
    assert splits_of(study) == ()
    store(study, measured(), TIMED)
    store(study, measured("int8"), TIMED)
    again = measured().model_copy(update={"difference": 1e-7, "same_class": 4})
    store(study, again, TIMED)
    assert splits_of(open_study(tmp_path / "splits.db")) == (measured("int8"), again)
    assert len(study) == 12


def test_a_study_of_something_else_is_left_alone(tmp_path: Path) -> None:
    Study.create(tmp_path / "other.db", Space([Factor("batch")]))
    with pytest.raises(StudyError, match=r"found factors batch \(numeric\)"):
        open_study(tmp_path / "other.db")


def test_a_damaged_note_is_one_line(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "splits.db", SPACE)
    document = measured().model_dump(mode="json") | {"p50": -1.0}
    study.set_note(NOTE, {NOTE: [document]})
    with pytest.raises(InputError, match=r"splits\.0\.p50: found -1\.0, expected more than 0"):
        splits_of(study)
