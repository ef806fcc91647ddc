import subprocess
import sys
from importlib import import_module

import pytest

import forerun


def test_the_public_names_are_sorted() -> None:
    assert forerun.__all__ == sorted(forerun.__all__)


def test_the_public_names_are_what_is_exported() -> None:
    assert set(forerun.__all__) == {*forerun._MODULES, "__version__"}
    assert dir(forerun) == forerun.__all__


@pytest.mark.parametrize("name", forerun.__all__)
def test_every_public_name_can_be_imported_and_is_documented(name: str) -> None:
    value = getattr(forerun, name)
    if name != "__version__":
        assert value is getattr(import_module(forerun._MODULES[name]), name)
        assert value.__doc__


@pytest.mark.parametrize("name", ["Nothing", "__wrapped__"])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'forerun' has no attribute '{name}'"):
        getattr(forerun, name)


def test_importing_forerun_loads_nothing_slow() -> None:
    program = (
        "import sys, forerun; forerun.Study; forerun.Space;"
        "print([m for m in ('numpy', 'pandas', 'scipy', 'sklearn', 'plotly', 'matplotlib', 'typer')"
        " if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout == "[]\n"
