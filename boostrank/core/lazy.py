"""Public names that are imported on first use."""

from __future__ import annotations

import ast
from pathlib import Path


def modules_of_names(file: str) -> dict[str, str]:
    """Return the module of each name that a package exports, from the imports in its stub,
    `__init__.pyi`.

    Args:
        file: `__file__` of the package.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {
        alias.asname: str(node.module) for node in imports for alias in node.names if alias.asname
    }
