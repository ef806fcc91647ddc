from pathlib import Path

import pytest

from forerun.jobs.backend import State
from forerun.jobs.traces import OUTSIDE, count_starts, told_by_folder, with_output


def leave(folder: Path, **texts: str) -> None:
    (folder / "attempts").mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / "attempts" / name.strip("_").replace("_", ".")).write_text(text)


def test_nothing_was_left(tmp_path: Path) -> None:
    assert told_by_folder(tmp_path).phase == "unknown"
    assert told_by_folder(None).phase == "unknown"
    assert count_starts(tmp_path) == 0


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("job 4\nnodes n1\nstarted 1\ncode 0\nended 9\n", "done"),
        ("job 4\nnodes n1\nstarted 1\ncode 3\nended 9\n", "failed"),
        ("job 4\nnodes n1\nstarted 1\nbegun 2\ndone 8\ncode 0\nended 9\n", "done"),
        ("job 4\nnodes n1\nstarted 1\nbegun 2\ncode 0\nended 9\n", "unknown"),
        ("job 4\nnodes n1\nstarted 1\n", "unknown"),
        ("job 4\nnodes n1\nstarted 1\ncode 0\nexpired 8\nended 9\n", "timed_out"),
        ("job 4\nnodes n1\nstarted 1\ncode 3\nrequeued 8\nended 9\n", "unknown"),
    ],
)
def test_the_last_start_tells(tmp_path: Path, text: str, phase: str) -> None:
    leave(tmp_path, _1="job 4\nstarted 0\n", _2=text)
    found = told_by_folder(tmp_path)
    assert (found.phase, found.starts, found.nodes) == (phase, 2, ("n1",))


def test_tasks_of_an_array(tmp_path: Path) -> None:
    ended = "started 1\ncode {}\nended 2\n"
    leave(tmp_path, _1_1=ended.format(0), _2_1="started 1\n", _2_2=ended.format(7))
    found = told_by_folder(tmp_path)
    assert (found.phase, found.starts, found.exit_code) == ("failed", 2, 7)
    assert found.reason == "1 failed, 1 done of 2 tasks: exit code 7"


@pytest.mark.parametrize("name", ["job.out", "job.err"])
@pytest.mark.parametrize(
    "words",
    [
        "torch.cuda.OutOfMemoryError: CUDA out of memory",
        "slurmstepd: error: StepId=4.batch exceeded memory limit (409 > 104), being killed",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4.batch",
    ],
)
def test_a_failure_for_want_of_memory(tmp_path: Path, name: str, words: str) -> None:
    failed = State("failed", "exit code 1", exit_code=1)
    assert with_output(failed, tmp_path) == failed
    assert with_output(failed, None) == failed
    (tmp_path / name).write_text("x" * 5000 + f"\n{words}\n")
    found = with_output(failed, tmp_path)
    assert (found.phase, found.exit_code) == ("out_of_memory", 1)
    assert with_output(State("done"), tmp_path) == State("done")


@pytest.mark.parametrize("name", ["logs/train.log", "logs/train.log.3"])
def test_outputs_of_other_names_and_of_tasks(tmp_path: Path, name: str) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / name).write_text("MemoryError\n")
    failed = State("failed", "exit code 1", exit_code=1)
    assert with_output(failed, tmp_path) == failed
    for path in ("logs/train.log", str(tmp_path / "logs" / "train.log")):
        found = with_output(failed, tmp_path, (path, None))
        assert found.phase == "out_of_memory"
        assert found.reason == f"{Path(name).name} says that it ran out of memory"


def test_what_was_ended_from_outside_may_say_why(tmp_path: Path) -> None:
    ended, asked = State("cancelled", OUTSIDE), State("cancelled", "cancelled")
    assert with_output(ended, tmp_path) == ended
    (tmp_path / "job.out").write_text("slurmstepd: error: Detected 1 oom_kill event\n")
    assert with_output(ended, tmp_path).phase == "out_of_memory"
    assert with_output(asked, tmp_path) == asked
