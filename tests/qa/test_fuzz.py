"""Every case that ever broke a target holds now, and so do some fresh ones; `make fuzz` goes on
looking.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from boostrank.cli import commands
from qa.fuzz import __main__ as runner
from qa.fuzz.__main__ import targets
from qa.fuzz.targets import command_lines

FRESH = {"libsvm": 100, "side_files": 50, "tables": 60, "models": 30, "arrays": 6}
"""Fresh cases of the targets that take milliseconds for one; the others train or compile."""


def test_kept_and_fresh_cases_are_done_right_or_refused(tmp_path: Path) -> None:
    """In a process of its own, which a case may kill."""
    command = [
        sys.executable,
        "-m",
        "qa.fuzz.worker",
        ",".join(targets()),
        str(tmp_path),
        "--examples",
    ]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    there = os.pathsep.join(path for path in paths if "without_sklearn" not in path)
    done = subprocess.run(
        [*command, json.dumps(FRESH)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": there},
    )
    current = (tmp_path / "current").read_text(errors="replace")
    assert done.returncode == 0, (
        f"exit status {done.returncode} at {current[:2000]}\n{done.stderr[-2000:]}"
    )
    assert not (tmp_path / "found.jsonl").exists(), (tmp_path / "found.jsonl").read_text()


def test_command_lines_are_of_commands_that_exist() -> None:
    assert set(command_lines.BASES) <= set(commands())


def test_an_error_a_signal_a_hang_and_too_much_memory_are_kept_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "CORPUS", tmp_path / "corpus")
    monkeypatch.setattr(runner, "WAIT", 6.0)
    monkeypatch.setattr(runner, "MEMORY", 200 << 20)
    outcome = runner.run("_toy", 600.0, 0, tmp_path / "work", guided=False, most_deaths=3)
    kept_cases = {
        kind: (tmp_path / "corpus" / "_toy" / name).read_text() for kind, name in outcome.faults
    }
    assert kept_cases == {
        "ValueError at _toy.py:check": "{'number': 3}\n",
        "exit status -9": "{'number': 5}\n",
        "hang": "{'number': 7}\n",
        "memory": "{'number': 9}\n",
    }
