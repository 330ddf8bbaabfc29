"""Errors and warnings in one line each on standard error, exit statuses, and signals.

Ctrl-C and SIGTERM finish the round and write model and checkpoint; a second Ctrl-C exits at once.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shlex
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import click

from boostrank.core import machine
from boostrank.core.errors import BoostrankError
from boostrank.core.machine import ONE_PRESS_SECONDS, hear_signals, leave_soon
from boostrank.engines import engines_with
from boostrank.options import FileOptions, TrainOptions, declared

DONE, GATE_SHUT, BAD_INPUT, FAILED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143
_ARGUMENT = re.compile(r"\b([a-z]\w*)='([^']*)'(?! must\b| is\b)")
_SHOW_CURSOR = "\x1b[?25h"
_running = {"status": DONE, "debug": False}
"""Exit status and --debug of the running command."""


def settle(status: int) -> None:
    """Set the exit status of a command before it prints, so that a closed pipe cannot change it."""
    _running["status"] = status


def show_tracebacks(debug: bool) -> None:
    """Show the whole traceback of an error of the running command."""
    _running["debug"] = debug


def run_reporting_errors(work: Callable[[], Any]) -> int:
    """Run a command; report an error as one line on standard error and the exit status."""
    status = _status_of(work)
    try:
        sys.stdout.flush()
    except Exception:  # the error is already reported; keep the interpreter from flushing again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _status_of(work: Callable[[], Any]) -> int:
    _running.update(status=DONE, debug=False)
    try:
        with _warnings_in_one_line():
            result = work()
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.flush()
        return result if isinstance(result, int) else int(_running["status"])
    except (SystemExit, BrokenPipeError):  # a closed pipe (`| head`): click exits with 1
        return int(_running["status"])
    except (click.Abort, KeyboardInterrupt):
        say("boostrank: stopped")
        if machine.own_process:
            leave_soon(INTERRUPTED)
        return INTERRUPTED
    except Exception as error:
        usage = isinstance(error, click.ClickException)
        if _running["debug"] and not usage:
            traceback.print_exc()
        say(f"boostrank: error: {_words(error)}")
        return BAD_INPUT if usage else getattr(error, "exit_code", FAILED)


def _words(error: Exception) -> str:
    """Describe an error in one line."""
    match error:
        case click.UsageError():
            command = error.ctx.command_path if error.ctx else "boostrank"
            return f"{_without_far_options(error).rstrip('.')} ({command} --help)"
        case click.ClickException():
            return error.format_message()
        case BoostrankError():
            return _as_options(str(error))
        case MemoryError():
            return f"out of memory{f': {error}' if str(error) else ''}"
        case OSError():
            return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    # XGBoost adds a timestamp and a C++ stack trace; keep the first line.
    lines = [f": {line.strip()}" for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}{''.join(lines[:1])} (boostrank --debug ... shows where)"


def _without_far_options(error: click.UsageError) -> str:
    """Return the message, with suggested options only if they are one slip away, and the place of parameters."""
    if not isinstance(error, click.NoSuchOption):
        return error.format_message()
    name = error.option_name.strip("-").replace("-", "_")
    known = {one for option in (error.ctx.command.params if error.ctx else ()) for one in option.opts}
    ours = next((one.spelled for one in declared(TrainOptions).values() if name in one.params), None)
    if ours in known:
        return f"{error.message.rstrip('.')}: it is {ours} here"
    close = difflib.get_close_matches(
        error.option_name.strip("-"), [one.strip("-") for one in error.possibilities or ()], 1, 0.75
    )
    hint = f". Did you mean --{close[0]}?" if close else ""
    if not close and "--param" in known:
        hint = f": --param {name}=VALUE passes it to the engine" if engines_with(name) else ""
    return f"{error.message.rstrip('.')}{hint}"


def _as_options(message: str) -> str:
    """The message of a library with its arguments as options: `gain='linear'` is `--gain linear` here."""
    flags = {
        one.name: one.spelled
        for struct in (TrainOptions, FileOptions)
        for one in declared(struct).values()
        if one.flag is not None
    }

    def option(found: re.Match[str]) -> str:
        name, value = found.groups()
        between = "=" if value.startswith("-") else " "
        return f"{flags[name]}{between}{shlex.quote(value)}" if name in flags else found[0]

    return _ARGUMENT.sub(option, message)


def say(text: str) -> None:
    """One line on standard error."""
    click.echo(text, err=True)


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print each distinct warning once, as `boostrank: warning: ...`."""
    seen: set[str] = set()

    def show(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        text = _as_options(" ".join(str(message).split()))
        if text not in seen:
            seen.add(text)
            say(f"boostrank: warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = show
        yield


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
