"""Marks within text and tables, drawn without a script."""

from __future__ import annotations

import math
from typing import Any

from boostrank.report.html.markup import Markup, tag


def whisker(
    mean: float, low: float, high: float, limit: float, look: str = "main", *, left: float | None = None
) -> Markup:
    """A mean and its interval on a scale, for a cell; an interval that is NaN is left out.

    Args:
        mean, low, high: in the scale's unit.
        limit: right end of the scale, positive.
        look: "main", "better", "worse" or "faint".
        left: left end of the scale, 0 or less; None: -limit.
    """
    begin = -limit if left is None else left

    def x(value: float) -> str:
        return f"{(min(max(value, begin), limit) - begin) / (limit - begin) * 120:.1f}"

    spans = math.isfinite(low + high)
    return tag(
        "svg",
        tag("line", x1=x(0.0), x2=x(0.0), y1=0, y2=16, class_="zero"),
        tag("line", x1=x(low), x2=x(high), y1=8, y2=8, class_="span") if spans else None,
        tag("circle", cx=x(mean), cy=8, r=3) if math.isfinite(mean) else None,
        viewBox="-4 0 128 16", width=128, height=16, class_=f"whisker {look}", role="img",
        aria_label=f"{mean:+.4f}" + (f", {low:+.4f} to {high:+.4f}" if spans else ""),
    )  # fmt: skip


def look_of(low: float, high: float) -> str:
    """The look of a number by its interval: only one that leaves 0 out gets a colour."""
    return "better" if low > 0.0 else "worse" if high < 0.0 else ""


def chip(text: str, look: str = "") -> Markup:
    """A word in a frame: "useful". `look` as a cell's."""
    return tag("span", text, class_=f"chip {look}".rstrip())


def key_numbers(*numbers: tuple[str, Any, str]) -> Markup:
    """Key numbers, large: (what it is, the number as text or markup, a note that may be empty) each."""
    entries = (
        tag("div", tag("dt", label), tag("dd", tag("b", value), tag("span", note) if note else None))
        for label, value, note in numbers
    )
    return tag("dl", *entries, class_="key-numbers")
