"""Ctrl-C and SIGTERM: noted at once, heeded where nothing is left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """A wish to stop: by signal, or by `request` from any thread.

    A signal is only noted, so that a run is stored whole; within `raised` it ends what is being
    done by a KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._requested = threading.Event()

    @property
    def requested(self) -> bool:
        """Whether somebody wishes to stop."""
        return self._requested.is_set()

    def request(self) -> None:
        """Wish to stop."""
        self._requested.set()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Note signals within, if this is the thread that gets them."""
        with _handled(lambda *_: self._requested.set()):
            yield

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Let a signal within end what is being done; then the wish is noted, and nothing raised.

        What is done within may be done again, so ending it anywhere does no harm.
        """
        try:
            with raised():
                yield
        except KeyboardInterrupt:
            self._requested.set()


@contextmanager
def raised() -> Iterator[None]:
    """Signals raise KeyboardInterrupt within, if this is the thread that gets them."""
    with _handled(signal.default_int_handler):
        yield


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}
    try:
        for number in _SIGNALS:
            before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old if old is not None else signal.SIG_DFL)
