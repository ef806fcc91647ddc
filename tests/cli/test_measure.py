from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from patience import LONG

from forerun.study import Study

if TYPE_CHECKING:
    from tests.cli.conftest import Forerun

SLEEP = ("sh -c 'sleep $0' {pause}", "-f", "pause=0.01,0.02", "--warmup", "0")
GRID = (*SLEEP, "--design", "grid")


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("forerun.measuring.noise.SAMPLE", 0.0)


def test_measure_by_flags_alone(forerun: Forerun) -> None:
    described = ("--intrinsic", "pause", "--unit", "pause=s", "--repeats", "2")
    done = forerun("measure", *GRID, *described, "-o", "runs.db")
    assert done.code == 0
    assert "runs.db: 4 runs made; 4 in all" in done.out
    assert "next: forerun fit runs.db" in done.out
    said = [line for line in done.err.splitlines() if line.startswith("stored run ")]
    assert [line.split(":")[0] for line in said] == [f"stored run {i} of 4" for i in range(1, 5)]
    with Study.open("runs.db") as study:
        assert study.space.intrinsic == ("pause",)
        assert study.space["pause"].unit == "s"
        assert sorted(study.table()["pause"]) == [0.01, 0.01, 0.02, 0.02]
        assert (study.table()["seconds"] > study.table()["pause"]).all()


def test_go_on_with_a_study(forerun: Forerun) -> None:
    forerun("measure", *GRID, "-o", "runs.db")
    assert "0 runs made; 2 in all" in forerun("measure", "runs.db").out
    assert "2 runs made; 4 in all" in forerun("measure", "runs.db", "--repeats", "2").out
    wider = forerun("measure", "runs.db", "-f", "pause=0.01,0.03", "--repeats", "1")
    assert "1 run made; 5 in all" in wider.out
    assert "0 runs made" in forerun("measure", "-o", "runs.db", "-f", "pause=0.03").out


def test_a_study_file_and_flags_over_it(forerun: Forerun) -> None:
    Path("sub").mkdir()
    Path("sub/study.toml").write_text(
        """
        study = "two.db"
        [commands]
        here = "sh -c 'pwd >> log; sleep $0' {pause}"
        there = "sh -c 'sleep $0' {pause}"
        [factors]
        pause = [0.01, 0.02]
        [measure]
        design = "grid"
        warmup = 0
        """
    )
    done = forerun("measure", "sub/study.toml", "--json")
    assert done.code == 0
    document = done.document
    assert (document["study"], document["made"], document["ended"]) == ("sub/two.db", 4, "done")
    assert document["next"] == "forerun fit sub/two.db"
    assert Path("sub/log").read_text() == f"{Path('sub').resolve()}\n" * 2
    with Study.open("sub/two.db") as study:
        assert study.table()["variant"].value_counts().to_dict() == {"here": 2, "there": 2}
    assert forerun("measure", "sub/study.toml", "--repeats", "2", "--json").document["made"] == 4


def test_several_commands_by_flags(forerun: Forerun) -> None:
    words = ("--command", "a=sleep {pause}", "--command", "b=sh -c 'sleep $0' {pause}")
    done = forerun("measure", *words, "-f", "pause=0.01", "--design", "grid", "-o", "runs.db")
    assert "2 runs made" in done.out
    with Study.open("runs.db") as study:
        assert set(study.table()["variant"]) == {"a", "b"}


def test_a_command_without_a_factor(forerun: Forerun) -> None:
    done = forerun("measure", "true", "--design", "grid", "--repeats", "3", "-o", "runs.db")
    assert "3 runs made" in done.out


def test_networks_of_different_size_in_one_study(forerun: Forerun) -> None:
    for pause, macs in (("0.01", "1000"), ("0.02", "2000")):
        words = ("sleep {net}", "-f", f"net={pause}", "-f", f"macs={macs}", "--intrinsic", "macs")
        done = forerun("measure", *words, "--design", "grid", "--warmup", "0", "-o", "runs.db")
        assert "1 run made" in done.out
    with Study.open("runs.db") as study:
        assert sorted(study.table()["macs"]) == [1000, 2000]


