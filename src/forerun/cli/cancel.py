"""`forerun cancel`: end a job."""

from __future__ import annotations

import time

from forerun.cli.common import Json, note, print_json
from forerun.cli.deployments import SHORT, Job, document, find, print_result, progress_words

WAIT = 15.0  # seconds for it to end


def cancel(job: Job, json: Json = False) -> None:
    """End a job; one that has ended is left as it is."""
    one = find(job)
    if one.record.result is None:
        one.cancel()
    else:
        note(f"it had ended before ({one.record.state.replace('_', ' ')}): nothing was cancelled")
    until = time.monotonic() + WAIT
    now = one.progress()
    while not now.state.has_ended and time.monotonic() < until:
        time.sleep(0.2)
        now = one.progress()
    if now.state.has_ended:
        one.settle()
    else:
        short = one.record.uid[:SHORT]
        note(
            f"the scheduler was told, and has not ended it yet: forerun status {short} looks again"
        )
    if json:
        print_json(document(one, now))
    elif one.record.result is not None:
        print_result(one, one.record.result)
    else:
        note(progress_words(now))
