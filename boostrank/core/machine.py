"""Threads and memory of the process, and fast imports."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from boostrank.core.errors import ParameterError

MOST_THREADS = 1024
"""Maximum number of threads on machines with fewer cores. OpenMP aborts the process if it cannot
start all threads.
"""
# OpenMP threads spin by default while they wait. On a busy machine, a spinning thread takes the
# core of the thread that it waits for (times: experiments/bench_scale).
_WAIT_POLICY = "passive"


def available_threads() -> int:
    """Return `OMP_NUM_THREADS` if set (`ParameterError` above `MOST_THREADS`), else the cores in
    mask and quota.
    """
    setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip().lstrip("0")
    if not (setting.isascii() and setting.isdigit()):
        return _allowed_cores()
    return _checked(int(setting[:10]), "OMP_NUM_THREADS")


def resolve_threads(threads: int | None) -> int:
    """Return the number of threads, or raise `ParameterError` for too many.

    None, 0 and -1 mean every available core, -2 all but one, as in scikit-learn.
    """
    if threads is None or threads < 1:
        return max(1, available_threads() + 1 + min(threads or -1, -1))
    return _checked(threads, "num_threads")


def _checked(threads: int, name: str) -> int:
    most = max(MOST_THREADS, os.cpu_count() or 1)
    if threads > most:
        raise ParameterError(
            f"{name}={threads:.10g} is out of range; allowed: 1 to {most:,} threads"
        )
    return int(threads)


def openmp_environment() -> dict[str, str]:
    """Return the environment variables to set before OpenMP is loaded. Variables set by the user
    are kept.
    """
    settings: dict[str, str] = {}
    if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}:
        settings["OMP_WAIT_POLICY"] = _WAIT_POLICY
    if "OMP_NUM_THREADS" not in os.environ:
        # Some builds of OpenMP count all cores of the machine; none respects the quota.
        settings["OMP_NUM_THREADS"] = str(_allowed_cores())
    return settings


def _allowed_cores() -> int:
    # Round down: when the quota runs out, a thread is paused and the others wait for it.
    in_mask = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, int(min(float(in_mask), _quota(Path("/")))))


def free_memory(root: Path = Path("/")) -> float:
    """Return the memory in bytes that is available in the system or within the process's control
    groups.

    The reclaimable page cache is included. If the available memory is unknown, return the total
    memory or infinity.
    """
    free, system = math.inf, _table(root / "proc/meminfo")
    if "MemAvailable:" in system:
        free = system["MemAvailable:"] * 1024.0
    elif hasattr(os, "sysconf"):  # macOS
        free = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for group in _groups(root, "memory"):
        used = _numbers(group, "memory.current", "memory.usage_in_bytes")
        limit = _numbers(group, "memory.max", "memory.high", "memory.limit_in_bytes")
        if used and limit:
            # Count file pages only: tmpfs is part of the cache and cannot be reclaimed. In version
            # 1, only the totals include groups below.
            pages = _table(group / "memory.stat")
            kinds = ("active_file", "inactive_file")
            cached = sum(pages.get(f"total_{kind}", pages.get(kind, 0)) for kind in kinds)
            free = min(free, max(0.0, min(limit) - used[0] + cached))
    return free


def _quota(root: Path) -> float:
    """Return the CPU quota of the process's control groups in cores, or infinity if there is no
    limit.
    """
    cores = math.inf
    for group in _groups(root, "cpu"):
        numbers = _numbers(group, "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
        if len(numbers) == 2 and min(numbers) > 0:
            cores = min(cores, numbers[0] / numbers[1])
    return cores


def _groups(root: Path, controller: str) -> list[Path]:
    """Return the folders of our control groups (versions 1 and 2) and their ancestors, whose limits
    also apply.

    In a container, the kernel often gives the path on the host, while the container's group is
    mounted at the top.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text()
    except OSError:
        return []
    folders = []
    for controllers, path in re.findall(r"^\d+:(.*?):/(.*)", lines, re.MULTILINE):
        names = ["", "unified"]  # version 2 names no controllers
        if controllers:
            names = [controller] if controller in controllers.split(",") else []
        for top in (root / "sys/fs/cgroup" / name for name in names if ".." not in path):
            above = (top / path, *(top / path).parents)
            folders += [folder for folder in above if folder.is_relative_to(top)]
    return folders


def _numbers(group: Path, *names: str) -> list[int]:
    """Return the numbers in control group files. Files that are missing and the word "max" give
    none.
    """
    numbers = []
    for name in names:
        with contextlib.suppress(OSError, ValueError):
            numbers += [int(word) for word in (group / name).read_text().split() if word != "max"]
    return numbers


def _table(path: Path) -> dict[str, int]:
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def return_memory() -> None:
    """Return freed memory to the system if the C library supports this (glibc)."""
    import ctypes  # imported here to save 5 ms in `--help`

    # CDLL(None) fails on Windows; C libraries other than glibc have no malloc_trim.
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


own_process = False
"""Whether this is the process of the command line, which sets this variable at start-up."""


@contextmanager
def without(*packages: str) -> Iterator[None]:
    """For modules that are imported in the block, treat packages that are not imported yet as not
    installed.
    """
    absent = [name for name in packages if own_process and name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]  # makes `import name` fail at once
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


@contextmanager
def uncollected(*, freeze: bool = False) -> Iterator[None]:
    """Disable the garbage collector in the block, for imports and compilation, which create objects
    but no garbage.

    Args:
        freeze: whether to exclude all objects from later collections in the process of the command
            line, where scanning imported modules takes a third of a short command's time. Cycles
            created in the block are never freed.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if freeze and own_process:
            gc.freeze()
        if enabled:
            gc.enable()
