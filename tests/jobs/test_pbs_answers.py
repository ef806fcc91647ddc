from datetime import datetime

import pytest

from forerun.jobs.backend import Limit, Phase, State
from forerun.jobs.pbs_answers import described, queue_limits, state_of

TORQUE = """\
Job Id: 7.head.example.org
    Job_Name = a-name-that-is-so-long-that-the-line-has-to-be-broken-aft
\ter-some-0123456789ab
    Job_Owner = ada@head
    job_state = C
    queue = batch
    exec_host = n1/0-1+n2/0-1
    ctime = Mon Nov 16 12:00:00 2026
    mtime = Mon Nov 16 12:11:00 2026
    qtime = Mon Nov 16 12:00:00 2026
    Resource_List.walltime = 00:10:00
    resources_used.mem = 2048kb
    resources_used.walltime = 00:03:00
    Variable_List = PBS_O_QUEUE=batch,
\tPBS_O_HOME=/home/ada
    start_time = Mon Nov 16 12:00:30 2026
    start_count = 1
    exit_status = 3

Job Id: 8.head.example.org
    Job_Name = other
    job_state = Q

"""
# As what stands before Slurm prints it: tabs, no exit status, mtime and ctime for start and end.
WRAPPED = """\
Job Id:\t9
\tJob_Name = lenet-0123456789ab
\tJob_Owner = root@host
\tjob_state = {state}
\tqueue = debug
\tqtime = Mon Nov 16 12:00:00 2026
\tmtime = Mon Nov 16 12:00:10 2026
\tctime = Mon Nov 16 12:0{minutes}:10 2026
\texec_host = n1/2
\tResource_List.walltime = 00:02:00
\tResource_List.nodect = 1

"""
NOW = datetime(2026, 11, 16, 12, 8).timestamp()
SILENT = State("unknown", starts=1)


def wrapped(state: str = "C", minutes: int = 1, told: State = SILENT) -> State:
    return state_of(described(WRAPPED.format(state=state, minutes=minutes))["9"], told, NOW)


def test_fields_and_lines_that_go_on() -> None:
    found = described(TORQUE)
    assert list(found) == ["7.head.example.org", "8.head.example.org"]
    fields = found["7.head.example.org"]
    assert fields["Job_Name"].endswith("broken-after-some-0123456789ab")
    assert fields["Variable_List"] == "PBS_O_QUEUE=batch,PBS_O_HOME=/home/ada"
    assert described("") == {}


def test_a_job_of_torque() -> None:
    found = state_of(described(TORQUE)["7.head.example.org"], State("unknown"), NOW)
    assert found == State("failed", "exit code 3", ("n1", "n2"), 1, 3, 30.0, 2048 * 1024)
    waiting = state_of(described(TORQUE)["8.head.example.org"], State("unknown"), NOW)
    assert waiting == State("queued")


@pytest.mark.parametrize(
    ("fields", "phase", "code"),
    [
        ({"job_state": "C", "exit_status": "0"}, "done", 0),
        ({"job_state": "F", "Exit_status": "0"}, "done", 0),
        ({"job_state": "C", "exit_status": "271"}, "cancelled", 143),
        ({"job_state": "C", "exit_status": "267"}, "failed", 139),
        ({"job_state": "C", "exit_status": "-11"}, "timed_out", -11),
        ({"job_state": "C", "exit_status": "-10"}, "out_of_memory", -10),
        ({"job_state": "C", "exit_status": "-27"}, "failed", -27),
        ({"job_state": "F", "Exit_status": "-10"}, "failed", -10),
        ({"job_state": "F", "Exit_status": "-11"}, "failed", -11),
        ({"job_state": "F", "Exit_status": "-27"}, "out_of_memory", -27),
        ({"job_state": "F", "Exit_status": "-29"}, "timed_out", -29),
        ({"job_state": "C", "exit_status": "-3"}, "failed", -3),
        (
            {
                "job_state": "F",
                "Exit_status": "271",
                "resources_used.walltime": "00:10:02",
                "Resource_List.walltime": "00:10:00",
            },
            "timed_out",
            143,
        ),
        ({"job_state": "R"}, "running", None),
        ({"job_state": "E"}, "running", None),
        ({"job_state": "U"}, "running", None),
        ({"job_state": "H"}, "queued", None),
        ({"job_state": "?"}, "unknown", None),
    ],
)
def test_how_jobs_end(fields: dict[str, str], phase: Phase, code: int | None) -> None:
    found = state_of(fields, State("unknown"), NOW)
    assert (found.phase, found.exit_code) == (phase, code)


def test_a_comment_says_why_it_waits() -> None:
    fields = {"job_state": "Q", "comment": "Not Running: Not enough free nodes"}
    assert state_of(fields, State("unknown"), NOW).reason == "Not Running: Not enough free nodes"


def test_before_slurm_the_folder_says_how_it_ended() -> None:
    assert wrapped("Q", told=State("unknown")).phase == "queued"
    assert wrapped("R").phase == "running"
    assert wrapped(told=State("done", starts=1, exit_code=0)).phase == "done"
    failed = wrapped(told=State("failed", "exit code 3", (), 1, 3))
    assert (failed.phase, failed.exit_code, failed.nodes) == ("failed", 3, ("n1",))
    assert failed.waited == 10.0
    assert wrapped(minutes=2).phase == "timed_out"
    assert wrapped(minutes=2, told=State("failed", "", (), 1, 143)).phase == "timed_out"
    assert wrapped(minutes=1).phase == "cancelled"
    assert wrapped(minutes=1, told=State("failed", "", (), 1, 137)).phase == "cancelled"
    assert wrapped("U", minutes=1).phase == "failed"
    assert wrapped("U", minutes=9).phase == "running"


def test_limits_of_queues() -> None:
    text = (
        "Queue: batch\n    queue_type = Execution\n    resources_max.walltime = 24:00:00\n"
        "    resources_max.nodect = 4\n\nQueue: long\n    queue_type = Execution\n"
    )
    assert queue_limits(text) == [Limit("batch", 86400.0, 4), Limit("long")]


def test_limits_of_a_table() -> None:
    text = (
        "Queue            Memory CPU Time Walltime Node  Run Que Lm State\n"
        "---------------- ------ -------- -------- ----  --- --- -- -----\n"
        "debug              --      --    01:00:00  --    0   2 --  E R \n"
        "short              --      --    00:10:00   2    0   0 --  E R \n"
        "open               --      --       --     --    0   0 --  E R \n"
        "                                               ----- -----\n"
        "                                                   0     2\n"
    )
    found = queue_limits(text)
    assert found == [Limit("debug", 3600.0), Limit("short", 600.0, 2), Limit("open")]
