"""The wheel in an environment of its own: what `pip install` of it gives can be run. `make
wheel-test`.

    python -m qa.wheel [xgboost-cpu]

Builds the wheel, looks into it, installs it with the extra `report` and what is named, and runs
`--help`, `data make`, `train`, `predict`, `report` and `objectives --template` outside the
repository.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

# What is not Python, and is read while the package runs.
_DATA = (
    "boostrank/py.typed",
    "boostrank/objectives/_template.py",
    "boostrank/reporting/templates/page.html",
    "boostrank/reporting/templates/script.js",
)


def main(extras: list[str]) -> None:
    """Raises CalledProcessError or SystemExit where something is not as it should be."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # A copy: what an earlier build left in `build/` would come along.
        source = folder / "source"
        shutil.copytree(
            ROOT / "boostrank", source / "boostrank", ignore=shutil.ignore_patterns("__pycache__")
        )
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / file, source)
        _call(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source)
        (wheel,) = folder.glob("boostrank-*.whl")
        _look_into(wheel)
        venv.create(folder / "env", with_pip=True)
        python = folder / "env" / "bin" / "python"
        _say(f"installing {wheel.name} ...")
        _call(
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            f"{wheel}[report]",
            *extras,
        )
        _run(folder)
    _say("the wheel installs, and runs")


def _look_into(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    missing = [name for name in _DATA if name not in names]
    strange = [
        name
        for name in names
        if not name.startswith(("boostrank/", f"{'-'.join(wheel.name.split('-')[:2])}."))
    ]
    if missing or strange or not any(name.endswith("licenses/LICENSE") for name in names):
        raise SystemExit(
            f"{wheel.name}: missing {missing}, strange {strange}, LICENSE in {names[-8:]}"
        )


def _run(folder: Path) -> None:
    boostrank = folder / "env" / "bin" / "boostrank"
    for line in (
        "--help",
        "data make data --queries 60",
        "train data/train.txt --valid data/valid.txt --quality quick --rounds 5 --model model.txt",
        "predict model.txt data/test.txt -o scores.txt",
        "report model.txt data/test.txt -o report.html",
        "objectives --template",
    ):
        _say(f"boostrank {line}")
        out = _call(boostrank, *line.split(), cwd=folder)
        if not out and line.startswith(("--help", "objectives")):
            raise SystemExit(f"boostrank {line} printed nothing")
    for name in ("model.txt", "model.txt.meta.json", "scores.txt", "report.html"):
        if not (folder / name).stat().st_size:
            raise SystemExit(f"{name} is empty")


def _call(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
