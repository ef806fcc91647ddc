"""Signals: noted at once, whenever they come."""

import os
import signal

import pytest

from forerun.measuring.stopping import Stop


def test_a_signal_within_ends_what_is_being_done() -> None:
    stop, before = Stop(), signal.getsignal(signal.SIGTERM)
    done = False
    with stop.raising():
        os.kill(os.getpid(), signal.SIGTERM)
        done = True
    assert (stop.requested, done) == (True, False)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_before_anything_is_done_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes once it is heard and before what is within begins."""
    set_handler = signal.signal

    def disturbed(number: int, handler: object) -> object:
        old = set_handler(number, handler)  # type: ignore[arg-type]
        if number == signal.SIGTERM and handler is not before:
            os.kill(os.getpid(), signal.SIGTERM)
        return old

    stop, before = Stop(), signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(signal, "signal", disturbed)
    with stop.raising():
        pass
    monkeypatch.undo()
    assert stop.requested
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_errors_are_raised() -> None:
    stop = Stop()
    with pytest.raises(ValueError, match="no"), stop.raising():
        raise ValueError("no")
    assert not stop.requested
