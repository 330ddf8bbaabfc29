"""Helpers that experiments share: where the data lies, pooled per-query results, and tables."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.files import write_atomically
from boostrank.metrics import paired_difference

OUT = Path(__file__).parent


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options every experiment has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--data-root", type=Path, default=None, help="folder of the real data sets")
    parser.add_argument("--threads", type=int, default=None, help="default: every available core")
    return parser


def data_root(folder: Path | None) -> Path:
    """--data-root, else BOOSTRANK_DATA, else ../shared/data beside the checkout.

    Raises:
        SystemExit: none of them holds the data.
    """
    variable = os.environ.get("BOOSTRANK_DATA")
    root = folder or Path(variable or Path(__file__).resolve().parents[2] / "shared" / "data")
    if not (root / "ohsumed").is_dir():
        raise SystemExit(f"no data in {root}: give --data-root, or set BOOSTRANK_DATA")
    return root


def interval(values: npt.NDArray[np.float64], digits: int = 4) -> str:
    """`.4512 [.4011, .5013]`: mean over queries and its 95% bootstrap interval."""
    mean = paired_difference(values, np.where(np.isnan(values), np.nan, 0.0))
    return f"{mean.mean:.{digits}f} [{mean.low:.{digits}f}, {mean.high:.{digits}f}]"


def difference(
    mine: npt.NDArray[np.float64],
    theirs: npt.NDArray[np.float64],
    digits: int = 4,
    weights: Any = None,
) -> str:
    """`+.0031 [-.0010, +.0072]`: mean of mine - theirs, query by query, and its 95% bootstrap
    interval.
    """
    gain = paired_difference(mine, theirs, weights=weights)
    return f"{gain.mean:+.{digits}f} [{gain.low:+.{digits}f}, {gain.high:+.{digits}f}]"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up in plain text too."""
    widths = [max(len(r[i]) for r in (header, *rows)) for i in range(len(header))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) + " |"
        for r in (header, *rows)
    ]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def save(path: Path, text: str, results: object) -> None:
    """Write a table, and the numbers behind it as JSON beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (text + "\n").encode())
    write_atomically(path.with_suffix(".json"), (json.dumps(results, indent=1) + "\n").encode())
