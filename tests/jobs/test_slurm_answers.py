from dataclasses import replace

import pytest

from forerun.jobs.backend import Phase, State
from forerun.jobs.slurm_answers import accounted, host_names, shown

# One line of `scontrol show job --oneliner`, with what matters here and a path that misleads.
LINE = (
    "JobId={job} {array}JobName=lenet UserId=ada(1001) GroupId=ada(1001) MCS_label=N/A"
    " Priority=4294901757 Nice=0 Account=(null) QOS=(null) JobState={state} Reason={reason}"
    " Dependency=(null) Requeue=1 Restarts={restarts} BatchFlag=1 Reboot=0 ExitCode={code}"
    " RunTime=00:00:41 TimeLimit=00:10:00 TimeMin=N/A SubmitTime=2026-11-16T12:00:00"
    " EligibleTime=2026-11-16T12:00:00 StartTime={start} EndTime=Unknown"
    " SuspendTime={suspend} SecsPreSuspend=0 Partition=debug"
    " ReqNodeList=(null) ExcNodeList=(null) NodeList={nodes} NumNodes=2 NumCPUs=4"
    " Command=/home/ada/a JobState=COMPLETED ExitCode=0:0/job.sh WorkDir=/home/ada Comment=x"
)
DEFAULTS = {
    "job": "42",
    "array": "",
    "state": "RUNNING",
    "reason": "None",
    "restarts": "0",
    "code": "0:0",
    "start": "2026-11-16T12:00:30",
    "nodes": "n[1-2]",
    "suspend": "None",
}


def line(**values: str) -> str:
    return LINE.format(**(DEFAULTS | values)) + "\n"


def told(**values: str) -> State:
    found = shown(line(**values), "42")
    assert found is not None
    return found


def test_a_running_job() -> None:
    assert told() == State("running", "", ("n1", "n2"), 1, None, 30.0)


def test_a_path_that_looks_like_a_state_is_none() -> None:
    assert told(state="FAILED", code="3:0").phase == "failed"


@pytest.mark.parametrize(
    ("state", "code", "phase", "reason", "exit_code"),
    [
        ("COMPLETED", "0:0", "done", "", 0),
        ("FAILED", "3:0", "failed", "exit code 3", 3),
        ("FAILED", "0:11", "failed", "signal 11", 139),
        ("OUT_OF_MEMORY", "0:125", "out_of_memory", "", 253),
        ("TIMEOUT", "0:15", "timed_out", "timeout", 143),
        ("DEADLINE", "0:0", "timed_out", "deadline", 0),
        ("NODE_FAIL", "0:0", "node_lost", "node fail", 0),
        ("CANCELLED", "0:15", "cancelled", "", 143),
        ("PREEMPTED", "0:15", "cancelled", "preempted", 143),
        ("COMPLETING", "0:0", "running", "completing", None),
        ("SOMETHING_NEW", "0:0", "unknown", "something new", 0),
    ],
)
def test_how_jobs_end(
    state: str, code: str, phase: Phase, reason: str, exit_code: int | None
) -> None:
    found = told(state=state, code=code)
    assert (found.phase, found.reason, found.exit_code) == (phase, reason, exit_code)


@pytest.mark.parametrize("code", ["²:0", "1:²", "٣:0", "3", "", f"{'9' * 5000}:0"])
def test_an_exit_code_that_is_none(code: str) -> None:
    assert told(state="FAILED", code=code).exit_code is None


def test_a_job_that_waits_says_why() -> None:
    waiting = {"state": "PENDING", "nodes": "(null)", "start": "Unknown"}
    found = told(**waiting, reason="Resources")
    assert found == State("queued", "Resources: waits for nodes that are free")
    assert told(**waiting, reason="None").reason == ""
    assert "cancel it" in told(**waiting, reason="DependencyNeverSatisfied").reason
    assert told(**waiting, reason="Licenses").reason == "Licenses"
    found = told(**waiting, reason="ReqNodeNotAvail,_UnavailableNodes:n[1-4]")
    assert found.reason.endswith("waits for nodes that are down, drained or reserved")


def test_a_job_that_was_put_back() -> None:
    waiting = told(
        state="PENDING", nodes="(null)", start="Unknown", reason="BeginTime", restarts="1"
    )
    assert (waiting.phase, waiting.starts, waiting.waited) == ("queued", 1, None)
    again = told(restarts="1", state="COMPLETED", nodes="n3")
    assert (again.phase, again.starts, again.waited, again.nodes) == ("done", 2, None, ("n3",))


def test_one_that_was_cancelled_in_the_queue_never_started() -> None:
    found = told(state="CANCELLED", nodes="(null)", start="2026-11-16T12:00:30")
    assert (found.phase, found.starts, found.waited) == ("cancelled", 0, None)


