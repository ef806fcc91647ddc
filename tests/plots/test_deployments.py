import pandas as pd

from forerun.factors import Point
from forerun.plots.deployments import Deployed, deployed
from forerun.study import Run

ROWS = pd.DataFrame(
    {
        "measured": [1.0, 2.0, 5.0],
        "predicted": [1.1, 2.1, 3.0],
        "low": [0.9, 1.9, 2.5],
        "high": [1.2, 2.2, 3.5],
    },
    index=[0, 1, 3],
)


def run(batch: int, seconds: float | None, source: str = "") -> Run:
    measures = {"elapsed_seconds": 9.0} if seconds is None else {"seconds": seconds}
    return Run(Point({"batch": batch}), measures, host="n1", source=source)


def test_jobs_are_found_by_where_their_runs_are_from() -> None:
    runs = [
        run(1, 1.0),
        run(2, None, "deployment 0"),  # its time means something else: it counts no row
        run(2, 2.0, "deployment 1"),
        run(3, 3.0, "deployment 2"),  # nothing predicts it: no other run has its level
        run(4, 5.0, "deployment 3"),
    ]
    found = deployed(runs, "seconds", ROWS)
    assert found == (
        Deployed(Point({"batch": 2}), "n1", 2.0, 2.1, 1.9, 2.2),
        Deployed(Point({"batch": 4}), "n1", 5.0, 3.0, 2.5, 3.5),
    )
    assert [one.inside for one in found] == [True, False]
    assert deployed(runs[:1], "seconds", ROWS) == ()
