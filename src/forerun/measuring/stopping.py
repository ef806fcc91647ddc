"""Ctrl-C and SIGTERM: noted at once, heeded where nothing is left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """A wish to stop: by signal, or by `request` from any thread.

    A signal is only noted, so that a run is stored whole; within `raised` it ends what is being
    done by a KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.requested = False  # whether somebody wishes to stop

    def request(self) -> None:
        """Wish to stop."""
        self.requested = True

    @contextmanager
    def heard(self, again: Callable[[], None] | None = None) -> Iterator[None]:
        """Note signals within, if this is the thread that gets them.

        `again` is called by every signal but the first: somebody is tired of waiting.
        """

        def note(*_: object) -> None:
            if self.requested and again is not None:
                again()
            self.requested = True

        with _handled(note):
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
            self.requested = True


@contextmanager
def raised() -> Iterator[list[int]]:
    """Signals raise KeyboardInterrupt within, if this is the thread that gets them.

    Yields a list of those that came, for what is done within may catch the exception.
    """
    came: list[int] = []

    def interrupt(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    with _handled(interrupt):
        yield came


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