def test_a_study_of_networks_goes_on_as_the_summary_says(forerun: Forerun) -> None:
    for pause, macs in (("0.01", "1000"), ("0.02", "2000")):
        words = ("sleep {net}", "-f", f"net={pause}", "-f", f"macs={macs}", "--intrinsic", "macs")
        forerun("measure", *words, "--design", "grid", "--warmup", "0", "-o", "runs.db")
    done = forerun("measure", "runs.db", "--repeats", "2")
    assert (done.code, "1 run made; 3 in all" in done.out) == (0, True)
    with Study.open("runs.db") as study:
        assert study.runs()[-1].point["macs"] == 2000


def test_a_setting_is_gone_when_the_study_file_no_longer_has_it(forerun: Forerun) -> None:
    file = Path("study.toml")
    text = """
        command = "sh -c 'sleep $0' {pause}"
        [factors]
        pause = [0.01, 0.02]
        [measure]
        design = "grid"
        warmup = 0
        """
    file.write_text(f"{text}where = 'pause < 0.02'")
    assert "1 run made; 1 in all" in forerun("measure", "study.toml").out
    file.write_text(text)
    assert "1 run made; 2 in all" in forerun("measure", "study.toml").out


def test_another_environment_is_refused_in_one_line(forerun: Forerun) -> None:
    forerun("measure", *GRID, "--env", "OMP_NUM_THREADS=1", "-o", "runs.db")
    done = forerun("measure", *GRID, "-o", "runs.db")
    assert done.code == 2
    assert "command, environment: found none, expected as before: OMP_NUM_THREADS=1" in done.err
    assert done.err.count("\n") == 1


def test_another_directory_is_warned_of_in_one_line(forerun: Forerun) -> None:
    forerun("measure", *GRID, "-o", "runs.db")
    Path("sub").mkdir()
    done = forerun("measure", "runs.db", "-C", "sub", "--repeats", "2")
    assert done.code == 0
    assert done.err.count("its earlier runs in") == 1
    assert "earlier" not in forerun("measure", "runs.db").err


def test_a_dry_run_asks_what_a_start_would_ask(forerun: Forerun) -> None:
    forerun("measure", *GRID, "-o", "runs.db")
    more = ("measure", "runs.db", "--repeats", "5", "--dry-run")
    assert len(forerun(*more, "--json").document["first"]) == 5
    assert "about" in forerun(*more).out
    assert len(forerun(*more, "--runs", "4", "--json").document["first"]) == 2
    spent = forerun(*more, "--budget", "0.02").out
    assert "nothing is missing: the budget of 20 ms is spent; another limit" in spent
    assert "about" not in spent
    assert "$ " not in spent
    document = forerun(*more, "--budget", "0.02", "--json").document
    assert (document["first"], document["reason"]) == ([], "the budget of 20 ms is spent")


def test_a_dry_run_shows_first_what_is_tried_again(forerun: Forerun) -> None:
    words = ("sh -c 'test $0 != 2' {n}", "-f", "n=1..20:1", "--design", "grid", "--warmup", "0")
    forerun("measure", *words, "--retries", "0", "-o", "runs.db", "--where", "n < 4")
    again = forerun("measure", *words, "-o", "runs.db", "--retry-failed", "--dry-run", "--json")
    assert again.document["first"][0]["point"] == {"n": 2}
    assert len(again.document["first"]) == 5


def test_dry_run(forerun: Forerun) -> None:
    done = forerun("measure", *SLEEP, "-o", "runs.db", "--dry-run")
    assert done.code == 0
    assert "runs.db: 2 points to choose from, up to 60 runs in all, at most 1 h" in done.out
    assert "$ sh -c 'sleep $0' 0.0" in done.out
    assert list(Path().glob("runs*")) == []
    document = forerun("measure", *GRID, "-o", "runs.db", "--dry-run", "--json").document
    assert (document["expected"], len(document["first"])) == (2, 2)
    assert document["first"][0]["command"][:3] == ["sh", "-c", "sleep $0"]
    forerun("measure", *GRID, "-o", "runs.db")
    assert "nothing is missing" in forerun("measure", "runs.db", "--dry-run").out


def test_where_and_shell_and_environment(forerun: Forerun) -> None:
    words = ("echo {word} $WORD >> log", "-f", "word=a b,c", "--env", "WORD=x{word}")
    done = forerun(
        "measure", *words, "--shell", "--where", "word != 'c'", "--design", "grid",
        "--warmup", "0", "-o", "runs.db",
    )  # fmt: skip
    assert "1 run made" in done.out
    assert Path("log").read_text() == "a b xa b\n"


