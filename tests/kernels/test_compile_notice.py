"""The line that says that machine code is compiled."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from boostrank.core import machine
from boostrank.kernels import jit
from boostrank.kernels.metric import _rank


def said(notice: Any, directory: str | None, caplog: Any, *seconds: float) -> list[str]:
    caplog.clear()
    for duration in seconds:
        with notice.watch(_rank, directory):
            time.sleep(duration)
    return [record.getMessage() for record in caplog.records if record.name == "boostrank"]


def test_it_is_given_once_where_compiling_takes_long(caplog: Any, tmp_path: Path) -> None:
    (line,) = said(jit._Notice(patience=0.05), str(tmp_path), caplog, 0.5, 0.5)
    assert (
        line == f"boostrank: compiling machine code, once; later processes load it from {tmp_path}"
    )
    (line,) = said(jit._Notice(patience=0.05), None, caplog, 0.5)
    assert line.endswith("again in every process")
    assert said(jit._Notice(patience=60.0), str(tmp_path), caplog, 0.01) == []


def test_many_short_ones_are_long_together(caplog: Any, tmp_path: Path) -> None:
    assert len(said(jit._Notice(patience=0.3), str(tmp_path), caplog, *[0.1] * 8)) == 1


def test_what_is_loaded_is_not_compiled(
    caplog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notice = jit._Notice(patience=0.05)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "metric._rank-51.py311.nbi").touch()
    assert said(notice, str(tmp_path), caplog, 0.3) == []
    monkeypatch.setattr(machine, "own_process", True)  # the command line has lines of its own
    assert said(notice, None, caplog, 0.3) == []


def test_compiling_gives_it(caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def double(x: float) -> float:
        return 2.0 * x

    monkeypatch.setattr(jit, "_NOTICE", jit._Notice(patience=0.0))
    assert jit.entry_point(jit.FLOAT(jit.FLOAT))(double)(2.0) == 4.0
    assert "every process" in caplog.text
