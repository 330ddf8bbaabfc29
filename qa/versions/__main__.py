"""Environments of several versions, of which each reads what each has saved; and the table of what
came of it.

    python -m qa.versions [--uv UV] [--folder FOLDER] [--out FILE]

An environment is made once (a minute) and kept in the folder, as are its models. Each model is read
by boostrank, by boostrank without the sidecar, and by the engine alone. It gives the same bits, or
scores that differ by rounding; or it is refused in words, or misread by the engine alone. Exit
status 1: boostrank gives other scores, or an error that is no refusal.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qa.matrix import call, find_interpreter, make_environment

ROOT = Path(__file__).parents[2]
ROUNDING = 1e-6
"""Of the largest score: what programs that add in float32 or in another order may differ by."""
_VERSION = re.compile(r"\b\d+\.\d+\.\d+\b")


@dataclass(frozen=True)
class Environment:
    """One combination of versions.

    Args:
        name: of its folder.
        python: of the interpreter, as 3.11.
        pins: what `pip` is asked for beside boostrank.
        oldest: whether all else is as old as pyproject.toml allows.
        bare: the engines without boostrank, which makes models and reads none: what people have
            from before.
    """

    name: str
    python: str
    pins: tuple[str, ...] = ()
    oldest: bool = False
    bare: bool = False


_BEFORE = ("numpy==1.26.*", "scipy==1.12.*", "pandas==1.5.*")
ENVIRONMENTS = (
    Environment(
        "engines-3.3-1.7", "3.11", ("lightgbm==3.3.5", "xgboost==1.7.*", *_BEFORE), bare=True
    ),
    Environment(
        "engines-4.1-2.1", "3.11", ("lightgbm==4.1.0", "xgboost-cpu==2.1.*", *_BEFORE), bare=True
    ),
    Environment("oldest", "3.11", oldest=True),
    Environment(
        "middle", "3.11", ("lightgbm==4.6.*", "xgboost-cpu==3.2.*", "numpy==2.1.*", "numba==0.61.*")
    ),
    Environment(
        "later", "3.12", ("lightgbm==4.6.*", "xgboost-cpu==3.3.*", "numpy==2.3.*", "numba==0.63.*")
    ),
    Environment("newest", "3.13"),
)
PACKAGES = ("lightgbm", "xgboost", "numpy", "numba", "pandas")


def prepare(environment: Environment, folder: Path, uv: str) -> Path:
    """The interpreter of the environment, which is made where it is not there."""
    home, stamp = folder / environment.name, repr(environment)
    python, done = home / "bin" / "python", home / ".made-for"
    if not done.is_file() or done.read_text() != stamp:
        ours = [] if environment.bare else ["--editable", f"{ROOT}[xgboost-cpu]", "pandas>=2"]
        interpreter = find_interpreter(environment.python) or environment.python
        packages = [*ours, *environment.pins]
        make_environment(home, uv, interpreter, packages, oldest=environment.oldest)
        done.write_text(stamp)
    return python


def versions(python: Path) -> list[str]:
    """Of Python and the packages; of one that is not there, nothing."""
    code = (
        "import platform; print(platform.python_version())\n"
        f"for name in {PACKAGES}:\n"
        "    try: print(__import__(name).__version__)\n"
        "    except ImportError: print()"
    )
    return call(str(python), "-c", code).splitlines()


def compared(
    own_scores: dict[str, list[float]], read: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, str, str, str]]:
    """(model, way of reading it, what came of it, in words what else there is to say).

    Args:
        own: model -> the maker's scores.
        read: model -> way -> the reader's scores, or its words.
    """
    for model, ways in read.items():
        scores = np.array(own_scores[model])
        for way, outcome in ways.items():
            if isinstance(outcome, dict):
                ((kind, words),) = outcome.items()
                yield model, way, kind, _VERSION.sub("X", words)
                continue
            apart = float(np.abs(np.array(outcome) - scores).max() / np.abs(scores).max())
            kind = "rounded" if apart <= ROUNDING else "other"
            if apart == 0.0:
                kind = "same"
            size = math.ceil(math.log10(apart)) if apart else 0
            yield model, way, kind, f"by at most 1e{size} of the largest" if apart else ""


def table(
    results: dict[str, dict[str, dict[str, Any]]], scores: dict[str, dict[str, list[float]]]
) -> tuple[str, bool]:
    """The table as Markdown, with the exceptions below it; and whether all is well.

    Args:
        results: reader -> maker -> model -> way -> scores or words.
        scores: maker -> model -> its own scores.
    """
    lines = [f"| made by \\ read by | {' | '.join(results)} |", "|---" * (len(results) + 1) + "|"]
    exceptions: dict[tuple[str, str, str], dict[tuple[str, str], set[str]]] = defaultdict(
        lambda: defaultdict(set)
    )
    well = True
    for maker, own_scores in scores.items():
        cells = []
        for reader, read in results.items():
            count: Counter[str] = Counter()
            for model, way, kind, words in compared(own_scores, read[maker]):
                if way == "engine alone" and kind in ("other", "failed"):
                    kind = "misread"
                count[kind] += 1
                well &= kind not in ("other", "failed")
                if kind != "same":
                    exceptions[kind, way, words][maker, reader].add(model)
            cells.append(", ".join(f"{number} {kind}" for kind, number in count.most_common()))
        lines.append(f"| {maker} | {' | '.join(cells)} |")
    lines.append("")
    for (kind, way, words), pairs in sorted(exceptions.items()):
        models = sorted(set().union(*pairs.values()))
        remark = f": {words}" if words else ""
        lines.append(
            f"* {kind} ({way}): {', '.join(f'`{model}`' for model in models)};"
            f" {_places(pairs, results)}{remark}"
        )
    return "\n".join(lines) + "\n", well


def _places(pairs: Iterable[tuple[str, str]], readers: Iterable[str]) -> str:
    """`later by oldest, middle; newest by all`."""
    of_maker: dict[str, list[str]] = defaultdict(list)
    for maker, reader in pairs:
        of_maker[maker].append(reader)
    makers: dict[str, list[str]] = defaultdict(list)
    for maker, readers_of_maker in of_maker.items():
        makers[
            "all" if len(readers_of_maker) == len(list(readers)) else ", ".join(readers_of_maker)
        ].append(maker)
    return "; ".join(
        f"made by {', '.join(makers_of_readers)}, read by {by}"
        for by, makers_of_readers in makers.items()
    )


def main(words: list[str] | None = None) -> int:
    """Make what is missing, read everything, print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m qa.versions", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--uv", default="uv")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-versions")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(words)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    folder = arguments.folder.resolve()
    package_versions, scores, readers = {}, {}, {}
    quiet = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "passive"}
    for environment in ENVIRONMENTS:
        python = prepare(environment, folder, arguments.uv)
        package_versions[environment.name] = versions(python)
        print(  # noqa: T201
            f"{environment.name}: {' '.join(package_versions[environment.name])}",
            file=sys.stderr,
            flush=True,
        )
        models_folder = folder / "models" / environment.name
        shutil.rmtree(models_folder, ignore_errors=True)
        models_folder.mkdir(parents=True)
        mode = "bare" if environment.bare else "make"
        call(
            str(python),
            "-m",
            "qa.versions.models",
            mode,
            str(models_folder),
            env=quiet,
        )
        scores[environment.name] = json.loads((models_folder / "scores.json").read_text())
        if not environment.bare:
            readers[environment.name] = python
    results = {}
    for name, python in readers.items():
        result = folder / f"{name}.json"
        folders = [str(folder / "models" / maker) for maker in scores]
        call(str(python), "-m", "qa.versions.models", "read", str(result), *folders, env=quiet)
        results[name] = json.loads(result.read_text())
    heads = (
        "| | Python | LightGBM | XGBoost | NumPy | Numba | pandas |\n"
        + "|---" * (len(PACKAGES) + 2)
        + "|\n"
    )
    rows = "".join(
        f"| {name} | {' | '.join(numbers)} |\n" for name, numbers in package_versions.items()
    )
    text, well = table(results, scores)
    page = f"{heads}{rows}\n{text}"
    print(page)  # noqa: T201
    if arguments.out is not None:
        arguments.out.write_text(page)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
