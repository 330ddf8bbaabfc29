"""Signals. Ctrl-C once: the round is finished, model and checkpoint are written. Twice: at once. SIGTERM: as once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

from boostrank.cli.errors import INTERRUPTED, say
from boostrank.core.process import ONE_PRESS_SECONDS

_SHOW_CURSOR = "\x1b[?25h"


class StopRequest:
    """A request to stop, and what came of it.

    Attributes:
        made: whether there is one.
        heeded: the training ended early because of it. A request in the last round, or while the model is being
            written, changes nothing.
        saving: the training is over, and the model is being written.
        exit_status: of a process that heeded it: 128 and the signal's number, as shells have it.
    """

    def __init__(self) -> None:
        self.made = self.heeded = self.saving = False
        self.exit_status = INTERRUPTED


@contextlib.contextmanager
def graceful_stop() -> Iterator[StopRequest]:
    """Inside, signals only set the request; a second Ctrl-C ends the process there and then.

    Python runs its signal handlers between bytecodes, that is after the engine's C++ call, which can take a whole
    round. A thread that reads the wake-up pipe hears of a signal while that call is still running.
    """
    request = StopRequest()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    handlers = {s: signal.signal(s, lambda *_: None) for s in (signal.SIGINT, signal.SIGTERM)}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(reader, request), daemon=True)
    listener.start()
    try:
        yield request
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writer)
        listener.join()
        os.close(reader)


def _listen(reader: int, request: StopRequest) -> None:
    first = 0.0
    while byte := os.read(reader, 1):
        if byte[0] not in (signal.SIGINT, signal.SIGTERM):
            continue
        now = time.monotonic()
        if not request.made:
            request.exit_status = 128 + byte[0]
            request.made, first = True, now
            if request.saving:
                say("the training is over and the model is being written (Ctrl-C once more: at once)")
            else:
                say("stopping after this round (Ctrl-C once more: at once, and nothing is written)")
        elif byte[0] == signal.SIGINT and now - first > ONE_PRESS_SECONDS:
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
            outcome = "the model may not have been written" if request.saving else "nothing was written"
            say(f"boostrank: stopped at once; {outcome}")
            os._exit(INTERRUPTED)
