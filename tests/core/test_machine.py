"""How many threads there are to use, and how they wait."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from boostrank.core import machine
from boostrank.core.machine import available_threads, openmp_environment, resolve_threads


def system(root: Path, membership: str, files: dict[str, str]) -> Path:
    """A file system with these control groups."""
    for name, text in {"proc/self/cgroup": membership, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        (
            "0::/app/job\n",
            {"sys/fs/cgroup/app/cpu.max": "300000 100000\n", "sys/fs/cgroup/app/job/cpu.max": "max 1"},
            3,
        ),
        ("0::/app\n", {"sys/fs/cgroup/app/cpu.max": "300000 100000\n", "sys/fs/cgroup/cpu.max": "200000 100000"}, 2),
        ("0::/host/path/not/seen/here\n", {"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        ("0::/../outside\n", {"sys/fs/cgroup/cpu.max": "50000 100000\n"}, None),
        (
            "4:memory:/job\n1:cpu,cpuacct:/job\n",
            {"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "400000", "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000"},
            4,
        ),
        (
            "1:cpu:/\n0::/\n",
            {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"},
            None,
        ),
        ("nonsense\n", {"sys/fs/cgroup/cpu.max": "nonsense"}, None),
    ],
)
def test_the_quota_of_control_groups(
    membership: str, files: dict[str, str], cores: float | None, tmp_path: Path
) -> None:
    assert machine._quota(system(tmp_path, membership, files)) == cores


def test_a_machine_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    assert machine._quota(tmp_path) is None


@pytest.mark.parametrize(("mask", "quota", "threads"), [(8, None, 8), (8, 2.9, 2), (8, 0.5, 1), (2, 6.0, 2)])
def test_threads_follow_the_smaller_of_mask_and_quota_rounded_down(
    mask: int, quota: float | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(machine, "_cores_in_mask", lambda: mask)
    monkeypatch.setattr(machine, "_quota", lambda root: quota)
    assert available_threads() == resolve_threads(None) == resolve_threads(0) == threads
    assert resolve_threads(5) == 5
    assert openmp_environment({}) == {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": str(threads)}
    for said in ("3", "3,2"):
        monkeypatch.setenv("OMP_NUM_THREADS", said)
        assert available_threads() == 3
    for nothing in ("", "many", "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", nothing)
        assert available_threads() == threads


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_how_threads_wait_is_left_to_who_has_said_it(name: str) -> None:
    assert openmp_environment({name: "1", "OMP_NUM_THREADS": "4"}) == {}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks on this system")
def test_the_mask_counts_and_importing_changes_no_environment() -> None:
    script = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); before = dict(os.environ)\n"
        "import boostrank.training.train\n"
        "from boostrank.core.machine import available_threads\n"
        "assert available_threads() == 1 and dict(os.environ) == before\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
