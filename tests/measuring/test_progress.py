"""Where a campaign stands, in words."""

from forerun.factors import Point
from forerun.measuring.progress import Progress
from forerun.measuring.stated import StatedError
from forerun.study import Run


def test_progress_is_one_line_to_print() -> None:
    progress = Progress(
        done=5,
        expected=40,
        failed=0,
        seconds_spent=12.0,
        seconds_left=125.0,
        error=StatedError(0.123, 0.1, 0.2, 1),
        running=(),
        choosing=False,
        finished=Run(Point({"n": 1}), {"seconds": 2.5}),
        warnings=("a warning",),
    )
    assert str(progress) == (
        "5 of 40 runs; the last took 2.5 s; error about 12 %; 2 min 5 s left; a warning"
    )
