"""A release as people get it: `make release-check`, and the workflow of a release.

    python -m qa.wheel ENVIRONMENT [xgboost-cpu ...]

Looks into the wheel and the sdist in `dist/`, installs the wheel from there, with the extra
`report` and the packages that are named, into a new environment of the Python that runs this, and
runs the first lines of README and the commands outside the repository.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

# What is not Python, and is read while the package runs.
_DATA = (
    "boostrank/py.typed",
    "boostrank/diagnosis/rules.toml",
    "boostrank/kernels/tables.npz",
    "boostrank/objectives/_template.py",
    "boostrank/reporting/templates/page.html",
    "boostrank/reporting/templates/script.js",
)

_MACHINE_PATH = re.compile(re.escape(os.fsencode(ROOT)) + rb"|/(?:home|root|Users|opt)/\w+")


def main(environment: Path, packages: list[str]) -> None:
    """Raises SystemExit where something is not as it should be."""
    (wheel,) = (ROOT / "dist").glob("boostrank-*-none-any.whl")
    (sdist,) = (ROOT / "dist").glob("boostrank-*.tar.gz")
    check_wheel(wheel)
    check_paths(wheel)
    check_paths(sdist)
    version = wheel.name.split("-")[1]
    _say(f"installing {wheel.name} into a new environment of Python {sys.version.split()[0]} ...")
    venv.create(environment, with_pip=True, clear=True)
    programs = environment.absolute() / "bin"
    pip = [programs / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    _call(*pip, "--find-links", wheel.parent, f"boostrank[report]=={version}", *packages)
    with tempfile.TemporaryDirectory() as folder:
        run_in(Path(folder), programs)
        # A wheel of this platform and Python, if there is one, was installed.
        tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
        if list(wheel.parent.glob(f"boostrank-*-{tag}-*.whl")):
            _call(programs / "boostrank", "compile", "--check", cwd=folder)
            _say("its machine code fits")
    _say("the wheel installs, and runs")


def check_wheel(wheel: Path) -> None:
    """The wheel has what is read beside Python and its licence, no other package, no relative link."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        description = archive.read(metadata).decode()
    relative = re.search(r"\]\((?!https://|#)[^)]*\)", description)
    if relative:
        raise SystemExit(f"{wheel.name}: README has the relative link {relative[0]}")
    missing = [name for name in _DATA if name not in names]
    own = ("boostrank/", f"{'-'.join(wheel.name.split('-')[:2])}.")
    strange = [name for name in names if not name.startswith(own)]
    if missing or strange or not any(name.endswith("licenses/LICENSE") for name in names):
        raise SystemExit(
            f"{wheel.name}: missing {missing}, strange {strange}, LICENSE in {names[-8:]}"
        )


def check_paths(distribution: Path) -> None:
    """No file in a wheel or sdist has a path of the machine that built it."""
    if distribution.suffix == ".whl":
        with zipfile.ZipFile(distribution) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
    else:
        with tarfile.open(distribution) as archive:
            files = [entry for entry in archive if entry.isfile()]
            contents = {entry.name: archive.extractfile(entry).read() for entry in files}
    for name, content in contents.items():
        path = _MACHINE_PATH.search(content)
        if path:
            raise SystemExit(f"{distribution.name}: {name} has the path {os.fsdecode(path[0])}")


def run_in(folder: Path, programs: Path) -> None:
    """README's first lines and the commands, with machine code that is compiled for them."""
    os.environ["NUMBA_CACHE_DIR"] = str(folder / "cache")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.search(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)[1]
    (folder / "readme.py").write_text(lines, encoding="utf-8")
    _say("the first lines of README")
    _say(_call(programs / "python", "readme.py", cwd=folder).rstrip())
    for line in (
        "--help",
        "data make data --queries 60",
        "train data/train.txt --valid data/valid.txt --quality quick --rounds 5 --model model.txt",
        "predict model.txt data/test.txt -o scores.txt",
        "report model.txt data/test.txt -o report.html",
        "objectives --template",
    ):
        _say(f"boostrank {line}")
        out = _call(programs / "boostrank", *line.split(), cwd=folder)
        if not out and line.startswith(("--help", "objectives")):
            raise SystemExit(f"boostrank {line} printed nothing")
    for name in ("model.txt", "model.txt.meta.json", "scores.txt", "report.html"):
        if not (folder / name).stat().st_size:
            raise SystemExit(f"{name} is empty")


def _call(*command: object, cwd: Path | None = None) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}")
    return done.stdout


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
