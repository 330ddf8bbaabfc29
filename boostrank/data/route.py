"""How much memory there is for the features of some files."""

from __future__ import annotations

import contextlib
from pathlib import Path


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
