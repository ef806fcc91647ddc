import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from patience import ENDLESS

from forerun.errors import InputError
from forerun.measuring.lock import lock_path, locked

HOLDER = f"""
import sys, time
from pathlib import Path
from forerun.measuring.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep({ENDLESS})
"""


def test_one_campaign_a_study_however_it_is_named(tmp_path: Path) -> None:
    study = tmp_path / "a.db"
    (tmp_path / "same.db").symlink_to(study)
    study.touch()
    with locked(study):
        with pytest.raises(InputError) as caught, locked(tmp_path / "same.db"):
            pass
        assert str(caught.value) == (
            f"{study}: found a campaign under way (process {os.getpid()} on {os.uname().nodename})"
            ", expected one at a time"
        )
    assert not lock_path(study).exists()
    with locked(study), locked(tmp_path / "b.db"):
        pass


def test_a_killed_holder_holds_no_longer(tmp_path: Path) -> None:
    study = tmp_path / "a.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(study)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match=f"process {holder.pid} on"), locked(study):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert lock_path(study).exists()
    with locked(study):
        assert f"process {os.getpid()}" in lock_path(study).read_text()


def test_of_many_at_once_one_holds_it(tmp_path: Path) -> None:
    study, held, refused = tmp_path / "a.db", list[int](), list[int]()
    within = threading.Semaphore(1)

    def campaign(number: int) -> None:
        for _ in range(50):
            try:
                with locked(study):
                    assert within.acquire(blocking=False)
                    held.append(number)
                    within.release()
            except InputError:
                refused.append(number)

    threads = [threading.Thread(target=campaign, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) + len(refused) == 200
    assert held
    assert not lock_path(study).exists()


def test_a_directory_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory, expected a file that may be"):
        locked(tmp_path / "none" / "a.db").__enter__()
