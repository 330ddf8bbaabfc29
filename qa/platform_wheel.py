"""Build the wheel of this platform, which carries machine code, into dist.

    python -m qa.platform_wheel [FOLDER]

The code runs on every processor with the features of its target, with this version of Python and
of Numba. Elsewhere boostrank compiles, as the wheel without machine code does.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from boostrank.kernels.private import host_triple
from qa.wheel import check_paths, check_wheel

ROOT = Path(__file__).parents[1]
V3 = (
    "avx avx2 bmi bmi2 cmov cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt sahf sse sse2 sse3 sse4.1"
    " sse4.2 ssse3 xsave"
)
TARGETS = {
    "x86_64": {"cpu": "x86-64-v3", "needs": V3.split()},
    "aarch64": {"cpu": "generic", "needs": []},
    "arm64": {"cpu": "apple-m1", "needs": []},
}
"""What `platform.machine()` returns -> LLVM's processor, and the features that it implies."""


def compile_into(folder: Path, cache: Path) -> None:
    """Compile the functions of the package in `folder`, and put the machine code there.

    Args:
        folder: the sources.
        cache: an empty folder.
    """
    target = {"triple": host_triple(), "features": "", **TARGETS[platform.machine()]}
    environment = {
        "NUMBA_CACHE_DIR": str(cache),
        "NUMBA_CPU_NAME": str(target["cpu"]),
        "NUMBA_CPU_FEATURES": "",
        "PYTHONPATH": str(folder),
    }
    command = [sys.executable, "-m", "boostrank", "compile", "--objective", "all"]
    subprocess.run(command, env=os.environ | environment, cwd=folder, check=True)
    (compiled,) = cache.iterdir()
    shipped = folder / "boostrank" / "machine_code" / compiled.name
    shutil.copytree(compiled, shipped)
    # Exceptions name their file. A relative path of the same length keeps the code valid.
    roots = [f"{folder}/".encode(), f"{sysconfig.get_path('purelib')}/".encode()]
    for file in shipped.rglob("*.nbc"):
        code = file.read_bytes()
        for root in roots:
            code = code.replace(root, b"." + b"/" * (len(root) - 1))
        file.write_bytes(code)
    (shipped / "target.json").write_text(json.dumps(target))


def main(out: Path = ROOT / "dist") -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder, cache = Path(scratch, "sources"), Path(scratch, "cache")
        cache.mkdir()
        shutil.copytree(ROOT / "boostrank", folder / "boostrank")
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, folder)
        compile_into(folder, cache)

        # The tags say for which Python and which machines the code is.
        system = {"Linux": "manylinux2014", "Darwin": "macosx_11_0"}[platform.system()]
        tags = [
            f"--python-tag=cp{sys.version_info.major}{sys.version_info.minor}",
            f"--plat-name={system}_{platform.machine()}",
        ]
        settings = [f"--config-settings=--build-option={tag}" for tag in tags]
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
        subprocess.run([*pip, str(out), *settings, str(folder)], check=True)
    for wheel in out.glob(f"boostrank-*-{tags[0].rpartition('=')[2]}-*.whl"):
        check_wheel(wheel)
        check_paths(wheel)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
