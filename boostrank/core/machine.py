"""What of the machine is this process's to use: decided here for kernels, reader, engines and command line alike."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

# Threads of OpenMP spin while they wait, unless told otherwise. Beside a busy neighbour a spinning thread takes the
# core from the one that it waits for. On 2 cores with one spinning competitor, a round of XGBoost: 38 -> 230 ms
# spinning, 62 -> 66 ms passive; of LightGBM: 61 -> 109 ms and 75 -> 98 ms. Where nobody else runs, passive costs 1.8
# and 1.2 times. A neighbour may come after the start, so only what is known for the whole run could allow spinning:
# a machine whose cores are ours alone cannot be told from one that is quiet just now, and the answer is passive.
_WAIT_POLICY = "passive"


def available_threads() -> int:
    """Threads that this process may keep busy: `OMP_NUM_THREADS` if it is set, else what mask and quota allow."""
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(said) if said.isdigit() and int(said) > 0 else _allowed_cores()


def resolve_threads(threads: int | None) -> int:
    """The thread count to use: None and numbers below 1 mean every available core."""
    return available_threads() if threads is None or threads < 1 else threads


def openmp_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """What to set before OpenMP is loaded, which reads its environment once. What the user set stays."""
    given = os.environ if environment is None else environment
    settings: dict[str, str] = {}
    if not any(name in given for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
        settings["OMP_WAIT_POLICY"] = _WAIT_POLICY
    if "OMP_NUM_THREADS" not in given:
        # OpenMP counts the cores of the machine in some builds, and knows no quota in any.
        settings["OMP_NUM_THREADS"] = str(_allowed_cores())
    return settings


def _allowed_cores() -> int:
    cores = float(_cores_in_mask())
    quota = _quota(Path("/"))
    # Rounded down: a thread that runs out of quota stops in the middle, and the others wait for it.
    return max(1, int(min(cores, quota if quota is not None else cores)))


def _cores_in_mask() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _quota(root: Path) -> float | None:
    """Cores that the control groups of this process allow; None without a limit.

    A limit anywhere above counts too. Inside a container the path that the kernel tells is often that of the host;
    then the container's own group is mounted at the top.

    Args:
        root: of the file system.
    """
    limits: list[float] = []
    for controllers, group in _groups(root / "proc/self/cgroup"):
        if not controllers:
            top, files = root / "sys/fs/cgroup", ["cpu.max"]
        elif "cpu" in controllers.split(","):
            top, files = root / "sys/fs/cgroup/cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        else:
            continue
        here = top / group.lstrip("/")
        for folder in (here, *here.parents):
            if not folder.is_relative_to(top):
                break
            limits += _limit(folder, files)
    return min(limits, default=None)


def _groups(path: Path) -> list[tuple[str, str]]:
    """(controllers, path) of each line `number:controllers:path`; no controllers in version 2."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    parts = [line.split(":", 2) for line in lines]
    return [(part[1], part[2]) for part in parts if len(part) == 3 and ".." not in part[2]]


def _limit(folder: Path, files: list[str]) -> list[float]:
    try:
        words = [word for name in files for word in (folder / name).read_text().split()]
        quota, period = int(words[0]), int(words[1])
    except (OSError, ValueError, IndexError):  # no such file, or "max"
        return []
    return [quota / period] if quota > 0 and period > 0 else []


def free_memory() -> float:
    """Bytes that can still be taken: what the system has, or what a limit on this group of processes leaves."""
    free = float("inf")
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = 1024.0 * int(line.split()[1])
    with contextlib.suppress(OSError, ValueError):
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        free = min(free, limit - int(Path("/sys/fs/cgroup/memory.current").read_text()) + _page_cache())
    return free


def _page_cache() -> int:
    """Bytes of files in the group's memory, which give way."""
    for line in Path("/sys/fs/cgroup/memory.stat").read_text().splitlines():
        if line.startswith("file "):
            return int(line.split()[1])
    return 0


def return_memory() -> None:
    """Give memory that was freed back to the system, where the C library keeps it (glibc) and can be asked to.

    What many blocks of several megabytes leave behind otherwise counts as used until the process ends.
    """
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


@cache
def _c_library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows has no name for itself
        return None
