"""Threads and memory available to this process, for kernels, reader, engines and command line alike."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from boostrank.core.errors import ParameterError

MOST_THREADS = 1024
"""Limit on machines with fewer cores. OpenMP aborts the process if it cannot start all threads."""
# OpenMP threads spin by default while they wait. On a busy machine a spinning thread takes the core of the thread
# that it waits for (times: experiments/bench_scale). Load may start at any time, so always wait passively.
_WAIT_POLICY = "passive"


def available_threads() -> int:
    """Return the number of threads to use: `OMP_NUM_THREADS` if set, else the cores in the CPU mask and quota.

    Raises:
        ParameterError: OMP_NUM_THREADS is above `MOST_THREADS`.
    """
    word = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip().lstrip("0")
    if not (word.isascii() and word.isdigit()):
        return _allowed_cores()
    return _checked(int(word[:10]), "OMP_NUM_THREADS")


def resolve_threads(threads: int | None) -> int:
    """Resolve a thread count: None and numbers below 1 mean all available cores.

    Raises:
        ParameterError: more than `MOST_THREADS`.
    """
    return available_threads() if threads is None or threads < 1 else _checked(threads, "num_threads")


def _checked(threads: int, name: str) -> int:
    most = max(MOST_THREADS, os.cpu_count() or 1)
    if threads > most:
        raise ParameterError(f"{name}={threads:.10g} is out of range; allowed: 1 to {most:,} threads")
    return int(threads)


def openmp_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables to set before OpenMP is loaded. Variables set by the user are kept."""
    given = os.environ if environment is None else environment
    settings: dict[str, str] = {}
    if not any(name in given for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
        settings["OMP_WAIT_POLICY"] = _WAIT_POLICY
    if "OMP_NUM_THREADS" not in given:
        # Some builds of OpenMP count all cores of the machine; none respects the quota.
        settings["OMP_NUM_THREADS"] = str(_allowed_cores())
    return settings


def _allowed_cores() -> int:
    # Round down: when the quota runs out, a thread is paused and the others wait for it.
    in_mask = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(float(in_mask), _quota(Path("/")))))


def free_memory(root: Path = Path("/")) -> float:
    """Return the available memory in bytes, of the system or within the limits of our control groups.

    The reclaimable page cache counts as free. If the system does not say: all its memory, or infinity.
    """
    free, system = math.inf, _table(root / "proc/meminfo")
    if "MemAvailable:" in system:
        free = system["MemAvailable:"] * 1024.0
    elif hasattr(os, "sysconf"):  # macOS
        free = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for version, group in _groups(root, "memory"):
        limits, usage, prefix = (
            (("memory.max", "memory.high"), "memory.current", "")
            if version == 2
            else (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_")
        )
        used = _numbers(group / usage)
        limit = [number for name in limits for number in _numbers(group / name)]
        if used and limit:
            # Count file pages only: tmpfs is part of the cache and cannot be reclaimed.
            pages = _table(group / "memory.stat")
            cached = sum(pages.get(f"{prefix}{kind}_file", 0) for kind in ("active", "inactive"))
            free = min(free, max(0.0, min(limit) - used[0] + cached))
    return free


def _quota(root: Path) -> float:
    """Return the CPU quota of our control groups in cores; infinity without a limit."""
    cores = math.inf
    for version, group in _groups(root, "cpu"):
        files = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        numbers = [number for name in files for number in _numbers(group / name)]
        if len(numbers) == 2 and min(numbers) > 0:
            cores = min(cores, numbers[0] / numbers[1])
    return cores


def _groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """Yield (version, folder) of our control groups and their ancestors, whose limits apply as well.

    Inside a container, the kernel often gives the host's path; the container's own group is then mounted at the top.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for parts in (line.split(":", 2) for line in lines):  # number:controllers:path
        if len(parts) < 3 or ".." in parts[2]:
            continue
        if not parts[1]:
            version, tops = 2, ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        elif controller in parts[1].split(","):
            version, tops = 1, [f"sys/fs/cgroup/{controller}"]
        else:
            continue
        for top in (root / name for name in tops):
            group = top / parts[2].lstrip("/")
            yield from ((version, folder) for folder in (group, *group.parents) if folder.is_relative_to(top))


def _numbers(path: Path) -> list[int]:
    try:
        return [int(word) for word in path.read_text().split() if word != "max"]
    except (OSError, ValueError):
        return []


def _table(path: Path) -> dict[str, int]:
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def return_memory() -> None:
    """Return freed memory to the system, where the C library supports it (glibc).

    Otherwise the memory of many freed blocks of several megabytes counts as used until the process ends.
    """
    import ctypes  # imported here to save 5 ms in `--help`

    # CDLL(None) fails on Windows; C libraries other than glibc have no malloc_trim.
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
