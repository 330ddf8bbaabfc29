"""Machine code that a wheel carries: loaded where it fits, and compiled elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.registry import cpu_target

import boostrank
from boostrank.kernels import jit
from boostrank.kernels.private import CodeFolder, CodeFolders, compile_signature, host_triple


def _doubled(number: int) -> int:
    return 2 * number


SIGNATURE = numba.int64(numba.int64)


@pytest.fixture
def ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that ships `_doubled` for this machine, with other fields of its target."""
    monkeypatch.setattr(jit, "SHIPPED", tmp_path / "machine_code")
    monkeypatch.setattr(jit, "cache_directory", lambda: str(tmp_path / "cache"))

    def ship_with(**fields: Any) -> jit.CompiledFunction[..., int]:
        folder = tmp_path / "machine_code" / jit._code_version()
        cached = CodeFolder(_doubled, str(folder))
        compile_signature(_doubled, SIGNATURE, CodeFolders([], cached.save_overload), {})
        triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
        target = {"triple": triple, "cpu": cpu, "features": features, "needs": []} | fields
        (folder / "target.json").write_text(json.dumps(target))
        jit.shipped_code.cache_clear()
        function = jit.CompiledFunction(_doubled, SIGNATURE)
        function.is_ours = True
        return function

    yield ship_with
    jit.shipped_code.cache_clear()


def test_shipped_machine_code_is_loaded_without_compiling_or_saving(
    ship: Any, tmp_path: Path
) -> None:
    function = ship()
    assert function.saved_in == jit.shipped_code().folder
    assert function.at_hand
    assert function(21) == 42
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("fields", "token"),
    [({"needs": ["avx9", "sse2"]}, "avx9"), ({"triple": "s390x-ibm-linux"}, "s390x-ibm-linux")],
)
def test_code_for_another_machine_is_compiled(
    ship: Any, tmp_path: Path, fields: dict[str, Any], token: str
) -> None:
    function = ship(**fields)
    assert token in jit.shipped_code().fault
    assert not function.at_hand
    assert function(21) == 42
    assert list((tmp_path / "cache").rglob("*.nbi"))


def test_a_processor_of_the_users_choice_is_compiled_for(
    ship: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CPU_NAME", "generic")
    assert not ship().at_hand
    assert "NUMBA_CPU_NAME" in jit.shipped_code().fault


def test_another_version_of_the_sources_or_of_numba_is_compiled(
    ship: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = ship()
    monkeypatch.setattr(jit, "_code_version", lambda: "kernels-0")
    jit.shipped_code.cache_clear()
    assert jit.shipped_code().fault
    assert not function.at_hand


def test_damaged_shipped_code_is_compiled_and_left_as_it_is(ship: Any) -> None:
    function = ship()
    folder = Path(jit.shipped_code().folder)
    for file in folder.rglob("*.nbc"):
        file.write_bytes(b"\0")
    files = {file: file.read_bytes() for file in folder.rglob("*.*") if file.is_file()}
    assert function(21) == 42
    assert files == {file: file.read_bytes() for file in files}


def test_a_damaged_target_is_compiled_for(ship: Any) -> None:
    function = ship()
    (Path(jit.shipped_code().folder) / "target.json").write_bytes(b"")
    jit.shipped_code.cache_clear()
    assert jit.shipped_code().fault
    assert function(21) == 42


def test_another_process_compiles_what_this_one_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Modules in the current folder are not those of this process.
    monkeypatch.chdir(tmp_path)
    Path("pickle.py").write_text("open('imported', 'w')")
    script = """
from boostrank.kernels import jit, metric
metric.cumulated._save = lambda *_: print("compiled here")
jit.compile_aside([metric.cumulated])
metric.cumulated.compiled
print(metric.cumulated.saved_in)
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "2"}
    environment["PYTHONPATH"] = str(Path(boostrank.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.stdout.startswith(str(tmp_path)), done
    assert not Path("imported").exists()


def test_the_compiling_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    script = """
import os
from boostrank.kernels import jit
from boostrank.objectives import OBJECTIVES
kernel = OBJECTIVES.get("reg-shf-sdcg").kernel
jit.compile_aside([kernel])
print(jit._aside[kernel].pid, flush=True)
os.kill(os.getpid(), 9)
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True
    )
    pid = int(done.stdout)
    for _ in range(600):
        if not Path(f"/proc/{pid}/stat").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text():
            break
        time.sleep(0.1)
    assert not list(tmp_path.rglob("kernel-*.nbc")), "it went on to the end"


def test_the_triple_is_that_of_the_compiled_code() -> None:
    assert cpu_target.target_context.codegen().magic_tuple()[0] == host_triple()
