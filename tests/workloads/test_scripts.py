"""The four scripts are one workload: what one takes, all take. None of the frameworks is needed."""

import ast
import importlib.util
import re
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from forerun.factors import Value
from forerun.workloads.environments import FRAMEWORKS
from forerun.workloads.sizes import IMAGE_SIZES, can_be_built, lenet_sizes, lenet_space

TRANSFORMERS = ("--layers", "--width", "--heads", "--length")
PYTORCHS = (*TRANSFORMERS, "--export")  # options that PyTorch's script alone has


class Option(NamedTuple):
    """What matters of an option to those who use it."""

    default: Any
    choices: tuple[str, ...] | None


def loaded(framework: str) -> ModuleType:
    """A script that imports its framework only when it trains."""
    spec = importlib.util.spec_from_file_location(framework, FRAMEWORKS[framework].script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options(framework: str) -> dict[str, Option]:
    """A script's options, in their order, out of its source: calls such as `add("--batch", …)`."""
    tree = ast.parse(FRAMEWORKS[framework].script.read_text(encoding="utf-8"))
    names = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.args[0].value
            if isinstance(name, str) and re.fullmatch("--[a-z-]+", name):
                given = {one.arg: one.value for one in node.keywords if one.arg is not None}
                found[name] = Option(_value(given, "default", names), _choices(given, names))
    return found


def _choices(given: dict[str, ast.expr], names: dict[str, ast.expr]) -> tuple[str, ...] | None:
    value = _value(given, "choices", names)
    return None if value is None else tuple(value)


def _value(given: dict[str, ast.expr], key: str, names: dict[str, ast.expr]) -> Any:
    value = given.get(key)
    if isinstance(value, ast.Name):
        value = names[value.id]
    return None if value is None else ast.literal_eval(value)


def images_only(framework: str) -> dict[str, Option]:
    found = options(framework)
    networks = tuple(name for name in found["--network"].choices or () if name != "transformer")
    kept = {name: option for name, option in found.items() if name not in PYTORCHS}
    return {**kept, "--network": found["--network"]._replace(choices=networks)}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_all_take_the_same_options(framework: str) -> None:
    assert images_only(framework) == images_only("pytorch")
    assert list(images_only(framework)) == list(images_only("pytorch"))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_networks_are_those_that_are_listed(framework: str) -> None:
    assert options(framework)["--network"].choices == FRAMEWORKS[framework].networks


def test_every_factor_of_the_study_is_an_option() -> None:
    found = options("pytorch")
    for name, factor in lenet_space().items():
        option = found[f"--{name.replace('_', '-')}"]
        if factor.kind == "categorical":
            assert set(factor.values) <= set(option.choices or ())


def test_every_data_set_has_an_image_size() -> None:
    assert set(options("pytorch")["--dataset"].choices or ()) == set(IMAGE_SIZES)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_script_ships_beside_its_pinned_requirements(framework: str) -> None:
    found = FRAMEWORKS[framework]
    pins = [line for line in found.requirements.read_text().splitlines() if line[0] != "#"]
    assert found.script.is_file()
    assert len(found.packages) == len(pins)
    assert "numpy" in found.packages


def test_the_scripts_reckon_alike() -> None:
    names = ("kernel", "pool", "stride", "padding", "dataset")
    mxnet, tensorflow = loaded("mxnet"), loaded("tensorflow")
    values = (lenet_space()[name].values for name in names)
    refused = 0
    for drawn in product(*values):
        point = dict(zip(names, drawn, strict=True))
        options = SimpleNamespace(**{**point, **_whole(point)}, network="lenet")
        side = 32 if point["dataset"] == "cifar10" else 28
        sizes = list(lenet_sizes(point))
        if can_be_built(point):
            assert mxnet.sizes(options, side) == sizes
            assert tensorflow.layer_sizes(options, side) == sizes
            continue
        refused += 1
        with pytest.raises(mxnet.RefusedError):
            mxnet.sizes(options, side)
        with pytest.raises(SystemExit):
            tensorflow.layer_sizes(options, side)
    assert refused > 10


def _whole(point: dict[str, Value]) -> dict[str, int]:
    return {name: int(point[name]) for name in ("kernel", "pool", "stride")}
