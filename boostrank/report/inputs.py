"""Side files of a report: feature groups and the noise of metrics."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path

from boostrank.core.errors import FileFormatError, InputError
from boostrank.core.files import read_text
from boostrank.records import NoiseRecord, load_record
from boostrank.report.html import is_page


def read_groups(path: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Read feature groups, one `name: feature, pattern*, ...` per line; `#` begins a comment."""
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
            raise FileFormatError(f"group {name.strip()!r} is defined twice", file=path, line=number)
        members: list[str] = []
        for word in words:
            # Names may contain brackets, which are special in patterns: exact names take precedence.
            found = [word] if word in names else fnmatch.filter(names, word)
            if not found:
                raise FileFormatError(f"the model has no feature {word!r}", file=path, line=number)
            members += found
        groups[name.strip()] = list(dict.fromkeys(members))
    return groups


def read_matters(path: str) -> dict[str, float]:
    """Read metric -> noise threshold from the output of `boostrank study noise --json`."""
    found = load_record(NoiseRecord, read_text(path), path)
    return {name: one.matters for name, one in found.metrics.items()}


def page_beside(model: str) -> str:
    """Return `model-report.html` next to `model.txt`; an earlier report may be replaced."""
    path = Path(model).with_name(f"{Path(model).stem}-report.html")
    if path.exists() and not is_page(path):
        raise InputError(f"{path}: exists and is not a boostrank report; choose another file with -o")
    return str(path)
