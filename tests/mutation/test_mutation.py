"""A flipped sign, a dropped factor, a rank off by one: the suite notices each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_every_planted_fault_is_noticed(tmp_path):
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, "-m", "tests.mutation.run", str(tmp_path)],
        cwd=root,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
