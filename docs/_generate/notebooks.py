"""Notebooks of the guide as pages; and their outputs, made again: `python
docs/_generate/notebooks.py`.

A notebook is run here without Jupyter: its cells are plain Python, and what they print is their
output.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).parents[1] / "guide"


def pages() -> dict[str, str | bytes]:
    """Every notebook of the guide as `guide/NAME.md`."""
    made: dict[str, str | bytes] = {}
    for path in sorted(GUIDE.glob("*.ipynb")):
        made[f"guide/{path.stem}.md"] = as_markdown(path, f"[This page as a notebook]({path.name})")
    return made


def as_markdown(path: Path, note: str = "") -> str:
    """The text of a notebook, its code in fences, and below it what it printed.

    Args:
        path: of the notebook.
        note: stands below its title.
    """
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            printed = "".join(line for output in cell["outputs"] for line in output["text"])
            parts += [f"```python\n{text}\n```"] + ([f"```text\n{printed}```"] if printed else [])
        else:
            parts.append(text)
    if note:
        title, _, rest = parts[0].partition("\n")
        parts[0] = f"{title}\n\n{note}\n{rest}"
    return "\n\n".join(parts) + "\n"


def with_outputs(notebook: dict[str, Any]) -> dict[str, Any]:
    """The same notebook, its cells run in order in the current folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("".join(cell["source"]), cell["id"], "exec"), namespace)
            lines = printed.getvalue().splitlines(keepends=True)
            stream = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
            number = 1 + sum(one["cell_type"] == "code" for one in cells)
            cell = cell | {"execution_count": number, "outputs": stream}
        cells.append(cell)
    return notebook | {"cells": cells}


def main() -> None:
    """Run the notebooks named on the command line, or all; what they write goes to a folder that is
    left behind.
    """
    for path in [Path(name).resolve() for name in sys.argv[1:]] or sorted(GUIDE.glob("*.ipynb")):
        os.chdir(tempfile.mkdtemp(prefix="boostrank-notebook-"))
        made = with_outputs(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
