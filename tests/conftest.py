import os
import re
import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings
from onnx import TensorProto, helper, numpy_helper, save_model

from forerun.factors import Factor, Point, Space
from forerun.study import Run, Study

# Where the machine stands still for a while, an example takes long, and so does drawing it. As by
# Hypothesis's own settings for it, continuous integration tries the same examples each time.
settings.register_profile(
    "patient",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")


@pytest.fixture
def libraries(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of libraries, with the mathematics of this process under the allocators' names."""
    found = re.search(r"/\S+/libm[.-]\S+", Path("/proc/self/maps").read_text())
    assert found is not None
    folder = tmp_path_factory.mktemp("libraries")
    for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4"):
        shutil.copy(found[0], folder / name)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    return folder


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


@pytest.fixture(scope="session")
def cnn_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network for pictures of 8 x 8 grey pixels and ten classes, with random weights."""
    random = np.random.default_rng(0)
    shapes = {"w1": (6, 1, 3, 3), "w2": (8, 6, 3, 3), "w3": (8 * 4 * 4, 10)}
    weights = [
        numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["a"], pads=[1] * 4, name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w2"], ["d"], pads=[1] * 4, name="second"),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "w3"], ["logits"], name="last"),
    ]
    floats = TensorProto.FLOAT
    image = helper.make_tensor_value_info("image", floats, [1, 1, 8, 8])
    logits = helper.make_tensor_value_info("logits", floats, [1, 10])
    graph = helper.make_graph(nodes, "small", [image], [logits], weights)
    path = tmp_path_factory.mktemp("cnn") / "small.onnx"
    opset = [helper.make_opsetid("", 17)]
    save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


@pytest.fixture
def cnn(cnn_file: Path, tmp_path: Path) -> Path:
    """The small network, in the test's own folder."""
    return Path(shutil.copy(cnn_file, tmp_path / "small.onnx"))


@pytest.fixture
def patient_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices of a split that are waited for as long as a machine may stand still."""
    from device_beds import patient

    patient(monkeypatch)
