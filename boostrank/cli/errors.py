"""Errors and warnings as single lines on standard error, and exit statuses."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shlex
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import click
from click import echo

from boostrank.core import machine
from boostrank.core.errors import BoostrankError
from boostrank.engines import engines_with
from boostrank.options import FileOptions, TrainOptions, declared

DONE, GATE_SHUT, BAD_INPUT, FAILED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143
_ARGUMENT = re.compile(r"\b([a-z]\w*)='([^']*)'(?! must\b| is\b)")
_PATIENCE = 2.0  # seconds until the process exits without waiting for threads
_ERASE = "\r\x1b[K"  # return to the beginning of the line, and erase it


class Running:
    """The state of the running command.

    Attributes:
        status: exit status. Set it before printing, so that a closed pipe cannot change it.
        debug: whether an error prints its traceback.
        line: whether a progress line is on the terminal.
    """

    status = DONE
    debug = line = False


def run_reporting_errors(work: Callable[[], Any]) -> int:
    """Run a command and return its exit status. Print an error as one line on standard error."""
    output = sys.stdout
    status = _status_of(work)
    sys.stdout = output  # at a closed pipe, click replaces it by a wrapper that hides the error
    try:
        output.flush()
    except Exception:  # the error was already reported, so keep the interpreter from flushing again
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
    return status


def _status_of(work: Callable[[], Any]) -> int:
    Running.status, Running.debug = DONE, False
    printed: set[str] = set()

    def warn_once(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        text = _as_options(" ".join(str(message).split()))
        if text not in printed:
            printed.add(text)
            say(f"boostrank: warning: {text}")

    try:
        with warnings.catch_warnings(), contextlib.suppress(BrokenPipeError):
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", RuntimeWarning)
            warnings.showwarning = warn_once
            work()
            sys.stdout.flush()
        return Running.status
    except SystemExit as exit:
        *_, (frame, _) = traceback.walk_tb(exit.__traceback__)
        # click exits with 1 at a closed pipe (`| head`).
        if frame.f_globals["__name__"].startswith("click"):
            return Running.status
        if isinstance(exit.code, int):
            return exit.code
        return FAILED if exit.code else DONE
    except (click.Abort, KeyboardInterrupt):
        say("boostrank: stopped")
        if machine.own_process:
            # Exit soon, even if the interpreter is still waiting for threads.
            timer = threading.Timer(_PATIENCE, os._exit, [INTERRUPTED])
            timer.daemon = True
            timer.start()
        return INTERRUPTED
    except Exception as error:
        usage = isinstance(error, click.ClickException)
        if Running.debug and not usage:
            traceback.print_exc()
        say(f"boostrank: error: {_describe(error)}")
        return BAD_INPUT if usage else getattr(error, "exit_code", FAILED)


def _describe(error: Exception) -> str:
    """Describe an error in one line."""
    match error:
        case click.UsageError():
            command = error.ctx.command_path if error.ctx else "boostrank"
            return f"{_describe_usage(error).rstrip('.')} ({command} --help)"
        case click.ClickException():
            return error.format_message()
        case BoostrankError():
            return _as_options(str(error))
        case MemoryError():
            return f"out of memory{f': {error}' if str(error) else ''}"
        case OSError() if error.filename and error.strerror:
            return f"{error.filename}: {error.strerror}"
        case OSError():
            return str(error)
    # Keep the first line: XGBoost adds a timestamp and a C++ stack trace.
    lines = [f": {line.strip()}" for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}{''.join(lines[:1])} (boostrank --debug ... shows where)"


def _describe_usage(error: click.UsageError) -> str:
    """Return the message, suggesting options only if they are similar, and --param for parameters
    of the engine.
    """
    if not isinstance(error, click.NoSuchOption):
        return error.format_message()
    message, typed = error.message.rstrip("."), error.option_name.strip("-")
    name = typed.replace("-", "_")
    params = error.ctx.command.params if error.ctx else ()
    flags = {flag for option in params for flag in option.opts}
    for option in declared(TrainOptions).values():
        if name in option.params and option.spelled in flags:
            return f"{message}: use {option.spelled}"
    names = [flag.strip("-") for flag in error.possibilities or ()]
    for close in difflib.get_close_matches(typed, names, 1, 0.75):
        return f"{message}. Did you mean --{close}?"
    if "--param" in flags and engines_with(name):
        return f"{message}: pass it to the engine with --param {name}=VALUE"
    return message


def _as_options(message: str) -> str:
    """Write arguments in a library message as options, so that `gain='linear'` becomes `--gain
    linear`.
    """
    options = {**declared(FileOptions), **declared(TrainOptions)}
    flags = {name: option.spelled for name, option in options.items() if option.flag is not None}

    def replace(argument: re.Match[str]) -> str:
        name, value = argument.groups()
        between = "=" if value.startswith("-") else " "
        return f"{flags[name]}{between}{shlex.quote(value)}" if name in flags else argument[0]

    return _ARGUMENT.sub(replace, message)


def say(text: str) -> None:
    """Print a line on standard error, in place of a progress line."""
    erase_line()
    echo(text, err=True)


def show_line(text: str) -> None:
    """Show a progress line on a terminal, in place of the last one."""
    echo(_ERASE + text, err=True, nl=False, color=True)
    Running.line = True


def erase_line() -> None:
    """Remove the progress line."""
    if Running.line:
        echo(_ERASE, err=True, nl=False, color=True)
        Running.line = False
