"""Signals: Ctrl-C and SIGTERM finish the round and write model and checkpoint; a second Ctrl-C exits at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator

from boostrank.cli.errors import INTERRUPTED, say
from boostrank.core.machine import ONE_PRESS_SECONDS, hear_signals

_SHOW_CURSOR = "\x1b[?25h"


class StopRequest:
    """A request to stop, and its outcome.

    Attributes:
        made: whether a signal arrived.
        heeded: the training ended early because of it. A request in the last round, or while the model is being
            written, changes nothing.
        saving: the training is over, and the model is being written.
        exit_status: of a process that heeded it: 128 and the signal's number, as shells have it.
    """

    def __init__(self) -> None:
        self.made = self.heeded = self.saving = False
        self.exit_status = INTERRUPTED
        self._first = 0.0

    def hear(self, number: int) -> None:
        """Make the request at the first signal; leave at a second Ctrl-C."""
        now = time.monotonic()
        if number not in (signal.SIGINT, signal.SIGTERM):
            return
        if not self.made:
            self.made, self._first, self.exit_status = True, now, 128 + number
            if self.saving:
                say("the training is over and the model is being written (Ctrl-C once more: at once)")
            else:
                say("stopping after this round (Ctrl-C once more: at once, and nothing is written)")
        elif number == signal.SIGINT and now - self._first > ONE_PRESS_SECONDS:
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
            outcome = "the model may not have been written" if self.saving else "nothing was written"
            say(f"boostrank: stopped at once; {outcome}")
            os._exit(INTERRUPTED)


@contextlib.contextmanager
def graceful_stop() -> Iterator[StopRequest]:
    """Inside, signals only set the request; a second Ctrl-C ends the process at once."""
    request = StopRequest()
    handlers = {s: signal.signal(s, lambda *_: None) for s in (signal.SIGINT, signal.SIGTERM)}
    end = hear_signals(request.hear)
    try:
        yield request
    finally:
        end()
        for number, handler in handlers.items():
            signal.signal(number, handler)
