"""Lines in an SVG picture, readable on white and on black."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from boostrank.core.files import write_atomically

_COLOURS = (
    "#4c78a8",
    "#e4572e",
    "#54a24b",
    "#b279a2",
    "#c08a00",
    "#3aa6a0",
    "#888888",
    "#d6619e",
    "#8a5a2b",
    "#5b6ee1",
)
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 380, 64, 190, 34, 48


@dataclass(frozen=True)
class Line:
    """One line: its name, and points in order."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


def draw(
    path: Path,
    title: str,
    x_label: str,
    y_label: str,
    lines: Sequence[Line],
    *,
    log_x: bool = False,
) -> None:
    """Write the picture; points that are not finite are left out."""

    def place(x: float) -> float:
        return math.log10(x) if log_x else x

    points = [
        (place(x), y)
        for line in lines
        for x, y in zip(line.x, line.y, strict=True)
        if math.isfinite(y) and math.isfinite(x)
    ]
    low_x, high_x = min(p[0] for p in points), max(p[0] for p in points)
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    margin = 0.05 * (high - low) or 0.01
    low, high = low - margin, high + margin
    wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        share = (place(x) - low_x) / ((high_x - low_x) or 1.0)
        return _LEFT + share * wide, _TOP + (high - y) / (high - low) * tall

    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(title)}" font-family="sans-serif" font-size="12" fill="#777">'
        ),
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
        (
            f'<text x="{_LEFT + wide / 2}" y="{_HEIGHT - 8}"'
            f' text-anchor="middle">{escape(x_label)}</text>'
        ),
        (
            f'<text x="14" y="{_TOP + tall / 2}" text-anchor="middle" transform="rotate(-90 14'
            f' {_TOP + tall / 2})">{escape(y_label)}</text>'
        ),
    ]
    for i in range(5):
        value = low + (high - low) * i / 4
        y = at(10**low_x if log_x else low_x, value)[1]
        out.append(
            f'<line x1="{_LEFT}" x2="{_LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#999"'
            ' stroke-opacity="0.3"/>'
        )
        out.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3f}</text>')
    marks = sorted({x for line in lines for x in line.x})
    for x in (
        marks if len(marks) <= 10 else [marks[round(i * (len(marks) - 1) / 8)] for i in range(9)]
    ):
        px = at(x, low)[0]
        out.append(f'<text x="{px:.1f}" y="{_TOP + tall + 18}" text-anchor="middle">{x:g}</text>')
    for i, line in enumerate(lines):
        colour = _COLOURS[i % len(_COLOURS)]
        seen = [at(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
        path_text = " ".join(f"{x:.1f},{y:.1f}" for x, y in seen)
        out.append(
            f'<polyline points="{path_text}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        if len(seen) < 40:
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in seen]
        y = _TOP + 12 + 18 * i
        out.append(
            f'<rect x="{_WIDTH - _RIGHT + 14}" y="{y - 9}" width="12" height="10" fill="{colour}"/>'
        )
        out.append(f'<text x="{_WIDTH - _RIGHT + 32}" y="{y}">{escape(line.name)}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, ("\n".join([*out, "</svg>"]) + "\n").encode())
