"""Compilation of kernels: code generation, the cache of compiled code, and threads.

Entry points are compiled once for one explicit signature, release the GIL, and are cached on disk,
so a second process starts in a fraction of a second. The cache folder is named after the bytes of
this package, because Numba notices changes in a function's file, but not in helpers that are
inlined from other files. A user's file may use helpers from anywhere, so code outside boostrank is
compiled anew in every process.

Threads are plain Python threads over such entry points. `prange` is not used: Numba's parallel
functions cannot be cached, change global thread counts, and kill a forked child on the `omp` layer.
"""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import logging
import os
import re
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property, partial, update_wrapper
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numba
import numpy as np

from boostrank.core import machine
from boostrank.core.errors import FileFormatError
from boostrank.core.types import Int64Array
from boostrank.kernels.private import Helper, cached_in, keep_address

INT, FLOAT = numba.types.int64, numba.types.float64
F1, I1, F2 = (
    numba.types.Array(FLOAT, 1, "C"),
    numba.types.Array(INT, 1, "C"),
    numba.types.Array(FLOAT, 2, "C"),
)
"""The types of numbers and of contiguous arrays in signatures."""

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# Division by zero follows IEEE 754: kernels guard it themselves, and Numba's check prevents
# vectorisation.
_OPTIONS = {"nogil": True, "error_model": "numpy"}
_PACKAGE = Path(__file__).parents[1]


def _options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return Numba's options. Reference counts, a fifth of the code, are left out if our function
    allocates nothing.
    """
    is_ours = Path(function.__code__.co_filename).is_relative_to(_PACKAGE)
    return _OPTIONS | {"_nrt": not is_ours or hasattr(function, "allocates")}


def allocates(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function of boostrank that creates arrays, itself or in a function that it calls.

    Numba refuses to compile the others if they create arrays.
    """
    vars(function)["allocates"] = True
    return function


