"""A few kills of `make kill-sweep`."""

from __future__ import annotations

import subprocess
import sys


def test_fault_075_killed_at_random_moments_it_still_gives_the_same_files() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "qa.kill_sweep", "4", "7"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("4 kills, ")
