"""Lines and branches of the package that the tests execute, by package.

    python -m qa.coverage [FOLDER ...] [--out coverage.md]

Every folder of tests runs under coverage.py, with the processes that it starts. What Numba compiles
is not seen there, so tests of the compiled modules run once more as plain Python, each for at most
a few seconds of processor time; whether they pass there is of no account. What is done is not run
again until `.coverage-data` is removed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DATA = ROOT / ".coverage-data"
UNCOMPILED = ("kernels", "objectives", "metrics", "data", "checking", "clicks")
LIMIT = 6.0
"""Seconds of processor time that a test may take as plain Python."""
AGAIN = 0.01
"""Seconds until a test that could not be stopped is stopped."""
COLLECTOR = os.path.join("coverage", "collector.py")


class TooLong(BaseException):
    """A test has used up its time; no `except Exception` of what is tested catches it."""


def stop(_: int, frame: FrameType | None) -> None:
    """Handle SIGPROF; not while coverage.py holds its lock, which would stay locked for ever."""
    while frame is not None and frame.f_code.co_filename.endswith("threading.py"):
        frame = frame.f_back
    if frame is not None and frame.f_code.co_filename.endswith(COLLECTOR):
        signal.setitimer(signal.ITIMER_PROF, AGAIN)
        return
    raise TooLong


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Where this module is a plugin of pytest."""
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


def run(folder: str, compiled: bool) -> int:
    """Run a folder of tests, unless its data are there; the exit status of pytest."""
    data = DATA / f"{folder.replace('/', '.')}-{'compiled' if compiled else 'uncompiled'}"
    if data.exists():
        return 0
    options = [] if compiled else ["-p", "qa.coverage", "-W", "ignore::RuntimeWarning", "--tb=no"]
    command = [
        sys.executable,
        "-m",
        "coverage",
        "run",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *options,
    ]
    environment = (
        os.environ
        | {"COVERAGE_FILE": str(data) + ".part"}
        | ({} if compiled else {"NUMBA_DISABLE_JIT": "1"})
    )
    status = subprocess.run(
        [*command, f"tests/{folder}"], cwd=ROOT, env=environment, check=False
    ).returncode
    parts: list[str] | None = None
    while parts != (now := sorted(map(str, DATA.glob(f"{data.name}.part*")))):
        parts = now  # processes that tests started may still rename theirs
        time.sleep(2.0)
    combine = [sys.executable, "-m", "coverage", "combine", "-q", f"--data-file={data}", *parts]
    subprocess.run(combine, cwd=ROOT, check=True)
    return status


def table() -> str:
    """A line a package: lines and branches, executed and in all."""
    whole = DATA / "whole"
    runs = [str(path) for path in DATA.glob("*compiled")]
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.run(
        [*coverage, "combine", "-q", "--keep", f"--data-file={whole}", *runs], cwd=ROOT, check=True
    )
    out = DATA / "report.json"
    subprocess.run(
        [*coverage, "json", "-q", f"--data-file={whole}", "-o", str(out)], cwd=ROOT, check=True
    )
    files: dict[str, Any] = json.loads(out.read_text())["files"]
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    missing = []
    for name, file_coverage in sorted(files.items()):
        part, summary = name.split("/")[1], file_coverage["summary"]
        counts = [
            summary[k]
            for k in ("covered_lines", "num_statements", "covered_branches", "num_branches")
        ]
        for package in (part, "all"):
            sums[package] = [a + b for a, b in zip(sums[package], counts, strict=True)]
        if file_coverage["missing_lines"] or file_coverage["missing_branches"]:
            arcs = ", ".join(
                f"{a} to {b}"
                for a, b in file_coverage["missing_branches"]
                if b not in file_coverage["missing_lines"]
            )
            lines = ", ".join(map(str, file_coverage["missing_lines"]))
            missing.append(f"- `{name}`: {lines}{'; branches ' + arcs if arcs else ''}")
    rows = [
        f"| {p} | {a:,} of {b:,} | {share(a, b)} | {c:,} of {d:,} | {share(c, d)} |"
        for p, (a, b, c, d) in sums.items()
    ]
    head = ["# Coverage", "", "| package | lines | | branches | |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows, "", "## Not executed", "", *missing, ""])


def share(part: int, whole: int) -> str:
    """A percentage."""
    return f"{part / whole:.1%}" if whole else "-"


def main() -> int:
    """Run, write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m qa.coverage", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "folders", nargs="*", metavar="FOLDER", help="of tests; all of them unless named"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "coverage.md", help="where the page goes"
    )
    arguments = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    tests = ROOT / "tests"
    folders = [
        str(p.relative_to(tests))
        for p in sorted([*tests.glob("*/"), *tests.glob("test_*.py")])
        if any(p.rglob("test_*.py")) or p.is_file()
    ]
    failed = [folder for folder in arguments.folders or folders if run(folder, compiled=True)]
    for folder in UNCOMPILED:
        if not arguments.folders or folder in arguments.folders:
            run(folder, compiled=False)
    arguments.out.write_text(table(), encoding="utf-8")
    sys.stdout.write(
        f"{arguments.out}\n" + "".join(f"tests fail in {folder}\n" for folder in failed)
    )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
