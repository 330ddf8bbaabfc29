"""Threads and memory that this process may use, and how threads wait."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from boostrank.core import machine
from boostrank.core.errors import ParameterError
from boostrank.core.machine import (
    available_threads,
    free_memory,
    openmp_environment,
    resolve_threads,
)

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


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
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "max 100000\n"}, math.inf),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        (
            "0::/app/job\n",
            {
                "sys/fs/cgroup/app/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/app/job/cpu.max": "max 1",
            },
            3,
        ),
        (
            "0::/app\n",
            {
                "sys/fs/cgroup/app/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/cpu.max": "200000 100000",
            },
            2,
        ),
        ("0::/host/path/not/seen/here\n", {"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        ("0::/../outside\n", {"sys/fs/cgroup/cpu.max": "50000 100000\n"}, math.inf),
        (
            "4:memory:/job\n1:cpu,cpuacct:/job\n",
            {
                "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "400000",
                "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
            },
            4,
        ),
        (
            "1:cpu:/\n0::/\n",
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            math.inf,
        ),
        ("nonsense\n", {"sys/fs/cgroup/cpu.max": "nonsense"}, math.inf),
        ("0::/job\n", {"sys/fs/cgroup/unified/job/cpu.max": "250000 100000"}, 2.5),
    ],
)
def test_the_quota_of_control_groups(
    membership: str, files: dict[str, str], cores: float, tmp_path: Path
) -> None:
    assert machine._quota(system(tmp_path, membership, files)) == cores


def test_a_machine_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    assert machine._quota(tmp_path) == math.inf


@pytest.mark.parametrize(
    ("mask", "quota", "threads"), [(8, math.inf, 8), (8, 2.9, 2), (8, 0.5, 1), (2, 6.0, 2)]
)
def test_threads_follow_the_smaller_of_mask_and_quota_rounded_down(
    mask: int, quota: float, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(mask)), raising=False)
    monkeypatch.setattr(machine, "_quota", lambda root: quota)
    assert available_threads() == resolve_threads(None) == resolve_threads(0) == threads
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    assert resolve_threads(1024) == 1024
    with pytest.raises(ParameterError, match=r"num_threads=100000 .*1 to 1,024"):
        resolve_threads(100_000)  # which ends the process where OpenMP starts them
    for name in WAITING:
        monkeypatch.delenv(name, raising=False)
    assert openmp_environment() == {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": str(threads)}
    for setting in ("3", "3,2"):
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
        assert available_threads() == 3
    assert resolve_threads(2.0) == 2
    for setting in ("1025", "9" * 5000):
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
        with pytest.raises(ParameterError, match=r"OMP_NUM_THREADS=\S+ .*1 to 1,024"):
            available_threads()
    for nothing in ("", "many", "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", nothing)
        assert available_threads() == threads


@pytest.mark.parametrize("name", WAITING)
def test_how_threads_wait_is_left_to_who_has_said_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {name: "1", "OMP_NUM_THREADS": "4"})
    assert openmp_environment() == {}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks on this system")
def test_the_mask_counts_and_importing_changes_no_environment() -> None:
    script = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); before ="
        " dict(os.environ)\nimport boostrank.fit.from_data\nfrom boostrank.core.machine import"
        " available_threads\nassert available_threads() == 1 and dict(os.environ) == before\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def memory(available_kb: int | None) -> dict[str, str]:
    return (
        {}
        if available_kb is None
        else {"proc/meminfo": f"MemTotal: 99 kB\nMemAvailable: {available_kb} kB\n"}
    )


V1, V2 = "sys/fs/cgroup/memory", "sys/fs/cgroup"
STAT = (
    "cache 900000\ntotal_active_file 1000\ntotal_inactive_file 2000\ntotal_shmem"
    " 800000\nactive_file 7\n"
)


@pytest.mark.parametrize(
    ("membership", "files", "free"),
    [
        ("0::/\n", {}, 1024e6),
        ("0::/\n", {f"{V2}/memory.max": "max\n", f"{V2}/memory.current": "5"}, 1024e6),
        ("0::/\n", {f"{V2}/memory.max": "5000\n", f"{V2}/memory.current": "2000\n"}, 3000),
        # Pages of files give way; files in memory are cache that does not.
        (
            "0::/\n",
            {
                f"{V2}/memory.max": "5000",
                f"{V2}/memory.current": "4900",
                f"{V2}/memory.stat": (
                    "anon 100\nfile 4800\nshmem 1000\nactive_file 800\ninactive_file 3000\n"
                ),
            },
            3900,
        ),
        # The tightest of all groups above counts: that of a slice, with what its other members use.
        (
            "0::/user.slice/app/job\n",
            {
                f"{V2}/user.slice/memory.max": "9000",
                f"{V2}/user.slice/memory.current": "8500",
                f"{V2}/user.slice/app/memory.max": "max",
                f"{V2}/user.slice/app/memory.current": "100",
                f"{V2}/user.slice/app/job/memory.max": "2000",
                f"{V2}/user.slice/app/job/memory.current": "100",
            },
            500,
        ),
        (
            "0::/a\n",
            {
                f"{V2}/a/memory.max": "max",
                f"{V2}/a/memory.high": "70",
                f"{V2}/a/memory.current": "9",
            },
            61,
        ),
        ("0::/not/seen/here\n", {f"{V2}/memory.max": "5000", f"{V2}/memory.current": "6000"}, 0),
        (
            "0::/job\n",
            {f"{V2}/unified/job/memory.max": "5000", f"{V2}/unified/job/memory.current": "1000"},
            4000,
        ),
        ("0::/../out\n", {f"{V2}/memory.max": "5000", f"{V2}/memory.current": "2000"}, 1024e6),
        (
            "4:memory:/x\n0::/job\n",
            {f"{V2}/job/memory.max": "7000", f"{V2}/job/memory.current": "1"},
            6999,
        ),
        (
            "4:memory:/docker/job\n1:cpu:/\n0::/\n",
            {
                f"{V1}/memory.limit_in_bytes": "9223372036854771712",
                f"{V1}/memory.usage_in_bytes": "100",
                f"{V1}/docker/memory.limit_in_bytes": "9000",
                f"{V1}/docker/memory.usage_in_bytes": "8000",
                f"{V1}/docker/memory.stat": STAT,
                f"{V1}/docker/job/memory.limit_in_bytes": "6000",
                f"{V1}/docker/job/memory.usage_in_bytes": "1000",
            },
            4000,
        ),
        (
            "4:memory:/x\n",
            {f"{V1}/memory.limit_in_bytes": "7000", f"{V1}/memory.usage_in_bytes": "1"},
            6999,
        ),
        (
            "1:cpu:/x\n",
            {f"{V1}/memory.limit_in_bytes": "7000", f"{V1}/memory.usage_in_bytes": "1"},
            1024e6,
        ),
        ("nonsense\n", {f"{V2}/memory.max": "nonsense", f"{V2}/memory.current": "1"}, 1024e6),
    ],
)
def test_free_memory_is_what_the_system_and_every_control_group_leave(
    membership: str, files: dict[str, str], free: float, tmp_path: Path
) -> None:
    assert free_memory(system(tmp_path, membership, files | memory(1_000_000))) == free


def test_the_system_counts_where_it_leaves_less_than_the_groups(tmp_path: Path) -> None:
    files = {f"{V2}/memory.max": "9000000", f"{V2}/memory.current": "0"}
    assert free_memory(system(tmp_path, "0::/\n", files | memory(3))) == 3072
    assert free_memory(system(tmp_path, "0::/\n", files | memory(0))) == 0


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="the system tells nothing")
def test_without_an_answer_of_the_system_all_of_its_memory_is_taken_to_be_free(
    tmp_path: Path,
) -> None:
    assert free_memory(tmp_path) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
