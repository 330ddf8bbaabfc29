"""What Ctrl-C and SIGTERM do.

A training finishes its round, and writes model and checkpoint. A second Ctrl-C exits at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from boostrank.cli.errors import INTERRUPTED, say

ONE_PRESS_SECONDS = 0.3
"""Time within which signals are treated as one key press, as wrappers such as `uv run` repeat the
terminal's signal.
"""
_IMPORTING = "<frozen importlib._bootstrap>"


def exit_at_interrupted_imports() -> None:
    """Exit at once on Ctrl-C during an import, which may suppress `KeyboardInterrupt`. Raise it as
    usual elsewhere.
    """

    def interrupt(number: int, frame: Any) -> None:
        while frame is not None:
            if frame.f_code.co_filename == _IMPORTING:
                _exit_at_once("stopped")
            frame = frame.f_back
        raise KeyboardInterrupt

    # Background jobs (`&`) ignore the signal; leave that as it is.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def hear_signals(hear: Callable[[int], None]) -> Callable[[], None]:
    """Call `hear` with each signal's number in a thread, and return a function that stops the
    thread.

    Python runs signal handlers between bytecodes, and compiled code can run for minutes. The
    wake-up file descriptor receives signals at once.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    descriptor_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def listen() -> None:
        while byte := os.read(reader, 1):
            hear(byte[0])

    def stop() -> None:
        signal.set_wakeup_fd(descriptor_before)
        os.close(writer)
        listener.join()
        os.close(reader)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    return stop


def exit_at_second_press() -> None:
    """Exit at once on a second Ctrl-C."""
    presses: list[float] = []

    def hear(number: int) -> None:
        if number == signal.SIGINT:
            presses.append(time.monotonic())
            if presses[-1] - presses[0] > ONE_PRESS_SECONDS:
                _exit_at_once("stopped at once")

    hear_signals(hear)


def _exit_at_once(message: str) -> None:
    say(f"boostrank: {message}")
    os._exit(INTERRUPTED)


class StopRequest:
    """A request to stop a training.

    Attributes:
        pending: whether a signal has arrived.
        stopped: whether the training ended early because of the request. A request in the last
            round, or while the model is being written, has no effect.
        saving: whether the training is over and the model is being written.
        exit_status: exit status of a stopped process, which is 128 plus the signal number, as in
            shells.
    """

    def __init__(self) -> None:
        self.pending = self.stopped = self.saving = False
        self.exit_status = INTERRUPTED
        self._first = 0.0

    def hear(self, number: int) -> None:
        """Set the request at the first signal, and exit at a second Ctrl-C."""
        now = time.monotonic()
        if number not in (signal.SIGINT, signal.SIGTERM):
            return
        if not self.pending:
            self.pending, self._first, self.exit_status = True, now, 128 + number
            doing = "stopping after this round"
            if self.saving:
                doing = "the training is over; writing the model"
            say(f"{doing} (press Ctrl-C again to exit at once)")
        elif number == signal.SIGINT and now - self._first > ONE_PRESS_SECONDS:
            outcome = "nothing was written"
            if self.saving:
                outcome = "the model may not have been written"
            _exit_at_once(f"stopped at once; {outcome}")


@contextlib.contextmanager
def graceful_stop(request: StopRequest) -> Iterator[None]:
    """Make signals set the request instead of ending the process, except for a second Ctrl-C."""
    handlers = {s: signal.signal(s, lambda *_: None) for s in (signal.SIGINT, signal.SIGTERM)}
    end = hear_signals(request.hear)
    try:
        yield
    finally:
        end()
        for number, handler in handlers.items():
            signal.signal(number, handler)
