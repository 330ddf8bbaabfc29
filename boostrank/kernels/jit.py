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

import atexit
import contextlib
import hashlib
import json
import linecache
import logging
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property, update_wrapper
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast

import numba
import numpy as np

from boostrank.core import machine
from boostrank.core.errors import FileFormatError
from boostrank.core.types import Int64Array
from boostrank.kernels.private import (
    CodeFolder,
    CodeFolders,
    Helper,
    compile_signature,
    host_features,
    host_triple,
    keep_address,
)

INT, FLOAT = numba.types.int64, numba.types.float64
F1, I1, F2 = FLOAT[::1], INT[::1], FLOAT[:, ::1]
S1, S2 = numba.types.float32[::1], numba.types.float32[:, ::1]
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
        if numba.config.DISABLE_JIT:
            return self.py_func
        try:
            with _compile_lock:
                # Another thread may have compiled it in the meantime.
                return self.__dict__.get("compiled") or self._compile()
        except (
            Exception
        ) as error:  # Numba's own error, or one raised while it inspected the function
            if self.is_ours:
                raise
            raise _explained(error, self.py_func) from error

    @property
    def at_hand(self) -> bool:
        """Whether the function can run without being compiled first."""
        if "compiled" in self.__dict__ or numba.config.DISABLE_JIT:
            return True
        return self.saved_in is not None

    @property
    def saved_in(self) -> str | None:
        """The first folder with machine code of this function."""
        folders = (folder.root for folder in self._folders if folder.has_code_of(self.signature))
        return next(folders, None)

    @cached_property
    def _folders(self) -> list[CodeFolder]:
        """Where machine code may lie, the last one for what is compiled here."""
        if not self.is_ours:
            return []
        saved, shipped = CodeFolder(self.py_func, cache_directory()), shipped_code()
        if shipped.fault:
            return [saved]
        return [CodeFolder(self.py_func, shipped.folder, shipped.target), saved]

    def _compile(self) -> Callable[P, R]:
        _await_aside(self)
        code = CodeFolders(self._folders, self._save)
        with _NOTICE.watch(self), machine.uncollected():
            compiled = compile_signature(
                self.py_func, self.signature, code, _options_of(self.py_func)
            )
        returned = compiled.nopython_signatures[0].return_type
        if (
            returned != self.signature.return_type
        ):  # Numba ignores the declared type if the function returns nothing
            raise TypeError(f"it returns {returned}, not {self.signature.return_type}")
        keep_address(compiled, self.signature)
        return cast("Callable[P, R]", compiled)

    def _save(self, signature: Any, code: Any) -> None:
        """Save compiled code, or warn that the next process has to compile it again."""
        if not self._folders:
            return
        directory = cache_directory()
        fault = find_write_fault(directory)
        if not fault:
            try:
                self._folders[-1].save_overload(signature, code)
            except OSError as error:  # the disk is full by now or fails
                fault = error.strerror or str(error)
        if fault:
            _say_missing(directory, fault)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.compiled(*args, **kwargs)


class _Notice:
    """The log message, once per process, about a long compilation; the command line shows its own
    messages.
    """

    def __init__(self, patience: float = 2.0) -> None:
        self._patience, self._spent, self._given = patience, 0.0, False

    @contextlib.contextmanager
    def watch(self, function: CompiledFunction[..., Any]) -> Iterator[None]:
        """Measure how long a function is compiled inside the context; loading it from a folder
        shows no message.
        """
        if self._given or machine.own_process or function.at_hand:
            yield
            return
        started = time.monotonic()
        yield
        self._spent += time.monotonic() - started
        if self._spent >= self._patience:
            self._given = True
            kept = "again in every process"
            if function.at_hand:
                kept = f"once; later processes load it from {cache_directory()}"
            logging.getLogger("boostrank").warning("boostrank: compiling machine code, %s", kept)


_NOTICE = _Notice()


_aside: dict[CompiledFunction[..., Any], subprocess.Popen[bytes]] = {}
# The modules of this process and no others: Python would search the current folder first. The pipe
# closes when this process ends, and ends the other one.
_COMPILE = """
import sys
sys.path[:] = sys.argv[1:]
import os, pickle, threading
functions = pickle.load(sys.stdin.buffer)
threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
for function in functions:
    function.compiled
os._exit(0)
"""