def test_levers_need_no_hole(forerun: Forerun) -> None:
    Path("train.py").write_text(
        "import os, sys\n"
        "told = [os.environ[name] for name in ('OMP_NUM_THREADS', 'OMP_PROC_BIND')]\n"
        "print('took', 0.2 / int(told[0]), 's')\n"
        "print(*sys.argv[1:], *told, file=open('log', 'a'))\n"
    )
    factors = ("-f", "batch=16", "-f", "threads=1,2", "-f", "affinity=none,close")
    design = ("--design", "grid", "--warmup", "0", "--marker", "took (.*) s")
    words = (f"{sys.executable} train.py {{batch}}", *factors, *design)
    first = forerun("measure", *words, "-o", "runs.db", "--dry-run").out
    assert "$ OMP_NUM_THREADS=" in first
    assert "3 runs made" in forerun("measure", *words, "-o", "runs.db", "--runs", "3").out
    assert "1 run made; 4 in all" in forerun("measure", "runs.db", "--runs", "4").out
    lines = sorted(Path("log").read_text().splitlines())
    assert lines == ["16 1 close", "16 1 false", "16 2 close", "16 2 false"]
    with Study.open("runs.db") as study:
        table = study.table()
    assert (table["seconds"] == 0.2 / table["threads"]).all()  # each has the time of its threads
    wrong = forerun("measure", *words, "-f", "allocator=best", "-o", "other.db")
    assert wrong.code == 2
    assert "allocator: found best, expected one of glibc, jemalloc, tcmalloc" in wrong.err


def test_a_marker_takes_the_time_from_the_output(forerun: Forerun) -> None:
    words = ("echo took {n} s", "-f", "n=3,5", "--marker", r"took (\d+) s", "--design", "grid")
    forerun("measure", *words, "-o", "runs.db")
    with Study.open("runs.db") as study:
        assert (study.table()["seconds"] == study.table()["n"]).all()


def test_a_program_that_always_fails(forerun: Forerun) -> None:
    words = ("sh -c 'echo no luck; exit 3' {n}", "-f", "n=1..20:1", "--design", "grid")
    done = forerun("measure", *words, "-o", "runs.db", "--warmup", "0", "--retries", "0")
    assert done.code == 2
    assert "0 runs made, 3 failed" in done.out
    assert "exit code 3: no luck" in done.out
    assert "next: forerun show runs.db" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "a command, a study file or a study that exists"),
        (("true",), "-o"),
        (("none.db",), "none.db: found no such file"),
        (("none.toml",), "none.toml: No such file"),
        (("sleep {pause}", "-o", "new.db"), "the hole {pause}"),
        (("sleep 1", "-f", "pause=1", "-o", "new.db"), "factor pause: found no hole"),
        (("slep {n}", "-f", "n=1", "-o", "new.db"), "slep"),
        (("sleep {n}", "-f", "n=9..1", "-o", "new.db"), "the lower end first: 1..9"),
        (("sleep {n}", "-f", "n", "-o", "new.db"), "NAME=VALUE"),
        (("sleep {n}", "-f", "n=1", "-f", "n=2", "-o", "new.db"), "two factors n"),
        (("sleep {n}", "-f", "n=1", "--intrinsic", "m", "-o", "new.db"), "--intrinsic: found m"),
        (("sleep {n}", "-f", "n=1", "--role", "n=boss", "-o", "new.db"), "found boss"),
        (("sleep {n}", "-f", "n=1", "--design", "gird", "-o", "new.db"), "--design: found gird"),
        (("sleep {n}", "-f", "n=1", "--runs", "0", "-o", "new.db"), "--runs: found 0"),
        (("sleep {n}", "-f", "n=1", "--budget", "soon", "-o", "new.db"), "--budget: found soon"),
        (("sleep {n}", "-f", "n=1", "--error", "5", "-o", "new.db"), "--error: found 5"),
        (("sleep {n}", "-f", "n=1", "--where", "m > 1", "-o", "new.db"), "one of n"),
        (("sleep {n}", "-f", "n=1", "--where", "import os", "-o", "new.db"), "constraint"),
        (("sleep {n}", "-f", "n=1", "--marker", "(", "-o", "new.db"), "marker"),
        (("sleep {n}", "-f", "n=1", "--env", "=1", "-o", "new.db"), "--env"),
        (("sleep {n}", "-f", "n=1", "-C", "nowhere", "-o", "new.db"), "a directory that exists"),
        (("sleep {n}", "-f", "n=1", "-o", "no/new.db"), "no/new.db: found no such directory"),
        (("sleep '{n}", "-f", "n=1", "-o", "new.db"), "closed quotes"),
        (("true", "--command", "a=true", "-o", "new.db"), "--command"),
        (("--command", "a=true", "--command", "a=false", "-o", "new.db"), "a name twice"),
        (("echo ${{HOME}} ${n}", "-f", "n=1", "--shell", "-o", "new.db"), "${n}"),
    ],
)
def test_wrong_words_are_refused_in_one_line_and_leave_nothing(
    forerun: Forerun, words: tuple[str, ...], said: str
) -> None:
    done = forerun("measure", *words)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
    assert list(Path().glob("*.db*")) == []


