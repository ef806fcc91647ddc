import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from forerun.errors import JobError
from forerun.jobs.asking import Answer
from forerun.jobs.backend import Submission
from forerun.jobs.once import Desk, submit_once

UID = "0123456789abcdef" * 2
LOST = Answer(-9, "", "")


class Scheduler:
    """One that takes jobs and gives the answers that it is told to give."""

    def __init__(self, *answers: Answer | str, late: int = 0, deaf: bool = False) -> None:
        self.answers = list(answers)  # a text: the job is taken, and this is said
        self.late = late  # so many questions pass before a job is seen
        self.deaf = deaf
        self.jobs: list[str] = []
        self.lock = threading.Lock()

    def send(self, submission: Submission) -> Answer:
        with self.lock:
            answer = self.answers.pop(0)
            if isinstance(answer, Answer):
                return answer
            self.jobs.append(submission.uid)
            return Answer(0, answer, "")

    def find(self, uid: str) -> str | None:
        if self.deaf and self.jobs:
            raise JobError("squeue", "no answer in time", "an answer")
        with self.lock:
            if uid in self.jobs:
                self.late -= 1
                return None if self.late >= 0 else str(41 + len(self.jobs))
        return None

    def desk(self) -> Desk:
        return Desk(self.send, self.find, re.compile(r"(\d+)(?:;\S*)?"), (0.01, 0.01, 0.01))


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    (tmp_path / "job.sh").write_text("true\n")
    return Submission(UID, "lenet", tmp_path / "job.sh")


@pytest.mark.parametrize("text", ["42\n", "42;cluster\n", "sbatch: note\n42\n"])
def test_the_answer_is_the_job(submission: Submission, text: str) -> None:
    scheduler = Scheduler(text)
    assert submit_once(scheduler.desk(), submission) == "42"
    assert submit_once(scheduler.desk(), submission) == "42"  # found, not sent
    assert len(scheduler.jobs) == 1


def test_an_answer_that_was_lost_on_its_way(submission: Submission) -> None:
    scheduler = Scheduler("", late=2)
    assert submit_once(scheduler.desk(), submission) == "42"
    assert len(scheduler.jobs) == 1


def test_it_is_looked_for_as_long_as_a_message_may_wait(submission: Submission) -> None:
    scheduler = Scheduler("", "43\n", late=7)
    desk = replace(scheduler.desk(), waits=lambda: 0.08)  # where three looks take 0.03
    assert submit_once(desk, submission) == "42"
    assert scheduler.answers == ["43\n"]


def test_a_submission_that_never_arrived_is_made_again(submission: Submission) -> None:
    scheduler = Scheduler(LOST, LOST, "42\n")
    assert submit_once(scheduler.desk(), submission) == "42"
    assert len(scheduler.jobs) == 1


def test_it_is_not_tried_for_ever(submission: Submission) -> None:
    scheduler = Scheduler(*[LOST] * 9)
    with pytest.raises(JobError, match="expected an answer; submit it again, it is looked for"):
        submit_once(scheduler.desk(), submission)
    assert len(scheduler.answers) == 5


def test_while_nobody_can_say_nothing_is_sent_again(submission: Submission) -> None:
    scheduler = Scheduler("", "43\n", deaf=True)
    with pytest.raises(JobError, match="squeue: found no answer in time"):
        submit_once(scheduler.desk(), submission)
    assert scheduler.answers == ["43\n"]


def test_a_refusal_is_final(submission: Submission) -> None:
    refused = Answer(1, "", "sbatch: error: Batch job submission failed: Invalid partition name\n")
    scheduler = Scheduler(refused, "42\n")
    with pytest.raises(JobError, match="Invalid partition name, expected a queue that is there"):
        submit_once(scheduler.desk(), submission)
    assert len(scheduler.answers) == 1


def test_a_job_that_the_scheduler_has_forgotten(submission: Submission) -> None:
    attempts = submission.script.parent / "attempts"
    attempts.mkdir()
    (attempts / "1").write_text("job 17\nstarted 1\n")
    assert submit_once(Scheduler().desk(), submission) == "17"


def test_two_at_a_time(submission: Submission) -> None:
    scheduler = Scheduler("42\n", "43\n")

    def slow(one: Submission) -> Answer:
        time.sleep(0.2)
        return scheduler.send(one)

    desk = Desk(slow, scheduler.find, re.compile(r"(\d+)"), (0.01,))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: submit_once(desk, submission), range(2)))
    assert found == ["42", "42"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    gone = Submission(UID, "lenet", tmp_path / "gone" / "job.sh")
    with pytest.raises(JobError, match="expected a folder with room"):
        submit_once(Scheduler().desk(), gone)
