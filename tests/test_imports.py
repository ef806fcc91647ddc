"""Imports follow one order, whether they stand at the top, in a function or for types only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import forerun

PACKAGE = Path(forerun.__file__).parent
FRAMEWORKS = {"torch", "tensorflow", "mxnet", "jax"}

# Each part of the package, and the parts that it may import besides itself, lowest first.
# A part is a module or a package directly below forerun.
LOWEST = {"errors", "quantities", "_documents", "_state"}
FACTORS = LOWEST | {"_values", "_roles", "_ranges", "factors"}
STUDY = FACTORS | {"_run", "_rows", "_store", "study"}
BASE = STUDY | {"_seal", "compilers", "levers", "infrastructure"}
MODELLING = BASE | {"importing", "modelling"}
MEASURING = MODELLING | {"jobs", "measuring", "splitting"}
PLANNING = MEASURING | {"describing", "workloads", "planning", "deploying"}
DRAWING = PLANNING | {"_outputs", "plots", "report"}

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "quantities": set(),
    "_documents": {"errors"},
    "_state": set(),
    "_values": {"errors"},
    "_roles": set(),
    "_ranges": {"errors"},
    "factors": FACTORS,
    "compilers": set(),
    "levers": FACTORS | {"compilers"},
    "_run": FACTORS,
    "_rows": FACTORS | {"_run"},
    "_store": {"errors"},
    "_seal": {"errors", "_state"},
    "_outputs": {"errors"},
    "describing": {"errors"},
    "study": STUDY,
    "infrastructure": STUDY,
    # These three know nothing of each other.
    "importing": STUDY,
    "modelling": BASE,
    "jobs": BASE,
    "measuring": BASE | {"modelling", "jobs"},
    "workloads": FACTORS,
    "splitting": BASE | {"modelling", "describing"},
    "planning": MEASURING | {"describing", "workloads", "_outputs"},
    "deploying": MEASURING | {"describing", "workloads", "planning", "_outputs"},
    "plots": PLANNING | {"_outputs"},
    "report": DRAWING,
    # Nothing imports these.
    "cli": DRAWING,
    "dashboard": DRAWING,
    "__main__": {"cli"},
    "__init__": DRAWING,
}

# Shipped as data: they run in an environment of their framework's, and nothing imports them.
SCRIPTS = {"train_jax", "train_mxnet", "train_pytorch", "train_tensorflow"}

# They make and train networks, and are imported late: cutting and running needs no framework.
WITH_TORCH = {
    f"forerun.splitting.{name}"
    for name in (
        *("blocks", "decouple", "distill", "export"),
        *("grouping", "networks", "tracing", "train"),
    )
}

# What may be imported upwards all the same, by one function and when it is called.
CONVENIENT = {
    "study": {"measuring"},  # Study.measure: where a notebook's user looks for it
}


def part(module: str) -> str:
    """The part of the package that a module's full name lies in."""
    return [*module.split("."), "__init__"][1]


def module_name(file: Path) -> str:
    names = ("forerun", *file.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def imported(file: Path) -> Iterator[str]:
    """The full names of all modules that a file imports, relative and late imports included."""
    package = module_name(file).split(".")
    if file.name != "__init__.py":
        package.pop()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from (exported(source, alias.name) for alias in node.names)


def exported(source: str, name: str) -> str:
    """The module that `from source import name` comes from."""
    if source != "forerun":
        return source
    return forerun._MODULES.get(name, "forerun" if name in forerun.__all__ else f"forerun.{name}")


FILES = {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def test_the_table_has_every_part_and_no_circle() -> None:
    assert {part(module) for module in FILES} <= set(ALLOWED), "add it to the table"
    order: list[str] = []
    waiting = {name: others - {name} for name, others in ALLOWED.items()}
    while waiting:
        free = sorted(name for name, others in waiting.items() if others <= set(order))
        assert free, f"these wait for each other: {sorted(waiting)}"
        order += free
        waiting = {name: others for name, others in waiting.items() if name not in order}


def test_nothing_may_import_what_the_user_faces() -> None:
    faces = {"cli", "dashboard"}
    assert [name for name, others in ALLOWED.items() if others & faces] == ["__main__"]


@pytest.mark.parametrize("module", FILES)
def test_imports_follow_the_order(module: str) -> None:
    own = part(module)
    ours = [name for name in imported(FILES[module]) if name.split(".")[0] == "forerun"]
    # The package itself stands for its version alone.
    others = {part(name) for name in ours} - {own, "__init__"}
    assert others <= ALLOWED[own] | CONVENIENT.get(own, set())


@pytest.mark.parametrize("module", FILES)
def test_no_module_imports_a_deep_learning_framework(module: str) -> None:
    if module.removeprefix("forerun.workloads.") not in SCRIPTS and module not in WITH_TORCH:
        assert not {name.split(".")[0] for name in imported(FILES[module])} & FRAMEWORKS


@pytest.mark.parametrize("module", FILES)
def test_training_scripts_know_nothing_of_forerun_nor_forerun_of_them(module: str) -> None:
    names = set(imported(FILES[module]))
    if module.removeprefix("forerun.workloads.") in SCRIPTS:
        assert not any(name.split(".")[0] == "forerun" for name in names)
    assert not {name.removeprefix("forerun.workloads.") for name in names} & SCRIPTS
