"""`boostrank compile`: later commands find all machine code in the cache."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cli.conftest import COMMAND, refuse


def test_later_commands_compile_nothing(tmp_path: Path, data: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run(*arguments: object, status: int = 0) -> str:
        command = [*COMMAND, *map(str, arguments)]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=1000
        )
        assert done.returncode == status, done.stderr
        return done.stdout

    def compiled() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.nb*")}

    assert "objective ranknet" in run("compile", "--objective", "ranknet", "--check", status=1)
    assert not compiled()
    directory = Path(run("compile", "--objective", "ranknet").strip())
    before = compiled()
    assert directory.parent == tmp_path / "cache"
    assert any("parse_lines" in name for name in before)
    assert "objective ranknet" not in run("compile", "--objective", "ranknet", "--check")
    run("train", data / "train.txt", "--rounds", 3, "--model", "m.txt")
    plain = ("--quality", "plain", "--rounds", 3)
    run("train", data / "train.txt", "--valid", data / "valid.txt", *plain, "--model", "p.txt")
    run("train", data / "train.txt", *plain, "--objective", "ranknet", "--model", "r.txt")
    run("predict", "m.txt", data / "test.txt", "--output", "scores.txt")
    run("evaluate", "m.txt", data / "test.txt")
    run("doctor", data / "train.txt")
    assert compiled() == before


def test_an_unknown_objective_is_refused_at_once() -> None:
    result = refuse("compile", "--objective", "shf-sdgc")
    assert "shf-sdcg" in result.stderr
