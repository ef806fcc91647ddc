import shutil
from importlib.resources import files
from pathlib import Path

import pandas as pd
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


@pytest.fixture(scope="session")
def fitted_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of the runs that ship with forerun, with a fitted and compared model."""
    from forerun.modelling.kept import fit_kept

    intrinsic = ["kernel", "filters", "activation", "optimiser"]
    factors = [*intrinsic, "batch", "samples", "workers"]
    table = pd.read_csv(str(files("forerun") / "data" / "lenet.csv"))
    space = Space.from_table(table[factors], intrinsic=intrinsic)
    study = Study.create(tmp_path_factory.mktemp("fitted") / "lenet.db", space)
    study.add_all(
        Run(
            space.point({name: row[name] for name in factors}),
            {name: row[name] for name in ("seconds", "memory_bytes")},
        )
        for row in table.to_dict("records")
    )
    fit_kept(study)
    return study.path


@pytest.fixture
def fitted_study(fitted_file: Path, tmp_path: Path) -> Study:
    """A copy of `fitted_file` that a test may change."""
    return Study.open(shutil.copy(fitted_file, tmp_path / "lenet.db"))
