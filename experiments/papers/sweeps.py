"""One parameter of an objective, swept over all folds: what two experiments share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.common import difference, markdown
from experiments.papers.cells import FOLDS, Cell, Lab, console, mean_of, pooled, settled_ridge

SHOWN = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map")


def sweep(
    lab: Lab,
    methods: Mapping[str, tuple[dict[str, Any], int]],
    name: str,
    values: Sequence[Any],
    base: Any,
) -> str:
    """A table of the test metrics of each method at each value.

    Args:
        lab: where cells are trained.
        methods: name -> parameters and steps.
        name: of the parameter that is swept.
        values: it takes.
        base: the value that the others are compared with, query by query.
    """
    ridges = settled_ridge(lab.root)
    rows = []
    for method, (params, rounds) in methods.items():
        by_value: dict[Any, list[dict[str, Any]]] = {}
        for value in values:
            settings = {"scaling": "none", **params, name: value}
            by_value[value] = [
                lab.result(Cell(f, {**settings, "ridge": ridges[f]}, rounds)) for f in FOLDS
            ]
        console.print(f"{method}: done ({lab.trained} trained so far, {lab.seconds:.0f} s of CPU)")
        for value, results in by_value.items():
            against = "-"
            if value != base:
                mine, theirs = (
                    pooled(results, "letor", "ndcg@10"),
                    pooled(by_value[base], "letor", "ndcg@10"),
                )
                against = difference(mine, theirs, digits=3)
            train = np.mean([r["train"] for r in results])
            rows.append(
                [
                    method,
                    str(value),
                    *(f"{mean_of(results, m):.3f}" for m in SHOWN),
                    against,
                    f"{train:.3f}",
                ]
            )
    header = ["method", name, *SHOWN, f"ndcg@10 minus that of {name} {base}", "training ndcg@10"]
    return markdown(header, rows)
