"""Reading says how far it is; short reading says nothing."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from boostrank.cli import show as progress
from boostrank.cli.errors import say
from boostrank.cli.show import ReadProgress, StepProgress
from boostrank.cli.train import _Screen


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock shows, in its only element."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_long_reading_tells_how_far_it_is(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with ReadProgress("a.txt") as show:
        clock[0] += 5
        show(100_000_000, 400_000_000)
        assert capsys.readouterr().err == ""
        clock[0] += 5
        show(200_000_000, 400_000_000)
        assert capsys.readouterr().err == "reading a.txt: 200.0 of 400.0 MB\n"
        clock[0] += 9
        show(300_000_000, 400_000_000)
        assert capsys.readouterr().err == ""


def test_a_pipe_has_no_total(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with ReadProgress("<stdin>") as show:
        clock[0] += 20
        show(50_000_000, None)
    assert capsys.readouterr().err == "reading <stdin>: 50.0 MB\n"


def test_long_steps_tell_how_far_they_are(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with StepProgress() as show:
        show("shuffling", 1000, 9000)  # the first block is done
        clock[0] += 10
        show("shuffling", 5000, 9000)
        assert capsys.readouterr().err == "shuffling: 5,000 of 9,000 documents\n"
        clock[0] += 5
        show("shuffling", 7000, 9000)
        clock[0] += 1
        show("neutralising", 1000, 9000)
        assert capsys.readouterr().err == ""


def test_lines_erase_the_progress_line_of_a_terminal(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with ReadProgress("a.txt") as show:
        clock[0] += 5
        show(100_000_000, 400_000_000)
        say("a warning")
        say("another")
    written = capsys.readouterr().err
    assert written.startswith("\r\x1b[Kreading a.txt: 100.0 of 400.0 MB")
    assert written.endswith("400.0 MB\r\x1b[Ka warning\nanother\n")


def test_a_terminal_without_escapes_gets_plain_lines(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    with ReadProgress("a.txt") as show:
        clock[0] += 60
        show(100_000_000, 400_000_000)
    written = capsys.readouterr().err
    assert "100.0 of 400.0 MB" in written
    assert "\x1b" not in written


def test_binning_between_rounds_leaves_the_time_left_alone(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    screen = _Screen()
    with screen.training("ndcg", (), stops=False):
        for number in range(3):
            screen(SimpleNamespace(iteration=number, end_iteration=10, evaluation_result_list=()))
            screen.binning(500, 1000)
            clock[0] += 2
    assert "round 3/10  14 s left" in capsys.readouterr().err
