"""One parameter of an objective, swept over all folds: what two experiments share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.metrics import paired_difference
from experiments.common import markdown
from experiments.papers.cells import FOLDS, Cell, Lab, console, mean_of, pooled, settled_ridge

SHOWN = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map")


def sweep(
    lab: Lab, methods: Mapping[str, tuple[dict[str, Any], int]], name: str, values: Sequence[Any], base: Any
) -> tuple[str, dict[str, list[float]]]:
    """A table, and method -> test NDCG@10 at each value.

    Args:
        lab: where cells are trained.
        methods: name -> parameters and steps.
        name: of the parameter that is swept.
        values: it takes.
        base: the value that the others are compared with, query by query.
    """
    ridges = settled_ridge(lab.root)
    rows, curves = [], {}
    for method, (params, rounds) in methods.items():
        found: dict[Any, list[dict[str, Any]]] = {}
        for value in values:
            own = {"scaling": "none", **params, name: value}
            found[value] = [lab.result(Cell(f, {**own, "ridge": ridges[f]}, rounds)) for f in FOLDS]
        console.print(f"{method}: done ({lab.trained} trained so far, {lab.seconds:.0f} s of CPU)")
        for value, results in found.items():
            against = "-"
            if value != base:
                d = paired_difference(*(pooled(r, "letor", "ndcg@10") for r in (results, found[base])))
                against = f"{d.mean:+.4f} [{d.low:+.4f}, {d.high:+.4f}]"
            train = np.mean([r["train"] for r in results])
            rows.append([method, str(value), *(f"{mean_of(results, m):.4f}" for m in SHOWN), against, f"{train:.4f}"])
        curves[method] = [mean_of(found[value]) for value in values]
    header = ["method", name, *SHOWN, f"ndcg@10 minus that of {name} {base}", "training ndcg@10"]
    return markdown(header, rows), curves
