"""The runs of benchmarks/scaling.py: which they are, what is read of them, and how they go on."""

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rows import append
from scaling_points import BATCHES, MEGABITS, SIZES, Task, tasks
from scaling_runs import COLUMNS, FACTORS, disturbed, measured, missing
from scaling_table import macs
from scaling_table import tasks as cuts

PRINTED = """
network lenet: 45278 parameters, sizes 24 12 8 4
epoch 1 of 1000000: loss 2.3, 0.010 s
processors throttled
epoch 2 of 1000000: loss 2.3, 0.500 s
epoch 3 of 1000000: loss 2.3, 0.190 s
epoch 4 of 1000000: loss 2.3, 0.210 s
processors stolen: 0.012
"""


def test_enough_runs_of_every_number_of_workers() -> None:
    every = tasks()
    points = set(every)
    assert len(points) >= 60
    assert sum(task.workers == 8 for task in points) >= 12
    assert {task.workers for task in points} == {1, 2, 4, 8}
    assert Counter(Counter(every).values()) == {1: 60, 3: 16}
    assert tasks() == every
    for task in points:
        assert task.megabits in MEGABITS
        assert task.batch in BATCHES
        assert task.size in SIZES[task.network][1]


def test_every_worker_has_two_steps_an_epoch() -> None:
    options = Task("transformer", 4, 40, 16, 96).options
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert given["--width"] == "96"
    assert int(given["--chunks"]) * int(given["--chunk-size"]) == 4 * 2 * 16


def test_only_epochs_that_were_throttled_from_their_start_count() -> None:
    found = measured(PRINTED.splitlines())
    assert found["parameters"] == "45278"
    assert float(str(found["seconds"])) == pytest.approx(0.1)  # of two steps in 0.2 s
    assert found["steps"] == 4
    assert found["stolen"] == "0.012"


def test_a_run_is_disturbed_by_others_here_and_outside() -> None:
    quiet: dict[str, object] = {"status": "ok", "other_load": "0.1", "stolen": "0.01"}
    assert disturbed(quiet) == 0
    assert disturbed(quiet | {"other_load": "0.8"}) == pytest.approx(0.5)
    assert disturbed(quiet | {"stolen": "0.25"}) == pytest.approx(0.2)
    assert disturbed({"status": "failed"}) == float("inf")


def test_a_second_start_goes_on(tmp_path: Path) -> None:
    table, every = tmp_path / "scaling.csv", tasks()
    assert missing(every, table) == every
    for task, status in zip(every[:3], ("ok", "failed", "ok"), strict=True):
        cells = {name: getattr(task, name) for name in FACTORS} | {"status": status}
        append(table, COLUMNS, [cells])
    with table.open("a") as file:
        file.write("lenet,8,20")  # a start that was killed while it wrote
    assert sorted(missing(every, table), key=str) == sorted([every[1], *every[3:]], key=str)
    assert len(table.read_text().splitlines()) == 4


def test_the_most_workers_are_never_learnt_from() -> None:
    rows = [{name: getattr(task, name) for name in FACTORS} for task in set(tasks())]
    runs = pd.DataFrame(rows).assign(seconds=1.0, parameters=1, macs=1)
    for cut in cuts(runs):
        assert cut.learn["workers"].max() == 4
        assert (cut.unseen["workers"] == 8).all()
        assert set(cut.factors) <= set(cut.learn.columns)


def test_multiply_accumulates_grow_as_the_network_does() -> None:
    small, large = macs("lenet", 64), macs("lenet", 128)
    assert 3 < large / small < 4  # the second convolution's share is the square of the filters
    widths = np.array([macs("transformer", width) for width in (64, 128)])
    assert 3 < widths[1] / widths[0] < 4
