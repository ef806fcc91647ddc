"""Ctrl-C and SIGTERM: noted at once, heeded where nothing is left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
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

    def raising(self) -> AbstractContextManager[None]:
        """Let a signal within end what is being done; then the wish is noted, and nothing raised.

        What is done within may be done again, so ending it anywhere does no harm.
        """
        return _Raising(self)


class _Raising(AbstractContextManager[None]):
    """Signals raise KeyboardInterrupt within, which becomes a wish to stop.

    A class, for a signal may come before what is within has begun: then the wish is noted all the
    same, and what is within ends at once if it heeds it, or by the next signal.
    """

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._before: dict[signal.Signals, Any] = {}
        self._within = False

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._interrupt)
        self._within = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._within = False
        _restore(self._before)
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._stop.request()
            return True
        return False

    def _interrupt(self, _: int, frame: FrameType | None) -> None:
        self._stop.request()
        leaving = frame is not None and frame.f_code is _Raising.__exit__.__code__
        if self._within and not leaving:
            raise KeyboardInterrupt


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
        _restore(before)


def _restore(before: Mapping[signal.Signals, Any]) -> None:
    for number, old in before.items():
        signal.signal(number, old if old is not None else signal.SIG_DFL)
