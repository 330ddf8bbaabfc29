"""A copy of the package and its tests, and processes that run tests there uncompiled: lines noted,
or with a mutant.

Numba's compiler is off (NUMBA_DISABLE_JIT=1), so kernels are plain Python: what they execute can be
seen, and a change of theirs takes no compilation. Every process is a fork of this one, which has
imported what the package is built on, and neither the package nor its tests.
"""

from __future__ import annotations

import compileall
import contextlib
import dataclasses
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy
import pytest

ROOT = Path(__file__).parents[2]
MEMORY = 4 << 30
EXAMPLES = 30
"""Of tests by hypothesis; uncompiled, hundreds take minutes, and nobody reads the smallest example
that fails.
"""
_IMPORTED = (
    "numpy",
    "numba",
    "scipy.sparse",
    "scipy.special",
    "scipy.stats",
    "lightgbm",
    "xgboost",
    "sklearn.base",
    "pandas",
    "polars",
    "pyarrow.parquet",
    "narwhals",
    "click",
    "rich.console",
    "coverage",
)


@dataclasses.dataclass(frozen=True)
class Trace:
    """What the tests of one file do.

    Attributes:
        seconds: of processor time, traced, by test; those that fail uncompiled, or take too long,
            are not there.
        setup: seconds that all their fixtures take.
        lines: numbers of the executed lines, by file of the package, then by test, also of those
            left out.
        left_out: tests that fail uncompiled, are skipped, or take too long, and which.
    """

    seconds: dict[str, float]
    setup: float
    lines: dict[str, dict[str, list[int]]]
    left_out: dict[str, str]


def _shorten(items: list[Any]) -> None:
    for item in items:
        test = getattr(item, "obj", None)
        if (usual := getattr(test, "_hypothesis_internal_use_settings", None)) is not None:
            phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
            fewer = hypothesis.settings(
                usual, max_examples=min(usual.max_examples, EXAMPLES), phases=phases
            )
            test._hypothesis_internal_use_settings = fewer


class TooLong(BaseException):
    """A test has used up its time; no `except Exception` of what is tested catches it."""


class _Noting:
    """A plugin of pytest: time and lines of each test that passes in `limit` seconds."""

    def __init__(self, package: Path, limit: float) -> None:
        import coverage

        self.package, self.limit = package, limit
        self.tracer = str(Path(coverage.__file__).parent)
        self.coverage = coverage.Coverage(data_file=None, source=[str(package)], config_file=False)
        self.seconds: dict[str, float] = {}
        self.setup = 0.0
        self.left_out: dict[str, str] = {}

    def __enter__(self) -> _Noting:
        self.coverage.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.coverage.stop()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        _shorten(items)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        started = time.process_time()
        yield
        self.seconds[item.nodeid] = time.process_time() - started
        self.coverage.switch_context("")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        started = time.process_time()
        yield from self._limit()
        self.setup += time.process_time() - started

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        yield from self._limit()

    def _limit(self) -> Iterator[None]:
        """Fixtures and the test have the time each; anywhere else pytest itself would end of the
        signal.
        """
        signal.signal(signal.SIGPROF, self._stop)
        signal.setitimer(signal.ITIMER_PROF, self.limit)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _stop(self, _: int, frame: types.FrameType | None) -> None:
        # What is raised between the two calls by which coverage locks its data leaves them locked,
        # and all waits.
        if frame is not None and frame.f_code.co_filename.startswith(self.tracer):
            signal.setitimer(signal.ITIMER_PROF, 0.001)
            return
        raise TooLong

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome == "failed":
            self.left_out[report.nodeid] = (
                "too long" if "TooLong" in str(report.longrepr) else "fails uncompiled"
            )
        elif report.outcome == "skipped":
            self.left_out[report.nodeid] = "skipped"

    def trace(self) -> Trace:
        data = self.coverage.get_data()
        lines: dict[str, dict[str, list[int]]] = {}
        for file in data.measured_files():
            by_test: dict[str, list[int]] = {}
            for line, contexts in data.contexts_by_lineno(file).items():
                for test in contexts:
                    if test:
                        by_test.setdefault(test, []).append(line)
            if by_test:
                lines[str(Path(file).relative_to(self.package))] = by_test
        seconds = {test: taken for test, taken in self.seconds.items() if test not in self.left_out}
        return Trace(seconds, self.setup, lines, self.left_out)


class _Killing:
    """A plugin of pytest: runs the wanted tests, the quickest first, each for so many seconds of
    processor time.

    Whatever takes longer dies of SIGPROF, as nothing but this process is in the way of it.
    """

    def __init__(self, limits: dict[str, float], expected_tests: set[str], file: Path) -> None:
        self.limits, self.expected_tests, self.file = limits, expected_tests, file
        self.of_function = {
            test.partition("[")[0]: limit
            for test, limit in sorted(limits.items(), key=lambda t: t[1])
        }

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((item for item in items if self._limit(item)), key=self._limit)
        _shorten(items)

    def _limit(self, item: Any) -> float:
        """Names of tests have parameters in them, which a mutant may change: a new name is for one
        of its function.
        """
        if item.nodeid in self.expected_tests:
            return self.limits.get(item.nodeid, 0.0)
        return self.of_function.get(item.nodeid.partition("[")[0], 0.0)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.file.write_text(item.nodeid)
        signal.setitimer(signal.ITIMER_PROF, self._limit(item))
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)


