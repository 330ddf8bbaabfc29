"""Export of models to the formats that serving programs read, with one file per family of
targets.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from boostrank.core.params import Registry

if TYPE_CHECKING:
    from boostrank.export.target import TargetSpec

TARGETS: Registry[TargetSpec] = Registry("boostrank.export.targets", "target")

_LINE = re.compile(r"([a-z0-9.-]+): (.+)")


def target_lines() -> list[tuple[str, str]]:
    """Return each target's name and description from its docstring, because importing the targets
    takes a second.
    """
    package = importlib.import_module("boostrank.export.targets")
    descriptions = []
    for module in TARGETS.modules():
        path = next(
            path for folder in package.__path__ if (path := Path(folder, f"{module}.py")).exists()
        )
        first_lines = path.read_text(encoding="utf-8").partition("\n\n")[0]
        lines = (_LINE.fullmatch(line.strip('"')) for line in first_lines.splitlines())
        descriptions += [(line[1], line[2]) for line in lines if line is not None]
    return descriptions
