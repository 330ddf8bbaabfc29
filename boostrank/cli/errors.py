"""Print errors and warnings as one line each on standard error; set exit statuses."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import click

from boostrank.core import machine
from boostrank.core.errors import BoostrankError
from boostrank.core.machine import leave_soon
from boostrank.engines import engines_with
from boostrank.options import FileOptions, TrainOptions, declared

DONE, GATE_SHUT, BAD_INPUT, FAILED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143


_STATUS = "boostrank.status"
_ARGUMENT = re.compile(r"\b([a-z]\w*)='([^']*)'(?! must\b| is\b)")


class OutputClosed(Exception):
    """A `BrokenPipeError` on its way out through click, which would leave with 1 for it.

    Args:
        context: of the group of commands, or of one.
    """

    def __init__(self, context: click.Context | None = None) -> None:
        super().__init__()
        self.status: int = DONE if context is None else context.meta.get(_STATUS, DONE)


def settle(status: int) -> None:
    """Set the exit status before printing, so that a closed pipe cannot change it."""
    click.get_current_context().meta[_STATUS] = status


def run_reporting_errors(work: Callable[[], Any]) -> int:
    """Run a command; report an error as one line on standard error and the exit status."""
    status = _status_of(work)
    try:
        sys.stdout.flush()
    except Exception:  # the error is already reported; keep the interpreter from flushing again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _status_of(work: Callable[[], Any]) -> int:
    try:
        with _warnings_in_one_line():
            result = work()
            status = result if isinstance(result, int) else DONE
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.flush()
        return status
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "boostrank"
        _say_error(f"{_without_far_options(error).rstrip('.')} ({command} --help)")
        return BAD_INPUT
    except click.ClickException as error:
        _say_error(error.format_message())
        return BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        say("boostrank: stopped")
        if machine.own_process:
            leave_soon(INTERRUPTED)
        return INTERRUPTED
    except OutputClosed as closed:
        return closed.status  # the reader has what it wanted (`| head`)
    except BrokenPipeError:
        return DONE
    except BoostrankError as error:
        _say_error(_as_options(str(error)))
        return error.exit_code
    except MemoryError as error:
        _say_error(f"out of memory{f': {error}' if str(error) else ''}")
        return FAILED
    except OSError as error:
        _say_error(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
        return FAILED
    except Exception as error:
        # XGBoost adds a timestamp and a C++ stack trace; keep the first line.
        lines = [f": {line.strip()}" for line in str(error).splitlines() if line.strip()]
        _say_error(f"{type(error).__name__}{''.join(lines[:1])} (boostrank --debug ... shows where)")
        return FAILED


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


def _say_error(message: str) -> None:
    say(f"boostrank: error: {message}")


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
