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


def target_lines() -> list[tuple[str, str]]:
    """Return each target's name and description from its docstring, because importing the targets
    takes a second.
    """
    folders = importlib.import_module("boostrank.export.targets").__path__
    lines: list[tuple[str, str]] = []
    for path in sorted(path for folder in folders for path in Path(folder).glob("[a-z]*.py")):
        docstring = path.read_text(encoding="utf-8").partition("\n\n")[0].strip('"')
        lines += re.findall(r"^([a-z0-9.-]+): (.+?)\"*$", docstring, re.MULTILINE)
    return lines
