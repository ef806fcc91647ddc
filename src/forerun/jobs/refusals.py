"""What schedulers say when they do not take a job, and what to do next.

The words are those of Slurm, of Torque and of OpenPBS. An answer that is neither an identifier nor
a refusal is lost: then nobody knows whether there is a job.
"""

from __future__ import annotations

import re

from forerun.jobs.asking import Answer

# No answer of the scheduler's, but of what lies between: the submission may have arrived.
_LOST = re.compile(
    r"timed out|contact slurm controller|connection (refused|reset|closed)|connect failure"
    r"|transport endpoint|zero bytes were transmitted|communication (failure|connection)"
    r"|broken pipe|receive failure|send failure|unexpected message|standby mode"
    r"|cannot connect to server|end of file|temporarily unable|protocol failure",
    re.IGNORECASE,
)
_ADVICE = (
    (
        r"configuration source|slurm\.conf|no default server|unknown host|DNS SRV",
        "a machine of the cluster: submit there, or with the back end local",
    ),
    (r"munge|authentication|credential", "munged to run here with the cluster's key"),
    (
        r"accounting/QOS policy|submit limit|maximum number of jobs|limit reached|job limit",
        "fewer jobs at a time, or smaller ones: this account's limits are reached",
    ),
    (r"invalid partition|unknown queue|no such queue|locate queue", "a queue that is there"),
    (
        r"account.{0,12}partition|invalid account|illegal account",
        "an account that this user has: `sacctmgr show associations`",
    ),
    (r"\bqos\b", "a QOS that this user has: `sacctmgr show associations`"),
    (
        r"time limit|walltime|exceeds? queue resource limits",
        "a wall time and nodes within the queue's limits",
    ),
    (
        r"group not permitted|permission|access denied|denied|unauthori[sz]ed|not allowed",
        "a queue and a folder that this user may use",
    ),
    (
        r"node count|node configuration|more processors|memory specification|constraint"
        r"|feature|generic resource|\bgres\b|cannot satisfy|locate feasible nodes",
        "no more than the queue's nodes have: `forerun infra detect` says what that is",
    ),
    (r"dependency", "a job to wait for that the scheduler still knows"),
    (r"array", "an array that the scheduler takes: fewer tasks, or smaller numbers"),
    (
        r"no space left|disk quota|quota exceeded|writing script|disk full",
        "room on the disk of the folder, or of the scheduler: remove something",
    ),
    (r"unable to open|no such file|not found", "a script that the scheduler can read"),
    (r"unrecogni[sz]ed option|illegal attribute|invalid option|usage:", "options that it knows"),
)
_OTHERWISE = "a job that it takes: see the script's first lines"
# Why a job waits that will wait for ever, in Slurm's words; others' words hold some of them.
_NEVER = (
    *("BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit", "DependencyNeverSatisfied"),
    *("InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed", "JobHeld"),
    *("PartitionDown", "PartitionInactive", "launch_failed_requeued_held", "is held"),
)


def is_lost(answer: Answer) -> bool:
    """Whether the scheduler may have taken the job for all that the answer says."""
    # One that ends well and still gives no number was cut short, or its child was.
    if not answer.code or answer.code < 0 or not answer.said:
        return True
    refused = re.search(r"submission failed:(.*)", answer.said)
    return bool(_LOST.search(refused[1] if refused else answer.said))


def advice(answer: Answer) -> str:
    """What to do next."""
    for pattern, next_step in _ADVICE:
        if re.search(pattern, answer.said, re.IGNORECASE):
            return next_step
    return _OTHERWISE


def never_starts(reason: str) -> bool:
    """Whether a job that waits for this reason will wait until somebody does something."""
    return any(one.lower() in reason.lower() for one in _NEVER)
