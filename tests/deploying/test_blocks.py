"""hpccm behind its door: nothing is swallowed, nothing is left set."""

import pytest

from forerun.deploying.blocks import accepted, blocks
from forerun.errors import InputError


def test_an_argument_that_hpccm_would_swallow_is_refused() -> None:
    with blocks("docker", "x86_64") as make:
        assert str(make("copy", src="a", dest="/b")) == "COPY a /b"
        with pytest.raises(InputError) as refused:
            make("copy", source="a", dest="/b")
    assert str(refused.value).startswith("hpccm, copy: found source, expected one of _app, ")


def test_a_block_that_is_none_is_refused() -> None:
    with blocks("docker", "x86_64") as make, pytest.raises(InputError, match="found os, expected"):
        make("os", path="x")


@pytest.mark.parametrize(
    "commands", [["true\nRUN touch x"], ["true\x00"], [("true", "a\u2028b")], [{"a": "\r"}]]
)
def test_newlines_at_any_depth_are_refused(commands: list[object]) -> None:
    with blocks("docker", "x86_64") as make, pytest.raises(InputError, match="a text of one line"):
        make("shell", commands=commands)


def test_what_a_block_accepts_is_read_from_all_that_it_is_made_of() -> None:
    from hpccm.building_blocks import apt_get, pip

    assert {"packages", "requirements", "install_args", "ospackages", "wd"} <= accepted(pip)
    assert "ospackages" in accepted(apt_get)
    assert "package" not in accepted(pip)


def test_settings_are_put_back_also_after_an_error() -> None:
    import hpccm

    before = dict(vars(hpccm.config))
    with blocks("apptainer", "aarch64") as make:
        assert str(make("shell", commands=["true"])).startswith("%post")
        assert hpccm.config.get_cpu_architecture() == "aarch64"
    with pytest.raises(ZeroDivisionError), blocks("apptainer", "ppc64le"):
        _ = 1 / 0
    assert dict(vars(hpccm.config)) == before


def test_a_format_that_is_none() -> None:
    with pytest.raises(InputError) as refused, blocks("bash", "x86_64"):  # type: ignore[arg-type]
        pass
    assert str(refused.value) == "recipe, format: found bash, expected one of docker, apptainer"
