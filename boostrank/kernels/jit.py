"""How code is compiled, where compiled code is kept, and how work is spread over threads.

Entry points are compiled once for one explicit signature, release the GIL, and are cached on disk, so a second
process starts in a fraction of a second. The cache lives in a folder named after the bytes of this package:
numba notices a change of the file a function stands in, but not of the helpers it inlines from other files.

Threads are plain Python threads over such entry points. This is why there is no `prange` in the house: numba's
parallel functions must not be cached, change global thread counts, and kill a forked child on the `omp` layer.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# Division by zero follows IEEE 754: kernels guard it themselves, and the check keeps loops from vectorising.
_OPTIONS = {"nogil": True, "error_model": "numpy"}


def inline(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a helper that other compiled functions call; it becomes part of its callers."""
    compiled: Callable[P, R] = numba.njit(function, **_OPTIONS)
    return compiled


def inline_sums(function: Callable[P, R]) -> Callable[P, R]:
    """`inline`, where running sums and products may be formed in any order: loops that keep one then use SIMD.

    Measured on smooth ranks of 120 to 1,000 documents: 2.6 to 5 times faster. NaN and infinity keep their meaning,
    and one machine always takes the same order.
    """
    compiled: Callable[P, R] = numba.njit(function, fastmath={"reassoc"}, **_OPTIONS)
    return compiled


class CompiledFunction(Generic[P, R]):
    """An entry point with one signature, compiled (or loaded from the cache) at the first use.

    Args:
        function: the Python body.
        signature: a numba signature.
    """

    def __init__(self, function: Callable[P, R], signature: Any) -> None:
        self.py_func, self.signature = function, signature
        update_wrapper(self, function)

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The machine code: callable from Python, and passed to other compiled code as a function pointer."""
        directory = cache_directory()
        previous = numba.config.CACHE_DIR
        with _compile_lock:
            try:
                numba.config.CACHE_DIR = directory or previous
                compiled: Callable[P, R] = numba.njit(self.signature, cache=directory is not None, **_OPTIONS)(
                    self.py_func
                )
            finally:
                numba.config.CACHE_DIR = previous
        return compiled

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.compiled(*args, **kwargs)


def entry_point(signature: Any) -> Callable[[Callable[P, R]], CompiledFunction[P, R]]:
    """Decorator: compile for exactly this signature, at the first use, and cache on disk."""
    return lambda function: CompiledFunction(function, signature)


_compile_lock = threading.RLock()


@cache
def cache_directory() -> str | None:
    """Folder of the compiled code, or None when none can be written (then it is compiled in memory).

    `NUMBA_CACHE_DIR` is honoured; otherwise `$XDG_CACHE_HOME/boostrank` or `~/.cache/boostrank`.
    """
    if numba.config.CACHE_DIR:
        root = Path(numba.config.CACHE_DIR)
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        root = Path(home) / "boostrank"
    directory = root / f"kernels-{_sources_digest()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        warnings.warn(
            f"compiled kernels cannot be kept in {directory} ({error.strerror}); they are compiled anew in every "
            "process. Set NUMBA_CACHE_DIR to a writable folder to avoid that.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return str(directory)


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def available_threads() -> int:
    """Cores this process may use (its affinity mask, not the machine's count)."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def resolve_threads(threads: int | None) -> int:
    """The thread count to use: None and numbers below 1 mean every available core."""
    return available_threads() if threads is None or threads < 1 else threads


@cache
def _pool(threads: int, pid: int) -> ThreadPoolExecutor:
    # Keyed by process: a forked child has none of its parent's threads and starts its own.
    return ThreadPoolExecutor(threads, thread_name_prefix="boostrank")


def run_parallel(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """`[work(item) for item in items]`, on several threads when it pays; the first error is raised."""
    if threads <= 1 or len(items) <= 1:
        return [work(item) for item in items]
    return list(_pool(threads, os.getpid()).map(work, items))