def test_an_array_is_told_as_one() -> None:
    tasks = [
        line(job="44", array="ArrayJobId=42 ArrayTaskId=3 ", state="RUNNING", nodes="n3"),
        line(
            job="43", array="ArrayJobId=42 ArrayTaskId=2 ", state="FAILED", code="5:0", nodes="n1"
        ),
        line(array="ArrayJobId=42 ArrayTaskId=1 ", state="COMPLETED", nodes="n1"),
    ]
    running = shown("".join(tasks), "42")
    assert running is not None
    assert (running.phase, running.nodes) == ("running", ("n3", "n1"))
    assert running.reason == "1 running, 1 failed, 1 done of 3 tasks"
    ended = shown("".join(tasks[1:]), "42")
    assert ended is not None
    assert (ended.phase, ended.exit_code) == ("failed", 5)
    assert ended.reason == "1 failed, 1 done of 2 tasks: exit code 5"


def test_a_job_that_stood_still_says_so() -> None:
    assert not told(state="COMPLETED").suspended
    # Once it goes on, this is when it did; the seconds before may be none.
    assert told(state="COMPLETED", suspend="2026-11-16T12:00:41").suspended
    tasks = [
        line(job="43", array="ArrayJobId=42 ArrayTaskId=2 ", suspend="2026-11-16T12:00:41"),
        line(array="ArrayJobId=42 ArrayTaskId=1 "),
    ]
    found = shown("".join(tasks), "42")
    assert found is not None
    assert found.suspended


def test_others_are_left_out() -> None:
    assert shown(line(job="421"), "42") is None
    assert shown("", "42") is None
    assert shown("slurm_load_jobs error: Invalid job id specified\n", "42") is None


# Rows of `sacct --duplicates --parsable2` of a job that lost its node and ran again.
ROWS = """\
42|NODE_FAIL|1:0|n1|2026-11-16T12:00:00|2026-11-16T12:00:30|2026-11-16T12:01:00||00:00:00
42|COMPLETED|0:0|n[2-3]|2026-11-16T12:01:00|2026-11-16T12:02:00|2026-11-16T12:03:00||00:00:00
42.batch|COMPLETED|0:0|n2||2026-11-16T12:02:00|2026-11-16T12:03:00|2048K|00:00:00
42.0|COMPLETED|0:0|n[2-3]||2026-11-16T12:02:00|2026-11-16T12:03:00|1.50G|00:00:00
421|FAILED|1:0|n4|2026-11-16T12:00:00|2026-11-16T12:00:30|2026-11-16T12:01:00||00:00:00
"""


def test_what_is_accounted() -> None:
    found = accounted(ROWS, "42")
    assert found == State("done", "", ("n2", "n3"), 2, 0, None, 3 * 2**29)
    alone = accounted(ROWS, "421")
    assert alone == State("failed", "exit code 1", ("n4",), 1, 1, 30.0)
    assert accounted(ROWS, "4") is None
    still = accounted(ROWS.replace("00:00:00\n42.b", "01:00:00\n42.b"), "42")
    assert still == replace(found, suspended=True)


def test_cancelled_says_by_whom_in_sacct() -> None:
    row = "42|CANCELLED by 1001|0:15|n1|2026-11-16T12:00:00|2026-11-16T12:00:30|Unknown||\n"
    found = accounted(row, "42")
    assert found is not None
    assert (found.phase, found.exit_code) == ("cancelled", 143)


def test_completions_without_accounting() -> None:
    found = accounted("42|TIMEOUT|n1|2026-11-16T12:00:30|2026-11-16T12:01:30\n", "42")
    assert found == State("timed_out", "timeout", ("n1",), 1, None)


def test_tasks_in_sacct() -> None:
    rows = "42_1|COMPLETED|0:0|n1|||||\n42_2|FAILED|2:0|n1|||||\n"
    found = accounted(rows, "42")
    assert found is not None
    assert found == replace(found, phase="failed", exit_code=2, starts=1)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("(null)", ()),
        ("None assigned", ()),
        ("n1", ("n1",)),
        ("n[1-3],login", ("n1", "n2", "n3", "login")),
        ("gpu[08-10,12]-ib", ("gpu08-ib", "gpu09-ib", "gpu10-ib", "gpu12-ib")),
    ],
)
def test_names_of_nodes(text: str, names: tuple[str, ...]) -> None:
    assert host_names(text) == names


def test_numbers_that_no_node_has() -> None:
    assert host_names(f"n[{'9' * 5000}],n[٣]") == ()


def test_more_nodes_than_there_can_be_are_cut() -> None:
    assert len(host_names("n[1-999999999]")) < 200_000
