"""The line that says that machine code is compiled."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from boostrank.core import machine
from boostrank.kernels import jit


@dataclass
class Function:
    """What a notice asks of a function: whether it can run at once, before and after compiling."""

    is_saved: bool
    is_watched: bool = False

    @property
    def at_hand(self) -> bool:
        before, self.is_watched = not self.is_watched, True
        return self.is_saved and not before


def messages_of(notice: Any, caplog: Any, *seconds: float, is_saved: bool = True) -> list[str]:
    caplog.clear()
    for duration in seconds:
        with notice.watch(Function(is_saved)):
            time.sleep(duration)
    return [record.getMessage() for record in caplog.records if record.name == "boostrank"]


def test_a_notice_is_given_once_where_compiling_takes_long(caplog: Any) -> None:
    (line,) = messages_of(jit._Notice(patience=0.05), caplog, 0.5, 0.5)
    assert line.endswith(f"once; later processes load it from {jit.cache_directory()}")
    (line,) = messages_of(jit._Notice(patience=0.05), caplog, 0.5, is_saved=False)
    assert line.endswith("again in every process")
    assert messages_of(jit._Notice(patience=60.0), caplog, 0.01) == []


def test_many_short_ones_are_long_together(caplog: Any) -> None:
    assert len(messages_of(jit._Notice(patience=0.3), caplog, *[0.1] * 8)) == 1


def test_a_loaded_kernel_gives_no_notice(caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    notice = jit._Notice(patience=0.05)
    with notice.watch(SimpleNamespace(at_hand=True)):
        time.sleep(0.3)
    assert not caplog.records
    monkeypatch.setattr(machine, "own_process", True)  # the command line has lines of its own
    assert messages_of(notice, caplog, 0.3, is_saved=False) == []


def test_compiling_gives_a_notice(caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def double(x: float) -> float:
        return 2.0 * x

    monkeypatch.setattr(jit, "_NOTICE", jit._Notice(patience=0.0))
    assert jit.entry_point(jit.FLOAT(jit.FLOAT))(double)(2.0) == 4.0
    assert "every process" in caplog.text
