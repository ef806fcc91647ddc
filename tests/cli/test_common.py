import json
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer

from forerun.cli import main
from forerun.cli.common import guarded, print_json, shown, table, target_of
from forerun.errors import DataWarning, InputError
from forerun.study import Study


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


def test_the_help_answers_in_under_0_4_seconds() -> None:
    def processor_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Of three, for the first may have to compile; processor time, for other tests run beside it.
    assert min(processor_seconds() for _ in range(3)) < 0.4


def test_the_help_needs_no_slow_library() -> None:
    code = (
        "import sys; from forerun.cli import main; main(['--help']); "
        "slow = {'numpy', 'pandas', 'scipy', 'sklearn', 'plotly', 'matplotlib', 'torch'}; "
        "import json; print(json.dumps(sorted(slow & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
