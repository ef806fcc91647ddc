"""How a benchmark that can be stopped ends: one line for what is wrong, the usual exit codes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from forerun.errors import InputError


def ended(call: Callable[[], int | None]) -> int:
    """What the call returns as an exit code: 2 for wrong input, 128 and the signal's for others."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return call() or 0
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
