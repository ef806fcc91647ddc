from pathlib import Path

import pytest

from forerun.errors import InputError
from forerun.measuring.studyfile import read_study_file

WHOLE = """
study = "runs/lenet.db"

[commands]
plain = "python train.py --batch {batch} --kernel {kernel} --act {act}"
compiled = "python train.py --compile --batch {batch} --kernel {kernel} --act {act}"

[factors]
batch = "16..256"
kernel = { values = [3, 5], intrinsic = true, unit = "px" }
act = ["relu", "tanh"]
gpus = { values = "1,2", categorical = true }
shuffle = [true, false]
depth = { values = 4, role = "nodes" }

[measure]
error = "5%"
budget = "30min"
where = "batch >= 32"
warmup-point = 1
directory = "code"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "study.toml"


def test_a_study_file(file: Path) -> None:
    file.write_text(WHOLE)
    asked = read_study_file(file)
    assert asked.study == file.parent / "runs" / "lenet.db"
    assert asked.commands is not None
    assert list(asked.commands) == ["plain", "compiled"]
    space = asked.space
    assert space is not None
    assert space.names == ("batch", "kernel", "act", "gpus", "shuffle", "depth")
    assert space["batch"].values == (16, 32, 64, 128, 256)
    assert (space["kernel"].scope, space["kernel"].unit) == ("intrinsic", "px")
    assert space["act"].kind == "categorical"
    assert space["gpus"].values == ("1", "2")
    assert space["shuffle"].values == ("true", "false")
    assert (space["depth"].values, space["depth"].role) == ((4,), "nodes")
    assert asked.settings.said == {
        "error": 0.05,
        "budget": 1800.0,
        "where": ("batch >= 32",),
        "warmup_point": 1,
        "directory": file.parent / "code",
    }


def test_one_command_needs_no_name_and_a_study_no_name_of_its_own(file: Path) -> None:
    file.write_text('command = "sleep {pause}"\n[factors]\npause = [0.1, 0.2]\n')
    asked = read_study_file(file)
    assert asked.commands == {"": "sleep {pause}"}
    assert asked.study == file.with_name("study.db")
    assert asked.settings.directory == file.parent


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("study = ", "Invalid value (at end of document), expected TOML"),
        ("", "found no command, expected command ="),
        ('command = "a"\n[commands]\nb = "b"', "found both command and [commands]"),
        ('comand = "a"', "comand: found a field of that name, expected one of study, command"),
        ("command = 7", "command: found 7, expected a text"),
        ('study = ""\ncommand = "a"', "study: "),
        ('command = "a"\n[factors]\nb = "9..1"', "factor b: found 9..1, expected the lower end"),
        ('command = "a"\n[factors]\nb = []', "factor b: found [], expected a text, or a list"),
        ('command = "a"\n[factors]\nb = [1, "x"]', "only numbers or only categories"),
        ('command = "a"\n[factors]\nb = {}', "factors.b.values: "),
        ('command = "a"\n[factors]\nb = {values = 1, unt = "s"}', "factors.b.unt: "),
        ('command = "a"\n[factors]\nb = {values = 1, role = "boss"}', "factor b, role"),
        ('command = "a"\n[factors]\nb = [nan]', "a finite number"),
        ('command = "a"\n[measure]\ndesign = "best"', "measure.design: found best, expected"),
        (
            'command = "a"\n[measure]\nruns = "ten"',
            "measure.runs: found ten, expected a whole number",
        ),
        ('command = "a"\n[measure]\nwarmup_points = 1', "expected one of design, runs, budget"),
        (
            'command = "a"\n[factors]\nb = {unit = "s"}',
            "factors.b.values: found none, expected a v",
        ),
        ('command = "a"\n[factors]\nb = {values = "x,,y", categorical = true}', "an empty value"),
        ('command = ""', "command: found '', expected a program and its arguments"),
        ('command = "a {"', "command: found {, expected {name}"),
        ('command = "a"\n[measure]\nwhere = "a.b > 1"', "constraint a.b > 1: found a.b"),
        ('command = "a"\n[measure]\nmarker = "("', "marker: found ("),
        ('command = "a"\n[measure]\nbudget = inf', "measure.budget: found inf, expected a finite"),
        ('command = "a"\n[measure]\ntimeout = inf', "measure.timeout: found inf"),
        ('command = "a"\n[measure.env]\n"A=B" = "x"', "environment: found A=B"),
        ('command = "a"\nstudy = ""', "study: found '', expected a text that is not empty"),
        (
            'command = "a"\nstudy = "a\\u0000b.db"',
            "study: found a\\x00b.db, expected a text without",
        ),
        ('command = "a"\nstudy = "a\\nb.db"', "study: found a\\nb.db, expected a text without"),
        (f"seed = {'9' * 5000}", "expected TOML"),
        (f"seed = {'[' * 5000}", "expected TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError) as raised:
        read_study_file(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert str(raised.value).count(str(file)) == 1
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_other_files(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="TOML"):
        read_study_file(file)
    file.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(InputError, match="at most 1048576"):
        read_study_file(file)
    with pytest.raises(FileNotFoundError):
        read_study_file(file.with_name("none.toml"))