class Sandbox:
    """The copy, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.package = folder, folder / "boostrank"
        ignored = shutil.ignore_patterns("__pycache__", "out", ".hypothesis")
        for name in ("boostrank", "tests", "experiments", "docs"):
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        for path in ROOT.glob("*.*"):
            if path.is_file():
                shutil.copy2(path, folder)
        os.environ.update(
            NUMBA_DISABLE_JIT="1",
            OMP_NUM_THREADS="1",
            OMP_WAIT_POLICY="passive",
            PYTHONPATH=str(folder),
        )
        # Real data are too large for plain Python.
        os.environ["BOOSTRANK_DATA"] = str(folder / "none")
        for name in _IMPORTED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        gc.freeze()
        compileall.compile_dir(folder, quiet=2)

    def trace(self, test_file: str, limit: float) -> Trace:
        """Run the tests of a file as they are."""
        written = self.folder / "trace.json"
        written.unlink(missing_ok=True)

        def work() -> None:
            with _Noting(self.package, limit) as noting:
                _pytest([test_file], [noting])
            trace = noting.trace()
            written.write_text(json.dumps(dataclasses.astuple(trace)))

        self._forked(work, 600)
        if not written.exists():
            return Trace({}, 0.0, {}, {test_file: "ends the process"})
        return Trace(*json.loads(written.read_text()))

    def try_mutant(
        self,
        file: str,
        source: bytes,
        limits: dict[str, float],
        expected_tests: set[str],
        patience: float,
    ) -> tuple[str, str]:
        """(killed, timeout or survived, the test that was running) with another source of a file.

        Args:
            file: relative to the package.
            source: what stands in it.
            limits: seconds of processor time by test.
            expected_tests: all tests there are without the change.
            patience: seconds on the clock for all of them, for what waits and computes nothing.
        """
        path, running = self.package / file, self.folder / "running"
        before, times = path.read_bytes(), path.stat()
        running.write_text("")
        try:
            path.write_bytes(source)
            # Compiled code of the same second would be taken.
            os.utime(path, (times.st_atime, times.st_mtime + 10))
            files = sorted({test.partition("::")[0] for test in limits})
            status = self._forked(
                lambda: _pytest(files, [_Killing(limits, expected_tests, running)], "-x"), patience
            )
        finally:
            path.write_bytes(before)
            os.utime(path, (times.st_atime, times.st_mtime))
        if status == pytest.ExitCode.NO_TESTS_COLLECTED:
            raise RuntimeError(f"none of {files} has the tests it had")
        outcome = "killed" if 0 < status < 128 else "timeout"
        if status == 0:
            outcome = "survived"
        return outcome, running.read_text() or "import"

    def try_compiled(
        self, file: str, source: bytes, tests: list[str], patience: float
    ) -> tuple[str, str]:
        """The same with everything compiled anew, for tests that take too long in plain Python:
        minutes.
        """
        path = self.package / file
        before = path.read_bytes()
        environment = {
            name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"
        }
        environment["NUMBA_CACHE_DIR"] = str(self.folder / "compiled")
        try:
            path.write_bytes(source)
            command = [
                sys.executable,
                "-B",
                "-m",
                "pytest",
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                *tests,
            ]
            with open(self.folder / "log", "wb") as log:
                done = subprocess.run(
                    command,
                    cwd=self.folder,
                    env=environment,
                    stdout=log,
                    stderr=log,
                    timeout=patience,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            return "timeout", tests[0]
        finally:
            path.write_bytes(before)
            shutil.rmtree(self.folder / "compiled", ignore_errors=True)
        return "survived" if done.returncode == 0 else "killed", f"{tests[0]}, compiled"

    def _forked(self, work: Callable[[], Any], patience: float) -> int:
        """Exit status of a process that does this; 128 and the number of the signal that ended it."""
        child = os.fork()
        if child == 0:
            status = 3
            try:
                os.setsid()
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                nowhere = os.open(self.folder / "log", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
                os.chdir(self.folder)
                sys.dont_write_bytecode = True
                sys.path[:] = [str(self.folder), *(p for p in sys.path if p not in ("", str(ROOT)))]
                for name in [n for n in sys.modules if n.split(".")[0] in ("tests", "boostrank")]:
                    del sys.modules[name]
                status = int(work() or 0)
            finally:
                os._exit(status)
        end = time.monotonic() + patience
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() > end:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                break
            time.sleep(0.01)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what it has started
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _pytest(files: list[str], plugins: list[Any], *options: str) -> int:
    # Scalars of NumPy warn of overflow where compiled code wraps around in silence.
    numpy.seterr(all="ignore")
    fixed = [
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore::RuntimeWarning",
        *options,
    ]
    return int(pytest.main([*fixed, *files], plugins=plugins))
