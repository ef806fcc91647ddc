import pytest

from forerun.jobs.asking import Answer
from forerun.jobs.refusals import advice, is_lost, never_starts

FAILED = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FAILED + "Invalid partition name specified", "a queue that is there"),
        (FAILED + "Invalid account or account/partition combination specified", "an account that"),
        (FAILED + "Invalid qos specification", "a QOS that this user has"),
        (FAILED + "Requested time limit is invalid (missing or exceeds some limit)", "a wall time"),
        (
            FAILED + "Job violates accounting/QOS policy (job submit limit, user's size and/or "
            "time limits)",
            "fewer jobs at a time",
        ),
        (FAILED + "User's group not permitted to use this partition", "a queue and a folder that"),
        (FAILED + "Access/permission denied", "a queue and a folder that"),
        (FAILED + "Requested node configuration is not available", "no more than the queue's"),
        (FAILED + "Node count specification invalid", "no more than the queue's"),
        (FAILED + "Job dependency problem", "a job to wait for"),
        (FAILED + "I/O error writing script/environment to file", "room on the disk"),
        ("sbatch: error: Unable to open file /x/job.sh", "a script that the scheduler can read"),
        ("sbatch: fatal: Could not establish a configuration source", "a machine of the cluster"),
        ("sbatch: error: Munge encode failed: Failed to access /run/munge", "munged to run here"),
        ("qsub: Unknown queue MSG=cannot locate queue", "a queue that is there"),
        ("qsub: Unauthorized Request", "a queue and a folder that"),
        ("qsub: Job exceeds queue resource limits", "a wall time and nodes"),
        ("qsub: something else", "a job that it takes"),
    ],
)
def test_what_to_do_next(text: str, expected: str) -> None:
    answer = Answer(1, "", text + "\n")
    assert not is_lost(answer)
    assert advice(answer).startswith(expected)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(None, "", ""),
        Answer(-9, "", ""),
        Answer(1, "", ""),
        Answer(0, "", ""),
        Answer(0, "There was an error running the Slurm sbatch command.\n", ""),
        Answer(1, "", FAILED + "Socket timed out on send/recv operation\n"),
        Answer(1, "", FAILED + "Unable to contact slurm controller (connect failure)\n"),
        Answer(1, "", FAILED + "Zero Bytes were transmitted or received\n"),
        Answer(1, "", "qsub: cannot connect to server head (errno=15034)\n"),
        Answer(1, "", "qsub: End of File\n"),
    ],
)
def test_answers_that_say_nothing_of_the_job(answer: Answer) -> None:
    assert is_lost(answer)


def test_jobs_that_wait_for_ever() -> None:
    for reason in ("PartitionTimeLimit", "(JobHeldUser)", "Job is held by root", "badconstraints"):
        assert never_starts(reason)
    for reason in ("", "Priority", "Resources", "ReqNodeNotAvail, UnavailableNodes:n1"):
        assert not never_starts(reason)
