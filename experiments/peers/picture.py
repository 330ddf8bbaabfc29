"""The critical-difference picture: methods on an axis of mean ranks, bars over those that no test
tells apart.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boostrank.core.files import write_atomically
from experiments.peers.statistics import Values, groups, mean_ranks, pair_tests

_ROW = 0.22  # inches a line of text


def draw(path: Path, panels: Mapping[str, Mapping[str, Values]], note: str) -> None:
    """Write an SVG.

    Args:
        path: of the file.
        panels: title -> method -> the metric of each query.
        note: a line below all.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "boostrank"  # the same numbers give the same file
    import matplotlib.pyplot as plt

    prepared = [(title, list(methods), *_numbers(methods)) for title, methods in panels.items()]
    heights = [
        _ROW * (np.ceil(len(names) / 2) + len(bars) * 0.45 + 3.5) for _, names, _, bars in prepared
    ]
    figure, axes = plt.subplots(
        len(prepared),
        figsize=(9.5, sum(heights) + 0.4),
        gridspec_kw={"height_ratios": heights},
        squeeze=False,
    )
    for axis, (title, names, ranks, bars) in zip(axes[:, 0], prepared, strict=True):
        _panel(axis, title, names, ranks, bars)
    figure.text(0.01, 0.004, note, fontsize=7, color="0.3")
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    write_atomically(path, buffer.getvalue())


def _numbers(methods: Mapping[str, Values]) -> tuple[Values, list[tuple[int, int]]]:
    values = list(methods.values())
    ranks = mean_ranks(values)
    return ranks, groups(ranks, pair_tests(values))


def _panel(
    a: Any, title: str, names: Sequence[str], ranks: Values, bars: Sequence[tuple[int, int]]
) -> None:
    order = np.argsort(ranks, kind="stable")
    low, high = float(ranks.min()), float(ranks.max())
    pad = max((high - low) * 0.04, 1e-3)
    half = -(-len(names) // 2)
    below = 0.9 + 0.45 * len(bars)
    a.set_xlim(low - pad, high + pad)
    a.set_ylim(-(below + half), 0)
    a.invert_xaxis()
    a.xaxis.tick_top()
    a.set_yticks([])
    for side in ("left", "right", "bottom"):
        a.spines[side].set_visible(False)
    a.set_title(f"{title}: mean rank over queries, the best on the right", fontsize=9, loc="left")
    for i, (first, last) in enumerate(bars):
        ends = ranks[order[first]], ranks[order[last]]
        a.plot([ends[0] - pad / 3, ends[1] + pad / 3], [-0.5 - 0.45 * i] * 2, color="black", lw=2.5)
    for place, method in enumerate(order):
        right = place < half
        line = place if right else len(names) - 1 - place
        y, edge = -(below + line + 0.3), low - pad if right else high + pad
        a.plot([ranks[method], ranks[method], edge], [0, y, y], color="0.6", lw=0.7)
        words = (
            f"{names[method]}  {ranks[method]:.2f}"
            if not right
            else f"{ranks[method]:.2f}  {names[method]}"
        )
        a.text(edge, y, f" {words} ", fontsize=8, ha="left" if right else "right", va="center")
