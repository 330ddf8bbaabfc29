"""Files that a report reads beside its data: groups of features, and what noise does to metrics."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path

from boostrank.core.errors import FileFormatError, InputError
from boostrank.core.files import read_text
from boostrank.records import NoiseRecord, load_record
from boostrank.report.html import is_page


def read_groups(path: str, names: Sequence[str]) -> dict[str, list[str]]:
    """The groups in a file: `name: feature, pattern*, ...` a line; `#` begins a comment.

    Raises:
        InputError: no such line; a pattern that no feature matches; a name that comes twice.
    """
    groups: dict[str, list[str]] = {}
    for number, text in enumerate(read_text(path).split("\n"), 1):
        line = text.partition("#")[0].strip()
        if not line:
            continue
        name, colon, patterns = line.partition(":")
        words = patterns.replace(",", " ").split()
        if not (colon and name.strip() and words):
            raise FileFormatError("expected `name: feature, feature, ...`", file=path, line=number)
        if name.strip() in groups:
            raise FileFormatError(f"group {name.strip()!r} comes twice", file=path, line=number)
        members: list[str] = []
        for word in words:
            # A name may hold brackets, which are a pattern's: as a name it counts first.
            found = [word] if word in names else fnmatch.filter(names, word)
            if not found:
                raise FileFormatError(f"the model has no feature {word!r}", file=path, line=number)
            members += found
        groups[name.strip()] = list(dict.fromkeys(members))
    return groups


def read_matters(path: str) -> dict[str, float]:
    """Metric -> the difference of two trainings that is more than luck, from `boostrank study noise --json`.

    Raises:
        FileFormatError: it is not what `boostrank study noise --json` prints.
    """
    found = load_record(NoiseRecord, read_text(path), path)
    return {name: one.matters for name, one in found.metrics.items()}


def page_beside(model: str) -> str:
    """`model-report.html` beside `model.txt`; a page of before is replaced.

    Raises:
        InputError: what stands there was not written by this command.
    """
    path = Path(model).with_name(f"{Path(model).stem}-report.html")
    if path.exists() and not is_page(path):
        raise InputError(f"{path}: is there, and no report of boostrank: name another file by -o")
    return str(path)