def compile_aside(functions: Iterable[CompiledFunction[..., Any]]) -> None:
    """Compile functions into the cache in another process, in their order, while this one works.

    This process waits for a function that it needs and the other has not compiled yet. With one
    core, or if nothing can be cached, it does nothing.
    """
    missing = [function for function in functions if function.is_ours and not function.at_hand]
    if not missing or machine.available_threads() < 2 or find_write_fault(cache_directory()):
        return
    nowhere = subprocess.DEVNULL
    command = [sys.executable, "-P", "-c", _COMPILE, *sys.path]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        pickle.dump(missing, process.stdin)
        process.stdin.flush()
    _aside.update(dict.fromkeys(missing, process))
    atexit.register(_stop, process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _await_aside(function: CompiledFunction[..., Any]) -> None:
    """Wait until another process has compiled a function, or has ended."""
    process = _aside.get(function)
    while process is not None and process.poll() is None and not function.saved_in:
        time.sleep(0.02)


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
    lines = re.findall(r"^\s*(?!Failed in |File |During: )(\S.*?)\s*$", text, re.MULTILINE)
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
    locations = [
        int(n)
        for name, n in re.findall(r'File "([^"]*)", line (\d+)', text)
        if code.co_filename.endswith(name)
    ]
    match = re.search(r"'(\w+)'$|name '(\w+)'", reason)
    if not locations and match:
        pattern = re.compile(rf"\b{match[1] or match[2]}\b")
        source = linecache.getlines(code.co_filename)
        locations = [
            n
            for n, line in enumerate(source, 1)
            if n > code.co_firstlineno and pattern.search(line)
        ]
    return FileFormatError(
        f"the kernel cannot be compiled: {reason}",
        file=code.co_filename,
        line=(locations or [code.co_firstlineno])[0],
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
def cache_directory() -> str:
    """Return the folder for compiled code, which may lack or be read-only.

    `NUMBA_CACHE_DIR` takes precedence over `$XDG_CACHE_HOME/boostrank` and `~/.cache/boostrank`.
    """
    if numba.config.CACHE_DIR:
        root = Path(numba.config.CACHE_DIR)
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        root = Path(home) / "boostrank"
    return str(root / _code_version())


class ShippedCode(NamedTuple):
    """The machine code that the wheel carries.

    Attributes:
        folder, target: where it is, and Numba's triple, processor and features of it.
        fault: why it cannot run here, or an empty text.
    """

    folder: str
    target: tuple[str, ...]
    fault: str


SHIPPED = _PACKAGE / "machine_code"


@cache
def shipped_code() -> ShippedCode:
    """Return the machine code that the wheel carries, or why this process has to compile."""
    folder = SHIPPED / _code_version()
    try:
        target = json.loads((folder / "target.json").read_bytes())
    except (OSError, ValueError):
        return ShippedCode("", (), "this installation carries none for this version of Numba")
    lacking = sorted(set(target["needs"]) - host_features())
    fault = ""
    if numba.config.CPU_NAME or numba.config.CPU_FEATURES:
        fault = "NUMBA_CPU_NAME or NUMBA_CPU_FEATURES chooses another processor"
    elif target["triple"] != host_triple():
        fault = f"it is for {target['triple']}"
    elif lacking:
        fault = f"this processor lacks {', '.join(lacking)}"
    return ShippedCode(str(folder), (target["triple"], target["cpu"], target["features"]), fault)


@cache
def find_write_fault(directory: str) -> str:
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
        f"compiled kernels cannot be cached in {directory} ({fault}); every process compiles them"
        " again. Set NUMBA_CACHE_DIR to a writable folder to avoid that, or complete the folder"
        " with `boostrank compile --objective NAME`",
        RuntimeWarning,
        stacklevel=2,
    )


@cache
def _code_version() -> str:
    """Return a name for the machine code of these sources by this Numba."""
    digest = hashlib.sha256(numba.__version__.encode())  # other versions would overwrite the files
    for folder in ("kernels", "files/text"):  # folders with helpers that files outside inline
        for source in sorted((_PACKAGE / folder).rglob("*")):
            if source.suffix in (".py", ".npz"):
                digest.update(source.read_bytes())
    return f"kernels-{digest.hexdigest()[:16]}"


@cache
def _pool(threads: int, pid: int) -> ThreadPoolExecutor:
    # Keyed by process: a forked child has none of its parent's threads and starts its own.
    return ThreadPoolExecutor(threads, thread_name_prefix="boostrank")


def run_parallel(work: Callable[[T], R], tasks: Sequence[T], threads: int) -> list[R]:
    """Return `[work(task) for task in tasks]`, using threads if there are several tasks, or raise
    the first error.
    """
    if threads <= 1 or len(tasks) <= 1:
        return [work(task) for task in tasks]
    return list(_pool(threads, os.getpid()).map(work, tasks))


def query_blocks(ptr: Int64Array, documents: int) -> list[tuple[int, int]]:
    """Return ranges of queries with about `documents` documents each."""
    marks = np.arange(documents, int(ptr[-1]), documents)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(ptr, marks), [ptr.size - 1]]))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]
