"""Documents that people write: what is read, and in what words it is refused."""

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun._documents import (
    LARGEST,
    Table,
    duration,
    rate,
    read_toml,
    read_yaml,
    size,
    validated,
    written,
)
from forerun.errors import InputError


@pytest.mark.parametrize(
    ("text", "found"),
    [("512", None), (512, 512.0), ("40 GB", 40e9), ("256GiB", 2.0**38), ("8 Mbit", 1e6)],
)
def test_sizes(text: object, found: float | None) -> None:
    if found is None:
        with pytest.raises(ValueError, match="a size such as"):
            size(text)
    else:
        assert size(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [(1e9, 1e9), ("200 MB/s", 2e8), ("10 Gbit/s", 1.25e9)],
)
def test_rates(text: object, found: float) -> None:
    assert rate(text) == found


@pytest.mark.parametrize("text", ["40 GB", "fast", "1 XB/s", "-1 GB/s", True, "GB/s", ""])
def test_what_is_no_rate(text: object) -> None:
    with pytest.raises(ValueError, match="a rate such as"):
        rate(text)


def test_short_times() -> None:
    assert duration("30us") == pytest.approx(30e-6)
    assert duration("1 ms 5 us") == pytest.approx(1.005e-3)


@given(st.integers(1, 2**50))
def test_what_is_written_is_read_as_it_was(value: int) -> None:
    for kind, read in (("size", size), ("rate", rate), ("duration", duration)):
        assert read(written(float(value), kind)) == float(value)  # type: ignore[arg-type]


def test_a_yaml_file(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("name: x\nlist: [1, 2]\n")
    assert read_yaml(file) == {"name": "x", "list": [1, 2]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\na: 2\n", "line 2, column 1: found a twice, expected YAML"),
        ("a: &x [1]\nb: *x\n", "found an alias, expected YAML"),
        ("a: [1\n", "expected YAML"),
        ("- 1\n", "found list, expected a table of fields"),
        ("", "found NoneType, expected a table of fields"),
        ("a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
        ("a: \x00", "expected YAML"),
        ("x" * (LARGEST + 1), f"at most {LARGEST}"),
        ("[" * 5000, "expected YAML"),
        ("a: !!int ''", "line 1, column 4: found what is no int: '', expected YAML"),
        ("a: !!float ''", "what is no float"),
        ("a: !!bool foo", "what is no bool"),
        ("a: !!timestamp foo", "what is no timestamp"),
        (f"a: 0x{'F' * 9000}", "found a number of more than 1023 bits"),
        (f"a: {'9' * 4000}", "found a number of more than 1023 bits"),
        (f"a: {'9' * 5000}", "what is no int"),
    ],
)
def test_yaml_that_is_refused_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        read_yaml(file)
    assert told in str(refused.value)
    assert str(refused.value).startswith(str(file))
    assert "\n" not in str(refused.value)


def test_a_file_of_other_bytes(tmp_path: Path) -> None:
    file = tmp_path / "latin"
    file.write_bytes(b"\xff\xfe")
    for read, kind in ((read_yaml, "YAML"), (read_toml, "TOML")):
        with pytest.raises(InputError, match=f"expected {kind}"):
            read(file)


def test_numbers_beyond_all_measure() -> None:
    assert duration(10**400) == size(10**400) == rate(10**400) == math.inf  # no field takes it


def test_what_may_never_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match="found a pipe or a device, expected a file"):
            read_yaml(path)


def test_a_pipe_of_the_shell_is_read() -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"name: x\n")
    os.close(theirs)
    assert read_yaml(Path(f"/dev/fd/{ours}")) == {"name": "x"}
    os.close(ours)


class Inner(Table):
    """A table below a name."""

    deep: int = 0


class Outer(Table):
    """Tables by name."""

    inner: dict[str, Inner | None]


def test_an_unknown_field_is_told_the_names_beside_it() -> None:
    with pytest.raises(InputError, match=r"^inner\.x\.dep: found .*, expected one of deep$"):
        validated(Outer, {"inner": {"x": {"dep": 1}}})
    with pytest.raises(InputError, match=r"expected one of inner$"):
        validated(Outer, {"inner": {}, "outer": 1})
