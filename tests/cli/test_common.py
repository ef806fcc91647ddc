import json
import os
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer

from forerun.cli import GROUPS, VERBS, main
from forerun.cli.common import guarded, print_json, shown, table, target_of, working
from forerun.errors import DataWarning, InputError
from forerun.factors import Factor, Point, Space
from forerun.study import Run, Study


def raising(error: BaseException) -> int:
    def call() -> None:
        raise error

    return guarded(call)


def test_wrong_input_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(InputError("runs.csv, row 7", "fast\nfood", "a number")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "forerun: error: runs.csv, row 7: found fast\\nfood, expected a number\n"


def test_a_failure_inside_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(ZeroDivisionError("division by zero")) == 1
    err = capsys.readouterr().err
    assert err.startswith("forerun: error: ZeroDivisionError: division by zero")
    assert "FORERUN_DEBUG=1" in err
    assert err.count("\n") == 1


def test_debugging_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORERUN_DEBUG", "1")
    assert raising(ZeroDivisionError("no")) == 1
    assert "Traceback" in capsys.readouterr().err


def test_interrupted_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "forerun: error: interrupted\n"


def test_interrupted_is_told_where_typer_has_made_an_exit_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = typer.Typer()

    @app.command()
    def verb() -> None:
        raise KeyboardInterrupt

    assert guarded(lambda: app([], standalone_mode=False)) == 130
    assert capsys.readouterr().err == "forerun: error: interrupted\n"


def test_what_json_cannot_hold_is_one_line() -> None:
    with pytest.raises(InputError, match="found a number that is not finite"):
        print_json({"seconds": float("inf")})


def test_a_file_that_cannot_be_written_is_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(PermissionError(13, "Permission denied", "out.html")) == 2
    assert capsys.readouterr().err == "forerun: error: out.html: Permission denied\n"


def test_a_usage_error_is_one_line_without_a_frame(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(typer.BadParameter("no such thing")) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_our_warnings_are_shown_and_those_of_libraries_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def call() -> None:
        warnings.warn("kernel never varies", DataWarning, stacklevel=1)
        warnings.warn("did not converge", RuntimeWarning, stacklevel=1)

    assert guarded(call) == 0
    assert capsys.readouterr().err == "forerun: warning: kernel never varies\n"


def test_no_verb_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Usage: forerun" in capsys.readouterr().out


def test_a_misspelt_verb_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fat"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "forerun: error: No such command 'fat'. Did you mean 'fit'?\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from forerun import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"forerun {__version__}\n"


def test_names_cannot_command_the_terminal() -> None:
    assert shown("\x1b[31mred\x07") == "\\x1b[31mred\\x07"


def test_names_are_not_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    from forerun.cli.common import results

    made = table("[bold]name[/bold]")
    made.add_row("[/] :smile:")
    results().print(made)
    out = capsys.readouterr().out
    assert "[bold]name[/bold]" in out
    assert "[/] :smile:" in out


def test_a_sign_of_life_is_not_read_as_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with working("fitting [/b]"):
        pass
    assert "fitting [/b]" in capsys.readouterr().err


def test_json_has_no_nan() -> None:
    with pytest.raises(ValueError, match="JSON"):
        print_json({"seconds": float("nan")})


def test_memory_is_short_for_memory_bytes(lenet_study: Study) -> None:
    assert target_of(lenet_study, "memory") == "memory_bytes"
    with pytest.raises(InputError, match="expected one of seconds, memory_bytes"):
        target_of(lenet_study, "joules")


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "forerun", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_a_missing_study_is_refused_by_the_real_command(tmp_path: Path) -> None:
    done = run("fit", str(tmp_path / "none.db"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("forerun: error: ")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error(lenet_study: Study) -> None:
    piped = f"{sys.executable} -m forerun show {lenet_study.path} --json | head -c 1"
    done = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, check=False)
    assert done.stdout == "{"
    assert done.stderr == ""


SLOW = ["archspec", "matplotlib", "numpy", "pandas", "plotly", "psutil", "regex", "scipy"]
SLOW += ["onnx", "onnxruntime", "PIL", "sklearn", "torch", "yaml"]
EVERY = [[name] for name in (*VERBS, *GROUPS)]
EVERY += [
    [name, str(verb.name)]
    for name, (group, _) in GROUPS.items()
    for verb in group.registered_commands
]


@pytest.mark.parametrize(
    ("asked", "slow"),
    [
        ([[]], [*SLOW, "pydantic"]),
        (EVERY, SLOW),  # Typer itself takes pydantic for these
    ],
    ids=["all", "each verb"],
)
def test_no_help_needs_a_slow_library(asked: list[list[str]], slow: list[str]) -> None:
    code = (
        "import json, sys; from forerun.cli import main; "
        f"codes = [main([*words, '--help']) for words in {asked}]; "
        f"print(json.dumps([codes, sorted(set({slow}) & set(sys.modules))]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [[0] * len(asked), []]


def test_results_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.text import Text

    from forerun.cli.common import results

    made = table("name")
    made.add_row("\x1b]0;cell\x07")
    for printed in ("a\x1b[2J\nb\x9b1m", Text("\x1b[31mtext\u202e"), made):
        results().print(printed)
    out = capsys.readouterr().out
    assert out.startswith("a\\x1b[2J\nb\\x9b1m\n\\x1b[31mtext\\u202e\n")
    assert "\\x1b]0;" in out
    assert all(character.isprintable() or character == "\n" for character in out)


def test_json_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"status": "\x1b[2J \x9b1m \u202e \udcff µ"}
    print_json(document)
    out = capsys.readouterr().out
    assert out == '{\n  "status": "\\u001b[2J \\u009b1m \\u202e \\udcff µ"\n}\n'
    assert json.loads(out) == document


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_reads_nothing_is_no_error(lenet_study: Study, options: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "forerun", "show", str(lenet_study.path), *options]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("verb", ["fit", "explain", "predict", "suggest", "report"])
def test_one_run_is_too_few_and_the_study_is_named(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = Study.create(tmp_path / "one.db", Space([Factor("batch")]))
    study.add(Run(Point({"batch": 16}), {"seconds": 1.0}))
    assert main([verb, str(study.path)]) == 2
    line = f"forerun: error: {study.path}: found 1 run, expected at least 2\n"
    assert capsys.readouterr() == ("", line)
    assert main(["show", str(study.path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{study.path}: 1 run (1 ok)\n")
    assert "noise: unknown, the one point was not run twice" in out


@pytest.mark.parametrize("verb", ["show", "fit", "explain", "predict", "suggest", "report"])
def test_a_damaged_study_is_wrong_input(
    verb: str, lenet_study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    db = sqlite3.connect(lenet_study.path)
    db.execute("UPDATE run SET measures = '{\"seconds\": NaN}' WHERE id = 2")
    db.commit()
    db.close()
    assert main([verb, str(lenet_study.path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"forerun: error: {lenet_study.path}: found a damaged run 2 (")
    assert err.count("\n") == 1
