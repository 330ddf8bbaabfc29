"""A flipped sign, a dropped factor, a rank off by one: the suite notices each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import boostrank
from qa.mutation.run import find_stale


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1000,
    )


def test_the_code_of_every_planted_fault_is_in_its_file():
    assert find_stale(Path(boostrank.__file__).parent) == []


def test_every_planted_fault_is_noticed(tmp_path):
    result = run("-m", "qa.mutation.run", str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_fault_that_cannot_run_is_not_taken_for_noticed(tmp_path):
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from qa.mutation import run\n"
        "where, who = 'schedules.py', 'tests.schedules.test_schedules'\n"
        "run.MUTATIONS = [(where, 'round / (self.rounds - 1)', 'round / no_such_name', who)]\n"
        "sys.exit(run.main(Path(sys.argv[1])))\n"
    )
    result = run("-c", script, str(tmp_path))
    assert result.returncode == 1
    assert "BROKEN schedules.py" in result.stdout
    assert "NameError" in result.stdout
