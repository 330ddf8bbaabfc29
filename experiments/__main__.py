"""Run an experiment: python -m experiments NAME [ARGUMENTS]; without a name, list them."""

from __future__ import annotations

import ast
import os
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
# Modules and arguments of experiments that are more than `run`.
PARTS = {
    "discount": [["run"], ["by_rate"]],
    "long-lists": [["run"], ["run", "--million"]],
    "bench-scale": [["run"], ["estimates"], ["tables"]],
    "demo": [["demo"]],
}
# Other names: a package and its first arguments.
ALIASES = {
    "demo": ("defaults", []),
    "smooth-dcg": ("papers", ["--only", "smooth_dcg"]),
    "mslr": ("releases", ["mslr"]),
    "yahoo": ("releases", ["yahoo"]),
    "istella": ("releases", ["istella"]),
}


def list_experiments() -> None:
    """Print the name and the first line of each experiment."""
    for file in sorted(HERE.glob("*/run.py")):
        summary = (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]
        print(f"{file.parent.name.replace('_', '-'):<15} {summary}")


def main(name: str, arguments: list[str]) -> None:
    """Run all parts of an experiment, with the same further arguments."""
    package, first = ALIASES.get(name, (name, []))
    folder = package.replace("-", "_")
    if not (HERE / folder / "run.py").is_file():
        sys.exit(f"no experiment is called {name!r}: python -m experiments lists them")
    # Threads that wait for other processes must not spin. Small matrix products need one core.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if package == "papers":
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for module, *own in PARTS.get(name, [["run"]]):
        path = f"experiments.{folder}.{module}"
        sys.argv = [path, *first, *own, *arguments]
        runpy.run_module(path, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        list_experiments()
    else:
        main(sys.argv[1], sys.argv[2:])
