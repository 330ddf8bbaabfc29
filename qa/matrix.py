"""The tests on other interpreters and versions, each in an environment of its own.

    python -m qa.matrix [--uv UV] [--tests="tests/core -k ranks"] [--short] VERSION ...

A version is 3.12, say, with the newest packages; or `oldest`, Python 3.11 with the oldest packages
that pyproject.toml allows; or `clusters`, the Python that runs this with Spark, which needs Java
(openjdk-17-jre-headless), and Ray. Environments are `.venv-VERSION`, installed anew after changes
of pyproject.toml. `--short` leaves out the Python that runs this and versions that are not
installed, and runs few tests. `--path VERSION` prints the interpreter instead.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OLDEST = "3.11"
ENGINES = "xgboost" if sys.platform == "darwin" else "xgboost-cpu"
"""The extra for XGBoost. Its usual Linux wheel carries GPU libraries of hundreds of megabytes."""
SHORT = (
    "tests/core tests/model/test_xgboost.py"
    " tests/model/test_model_files.py tests/fit/test_model.py tests/engines/test_private.py"
    " tests/kernels/test_private.py tests/cli/test_startup.py"
    " -k 'not allocate or lambdarank or reg-shf-sdcg' --assert=plain"
)
"""What versions differ in, without the kernels that take minutes to compile. Assertions stay as they
are written: to rewrite them takes longer than most of these tests."""


def main(words: Sequence[str] | None = None) -> int:
    """Test the versions in turn, and return the first exit status that is not 0."""
    parser = argparse.ArgumentParser(
        prog="python -m qa.matrix", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="3.12, oldest or clusters")
    parser.add_argument("--uv", default="uv", help="the program uv")
    parser.add_argument("--tests", default="", help="arguments of pytest")
    parser.add_argument("--short", action="store_true", help="few tests of what is installed")
    parser.add_argument("--path", action="store_true", help="print the interpreter of a version")
    options = parser.parse_args(words)
    versions = options.versions
    if options.path:
        print("\n".join(find_interpreter(version) or f"python{version}" for version in versions))  # noqa: T201
        return 0
    if options.short:
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        versions = [version for version in versions if version != own and find_interpreter(version)]
    for version in versions:
        print(f"Python {version}:", flush=True)  # noqa: T201
        tests = SHORT if options.short else options.tests
        status = run_tests(version, options.uv, shlex.split(tests))
        if status:
            return status
    return 0


def find_interpreter(version: str) -> str | None:
    """Return the path of an interpreter, also where pyenv has it and does not show it, or None."""
    program = shutil.which(f"python{version}")
    code = "import sys; print(sys.executable)"
    if program is not None:
        shown = subprocess.run([program, "-c", code], capture_output=True, text=True)
        if shown.returncode == 0:
            return shown.stdout.strip()
    hidden = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    return str(hidden[-1]) if hidden else None


def run_tests(version: str, uv: str, arguments: Sequence[str]) -> int:
    """Test a version in its environment, which is made first, and return pytest's exit status."""
    folder, is_oldest = ROOT / f".venv-{version}", version == "oldest"
    if version == "clusters":
        interpreter, extras = sys.executable, f"{ENGINES},test,clusters"
        arguments = arguments or ["tests/cluster"]
    else:
        interpreter, extras = find_interpreter(OLDEST if is_oldest else version), f"{ENGINES},test"
    if interpreter is None:
        sys.exit(f"Python {version} is not installed")
    python, stamp, asked = folder / "bin" / "python", folder / ".installed", ROOT / "pyproject.toml"
    if not stamp.exists() or stamp.stat().st_mtime < asked.stat().st_mtime:
        packages = ["--editable", f"{ROOT}[{extras}]"]
        make_environment(folder, uv, interpreter, packages, oldest=is_oldest)
        stamp.touch()
    cache = {"NUMBA_CACHE_DIR": str(folder / "cache")} if is_oldest else {}
    command = [python, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | cache).returncode


def make_environment(
    folder: Path, uv: str, interpreter: str, packages: Sequence[str], *, oldest: bool = False
) -> None:
    """Make a virtual environment with packages, the oldest that are allowed where asked."""
    call(uv, "venv", "--quiet", "--clear", "--python", interpreter, str(folder))
    resolution = ["--resolution", "lowest-direct"] if oldest else []
    python = str(folder / "bin" / "python")
    call(uv, "pip", "install", "--quiet", "--python", python, *resolution, *packages)


def call(*words: str, **options: Any) -> str:
    """Return the standard output of a program, or exit with its messages where it fails."""
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, **options)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stderr[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