def inline(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a helper that other compiled functions call and that becomes part of its callers.

    Example:
        >>> import boostrank
        >>> @boostrank.inline
        ... def square(score):
        ...     return score * score
        >>> square(3.0)
        9.0
    """
    return _helper(function)


def inline_whole(function: Callable[P, R]) -> Callable[P, R]:
    """Inline a helper before types are inferred, so that the tuples in its arguments disappear."""
    compiled: Callable[P, R] = numba.njit(function, inline="always", **_options_of(function))
    return compiled


def inline_sums(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a helper as `inline` does, but with sums and products in any order, so that loops
    over them use SIMD.

    Smooth ranks of 120 to 1,000 documents are computed 2.6 to 5 times faster. NaN and infinity keep
    their meaning, and a machine always uses the same order.
    """
    return _helper(function, fastmath={"reassoc"})


def _helper(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    if numba.config.DISABLE_JIT:
        return function
    return cast("Callable[P, R]", Helper(function, targetoptions=_options_of(function) | options))


class CompiledFunction(Generic[P, R]):
    """An entry point with one signature, which is compiled or loaded from the cache at first use.

    Attributes:
        file, line: source of the function, including decorators.
        is_ours: whether the source is in this package and not in a user's file.
        sha256: hash of a user's file; None for our own functions, or if there is no file.

    Raises:
        FileFormatError: a user's function does not compile at first use. The message names the file
            and the line.
    """

    def __init__(self, function: Callable[P, R], signature: Any) -> None:
        self.py_func, self.signature = function, signature
        self.file, self.line = function.__code__.co_filename, function.__code__.co_firstlineno
        self.is_ours = Path(self.file).is_relative_to(_PACKAGE)
        # Hash the user's file now, while it is loaded: it may be edited before a model is saved.
        self.sha256 = None if self.is_ours else _digest_of(self.file)
        update_wrapper(self, function)

    def __deepcopy__(self, memo: Any) -> CompiledFunction[P, R]:
        # As Python copies functions; LightGBM copies its parameters, including the objective.
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        # As Python pickles functions: by name, if the name refers to this object.
        name = self.py_func.__qualname__
        if getattr(sys.modules.get(self.__module__), name, None) is self:
            return name
        return CompiledFunction, (self.py_func, self.signature)

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The machine code, which can be called from Python and used as a function pointer in other
        compiled code.
        """
        try:
            directory = cache_directory() if self.is_ours else None
            return self._compile(directory)
        except (
            Exception
        ) as error:  # Numba's own error, or one raised while it inspected the function
            if self.is_ours:
                raise
            raise _explained(error, self.py_func) from error

    def _compile(self, directory: str | None) -> Callable[P, R]:
        if numba.config.DISABLE_JIT:
            return self.py_func
        fault = write_fault(directory) if directory else ""
        missed = partial(_say_missing, directory, fault) if fault else None
        with (
            _compile_lock,
            cached_in(directory, missed),
            _NOTICE.watch(self, directory),
            machine.uncollected(),
        ):
            compiled: Any
            options = _options_of(self.py_func)
            try:
                compiled = numba.njit(self.signature, cache=directory is not None, **options)(
                    self.py_func
                )
            except Exception:  # the disk is full by now or fails, or a power cut damaged a file
                if directory is None:
                    raise
                for file in _code_files(self, directory):
                    with contextlib.suppress(OSError):
                        file.unlink()
                cache_directory.cache_clear()
                write_fault.cache_clear()
                compiled = numba.njit(self.signature, **options)(self.py_func)
        returned = compiled.nopython_signatures[0].return_type
        if (
            returned != self.signature.return_type
        ):  # Numba ignores the declared type if the function returns nothing
            raise TypeError(f"it returns {returned}, not {self.signature.return_type}")
        keep_address(compiled, self.signature)
        return cast("Callable[P, R]", compiled)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.compiled(*args, **kwargs)


class _Notice:
    """The log message, once per process, about a long compilation; the command line shows its own
    messages.
    """

    def __init__(self, patience: float = 2.0) -> None:
        self._patience, self._spent, self._given = patience, 0.0, False

    @contextlib.contextmanager
    def watch(self, function: CompiledFunction[..., Any], directory: str | None) -> Iterator[None]:
        """Measure how long a function is compiled inside the context; loading it from the cache
        shows no message.
        """
        if self._given or machine.own_process or (directory and is_kept(function, directory)):
            yield
            return
        started = time.monotonic()
        yield
        self._spent += time.monotonic() - started
        if self._spent >= self._patience:
            self._given = True
            kept = "again in every process"
            if directory and not write_fault(directory):
                kept = f"once; later processes load it from {directory}"
            logging.getLogger("boostrank").warning("boostrank: compiling machine code, %s", kept)


_NOTICE = _Notice()


def is_kept(function: CompiledFunction[..., Any], directory: str) -> bool:
    """Return True if the cache contains the machine code of one of our functions."""
    return next(_code_files(function, directory), None) is not None


def _code_files(function: CompiledFunction[..., Any], directory: str) -> Iterator[Path]:
    return Path(directory).rglob(
        f"{Path(function.file).stem}.{function.py_func.__qualname__}-*.nbi"
    )


def entry_point(signature: Any) -> Callable[[Callable[P, R]], CompiledFunction[P, R]]:
    """Return a decorator that compiles a function for exactly this signature at first use, and
    caches it on disk.
    """
    return lambda function: CompiledFunction(function, signature)


def _explained(error: Exception, function: Any) -> FileFormatError:
    """Summarise Numba's long error, which may not name the line, in one line that names it."""
    # Shorten Numba's message.
    code = function.__code__
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [
        t
        for line in text.splitlines()
        if (t := line.strip()) and not re.match(r"Failed in |File |During: ", t)
    ]
    reason = lines[0] if lines else type(error).__name__
    reason = re.sub(
        r"Unknown attribute ('\w+') of type (\w+)\(.*",
        lambda m: f"{m[2].lower()} has no {m[1]}",
        reason,
    )
    call = next((t.removeprefix(">>> ") for t in lines if t.startswith(">>> ")), None)
    if "No conversion from none to float64" in text:
        reason = (
            "it returns nothing on some path; a kernel returns its loss, one float, on every path"
        )
    elif call is not None:
        reason = f"it knows no {call}"
    elif "Cannot determine Numba type of <class 'function'>" in reason:
        reason += ". A helper needs the decorator @boostrank.inline"
    # Find the line that it names, or the first line with the word that it quotes.
    places = [
        int(n)
        for name, n in re.findall(r'File "([^"]*)", line (\d+)', text)
        if code.co_filename.endswith(name)
    ]
    word = re.search(r"'(\w+)'$|name '(\w+)'", reason)
    if not places and word:
        pattern = re.compile(rf"\b{word[1] or word[2]}\b")
        source = linecache.getlines(code.co_filename)
        places = [
            n
            for n, line in enumerate(source, 1)
            if n > code.co_firstlineno and pattern.search(line)
        ]
    return FileFormatError(
        f"the kernel cannot be compiled: {reason}",
        file=code.co_filename,
        line=(places or [code.co_firstlineno])[0],
    )


def _digest_of(file: str) -> str | None:
    lines = linecache.getlines(file) if file.startswith("<") else None  # cell of a notebook
    try:
        body = Path(file).read_bytes() if lines is None else "".join(lines).encode()
    except OSError:
        return None
    return hashlib.sha256(body).hexdigest() if body else None


_compile_lock = threading.RLock()


@cache
def cache_directory() -> str | None:
    """Return the folder for compiled code, or None if it cannot be written and has no code to load.

    `NUMBA_CACHE_DIR` takes precedence over `$XDG_CACHE_HOME/boostrank` and `~/.cache/boostrank`.
    """
    if numba.config.CACHE_DIR:
        root = Path(numba.config.CACHE_DIR)
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        root = Path(home) / "boostrank"
    directory = root / f"kernels-{_sources_digest()}"
    fault = write_fault(str(directory))
    if fault and next(directory.rglob("*.nbi"), None) is None:
        warnings.warn(
            f"compiled kernels cannot be cached in {directory} ({fault}){_AGAIN}", RuntimeWarning, 2
        )
        return None
    return str(directory)


_AGAIN = (
    "; every process compiles them again. Set NUMBA_CACHE_DIR to a writable folder to avoid that"
)


@cache
def write_fault(directory: str) -> str:
    """Create a folder if it does not exist, and return why no file can be written there, or an
    empty text.
    """
    try:
        os.makedirs(directory, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(1 << 20))  # fails on a full disk
    except OSError as error:
        return error.strerror or str(error)
    return ""


@cache
def _say_missing(directory: str, fault: str) -> None:
    """Warn, once per process, that a cache lacks code and cannot be completed."""
    warnings.warn(
        f"{directory} lacks some compiled kernels and cannot be written ({fault}){_AGAIN}, or"
        " complete it with `boostrank compile --objective NAME`",
        RuntimeWarning,
        stacklevel=2,
    )


def _sources_digest() -> str:
    digest = hashlib.sha256(numba.__version__.encode())  # other versions would overwrite the files
    for folder in ("kernels", "files/text"):  # folders with helpers that files outside inline
        for source in sorted((_PACKAGE / folder).rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


@cache
def _pool(threads: int, pid: int) -> ThreadPoolExecutor:
    # Keyed by process: a forked child has none of its parent's threads and starts its own.
    return ThreadPoolExecutor(threads, thread_name_prefix="boostrank")


def run_parallel(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Return `[work(item) for item in items]`, using threads if there are several items, or raise
    the first error.
    """
    if threads <= 1 or len(items) <= 1:
        return [work(item) for item in items]
    return list(_pool(threads, os.getpid()).map(work, items))


def query_blocks(ptr: Int64Array, documents: int) -> list[tuple[int, int]]:
    """Return ranges of queries with about `documents` documents each."""
    marks = np.arange(documents, int(ptr[-1]), documents)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(ptr, marks), [ptr.size - 1]]))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]
