from pathlib import Path

import pytest

from forerun.factors import Factor, Point, Space
from forerun.study import Run, Study


@pytest.fixture
def lenet_space() -> Space:
    """The factors of a small training job, numeric and categorical, intrinsic and extrinsic."""
    return Space(
        [
            Factor("kernel", scope="intrinsic", values=(3, 5)),
            Factor("activation", "categorical", "intrinsic", values=("relu", "tanh")),
            Factor("batch", role="batch", values=(16, 32, 64)),
        ]
    )


@pytest.fixture
def lenet_study(tmp_path: Path, lenet_space: Space) -> Study:
    """A study with twelve good runs, one at each point of the grid, and one that failed."""
    study = Study.create(tmp_path / "lenet.db", lenet_space, {"": "train.py --batch {batch}"})
    study.add_all(
        Run(point, {"seconds": 1 + i / 8, "memory_bytes": 1e6 * (i + 1)})
        for i, point in enumerate(lenet_space.grid())
    )
    study.add(
        Run(
            Point({"kernel": 5, "activation": "relu", "batch": 4096}),
            {"seconds": 0.5},
            status="out_of_memory",
        )
    )
    return study
