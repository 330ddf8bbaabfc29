"""Noise file: what `boostrank noise --json` wrote, above all the difference of two trainings that is more than luck."""

from __future__ import annotations

import json
import math

from boostrank.core.errors import FileFormatError


def read_matters(path: str) -> dict[str, float]:
    """Metric -> that difference.

    Raises:
        FileFormatError: it is not what `boostrank noise --json` prints.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            written = json.load(file)
        found = {str(name): float(one["matters"]) for name, one in written["metrics"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FileFormatError("not what `boostrank noise --json` prints", file=path) from None
    bad = [name for name, value in found.items() if not (math.isfinite(value) and value >= 0.0)]
    if bad or not found:
        reason = f"metric {bad[0]!r} matters from {found[bad[0]]}" if bad else "it has no metric"
        raise FileFormatError(f"{reason}: not what `boostrank noise --json` prints", file=path)
    return found