def test_a_command_whose_text_changed(forerun: Forerun) -> None:
    forerun("measure", *GRID, "-o", "runs.db")
    done = forerun("measure", "sleep {pause}", "-f", "pause=0.01", "-o", "runs.db")
    assert done.code == 2
    assert "as before: sh -c" in done.err
    assert done.err.count("\n") == 1
    assert "0 runs made; 2 in all" in forerun("measure", "runs.db").out


def test_commands_of_others_are_shown_and_need_trust(
    forerun: Forerun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forerun("measure", *GRID, "-o", "runs.db")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "else"))
    again = ("--repeats", "2")
    refused = forerun("measure", "runs.db", *again)
    assert refused.code == 2
    assert "$ sh -c 'sleep $0' {pause}\n" in refused.err
    assert "expected --trust" in refused.err
    assert "$ sh -c 'sleep $0' 0.01" in forerun("measure", "runs.db", *again, "--dry-run").out
    assert "2 runs made" in forerun("measure", "runs.db", *again, "--trust").out


def test_all_that_somebody_else_would_run_is_shown(
    forerun: Forerun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    around = ("--prepare", "true {s}", "--cleanup", "true", "--env", "LD_PRELOAD={n}.so")
    limits = ("--marker", "took", "--timeout", "9", "-C", str(tmp_path), "--shell", "--slots", "2")
    given = ("-f", "s=ok,/tmp/evil.py", "-f", "n=1,2", "--design", "grid")
    forerun("measure", "cat {s}", *around, *limits, *given, "-o", "x.db")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "else"))
    refused = forerun("measure", "x.db")
    assert refused.err.splitlines()[:-1] == [
        "$ cat {s}",
        "  shell: yes",
        "  prepare: true {s}",
        "  cleanup: true",
        "  environment: LD_PRELOAD={n}.so",
        f"  directory: {tmp_path}",
        "  marker: took",
        "  timeout: 9 s",
        "s: ok, /tmp/evil.py",
        "n: 1, 2",
        "design: grid",
        "slots: 2",
    ]
    typed = forerun("measure", "--command", "own=cat {s} {n}", "-o", "x.db")
    assert "found values that somebody else may have made, expected --trust" in typed.err


def test_a_long_command_is_no_file_name(forerun: Forerun) -> None:
    long = f"sh -c 'sleep $0' {{pause}} {'x' * 300} {'y/' * 3000}"
    done = forerun("measure", long, *GRID[1:], "-o", "runs.db")
    assert (done.code, done.err.count("stored run")) == (0, 2)


def test_a_command_whose_last_word_is_a_toml_file_is_a_command(forerun: Forerun) -> None:
    done = forerun("measure", "sh -c 'sleep $0' {pause} config.toml", *GRID[1:], "-o", "runs.db")
    assert (done.code, done.err.count("stored run")) == (0, 2)
    Path("my study.toml").write_text("command = 3")
    assert "my study.toml: command: found 3" in forerun("measure", "my study.toml").err
    assert "none.toml: No such file" in forerun("measure", "none.toml").err


def test_ctrl_c_leaves_a_study_that_goes_on(tmp_path: Path) -> None:
    words = ["sleep {pause}", "-f", "pause=0.01,600", "--design", "grid", "--warmup", "0"]
    command = [sys.executable, "-m", "forerun", "measure", *words, "-o", "runs.db"]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    while not list(tmp_path.glob("runs.output/*")):
        time.sleep(0.01)
    time.sleep(0.5)
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=LONG)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert "next: forerun measure runs.db" in out
    with Study.open(tmp_path / "runs.db") as study:
        assert [run.status for run in study.runs() if run.point["pause"] == 600] == []
