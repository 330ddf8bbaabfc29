"""The papers' methods, linear, on OHSUMED beside the published values; and boosted trees, alone and on top of them.

python -m experiments.papers.methods.run
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from boostrank.metrics import paired_difference
from experiments.common import interval, markdown
from experiments.papers.cells import (
    CUTS,
    FOLDS,
    RIDGES,
    Cell,
    Lab,
    console,
    mean_of,
    pooled,
    regression,
    selected,
    settled_ridge,
)
from experiments.papers.findings import Findings, main
from experiments.papers.picture import Line

BASE = {"scaling": "none"}
PENALTIES = (1e-3, 1e-2, 1e-1)
TREES = {"learning_rate": 0.1, "num_leaves": 7, "min_sum_hessian_in_leaf": 20, "verbosity": -1, "seed": 1}
TREE_ROUNDS = 100

# NDCG@1, 3, 5 and 10 in the table of Qin, Liu, Li 2010.
PUBLISHED = {
    "ListNet": (0.5326, 0.4732, 0.4432, 0.4410),
    "SoftRank": (0.5229, 0.4732, 0.4580, 0.4539),
    "ApproxNDCG": (0.5771, 0.5037, 0.4794, 0.4620),
}
PICTURED = ("regression", "RankSVM", "SmoothNDCG", *PUBLISHED)


def grid(base: dict[str, Any], **choices: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Every combination of the choices, over the base."""
    return [{**BASE, **base, **dict(zip(choices, values, strict=True))} for values in product(*choices.values())]


# Name -> what is chosen from on validation, and steps. Those that begin at the regression have its ridge put in.
LINEAR: dict[str, tuple[list[dict[str, Any]], int]] = {
    "RankSVM": (grid({"objective": "ranksvm", "toward": "zero"}, lambda_l2=(1e-1, 1.0, 10.0, 100.0)), 60),
    "ListNet": (grid({"objective": "listnet", "toward": "zero"}, lambda_l2=PENALTIES), 60),
    "LambdaRank": (grid({"objective": "lambdarank"}, lambda_l2=PENALTIES), 60),
    "SmoothNDCG": (grid({"objective": "smooth-ndcg"}, lambda_l2=PENALTIES), 130),
    "SmoothAP": (grid({"objective": "smooth-ap"}, sigma=(0.03, 0.1), lambda_l2=PENALTIES), 60),
    "ApproxNDCG": (grid({"objective": "approx-ndcg"}, alpha=(10.0, 30.0, 100.0), lambda_l2=PENALTIES[:2]), 60),
    "ApproxAP": (grid({"objective": "approx-ap", "lambda_l2": 1e-2}, alpha=(10.0, 30.0, 100.0), beta=(0.1, 1.0)), 60),
    "SoftRank": (grid({"objective": "soft-ndcg"}, sigma=(0.03, 0.1), lambda_l2=PENALTIES[:2]), 60),
    "SHF-SDCG": (grid({"objective": "shf-sdcg", "sigma": 0.1}, lambda_l2=PENALTIES), 60),
    "REG-SHF-SDCG": (grid({"objective": "reg-shf-sdcg", "sigma": 0.1}, lambda_l2=PENALTIES), 60),
    "large-margin, convex": (
        grid({"objective": "margin-ndcg", "bound": "convex", "margin": 1.0}, lambda_l2=PENALTIES[:2]),
        30,
    ),
    "large-margin, tight": (
        grid({"objective": "margin-ndcg", "bound": "tight", "margin": 1.0}, lambda_l2=PENALTIES[:2]),
        40,
    ),
}
BOOSTED = {
    "regression": {"objective": "regression"},
    "LambdaRank": {"objective": "lambdarank"},
    "SmoothNDCG": {"objective": "smooth-ndcg"},
    "SmoothAP": {"objective": "smooth-ap"},
    "ApproxNDCG": {"objective": "approx-ndcg"},
    "ApproxAP": {"objective": "approx-ap"},
    "SoftRank": {"objective": "soft-ndcg"},
    "SHF-SDCG": {"objective": "shf-sdcg"},
    "REG-SHF-SDCG": {"objective": "reg-shf-sdcg"},
    "large-margin, convex": {"objective": "margin-ndcg", "bound": "convex"},
    "large-margin, tight": {"objective": "margin-ndcg", "bound": "tight"},
}
SHOWN_RIDGES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)


def run(lab: Lab) -> Findings:
    """Train, choose on validation, measure on the test queries of all folds."""
    ridges = settled_ridge(lab.root)
    linear = {"regression": selected(lab, "regression", [regression(r) for r in RIDGES], 1)}
    for name, (choices, rounds) in LINEAR.items():
        linear[name] = _over_folds(lab, name, choices, rounds, ridges)
    boosted = {
        name: selected(lab, f"boosted {name}", [{**TREES, **params}], TREE_ROUNDS, backend="lightgbm")
        for name, params in BOOSTED.items()
    }
    slow = {**TREES, "objective": "lambdarank", "learning_rate": 0.05}
    started = [Cell(fold, slow, TREE_ROUNDS, "lightgbm", "linear") for fold in FOLDS]
    boosted["LambdaRank from a linear start"] = [lab.result(cell) for cell in started]
    fixed = {r: [lab.result(Cell(fold, regression(r), 1)) for fold in FOLDS] for r in SHOWN_RIDGES}
    return Findings(
        "The papers' methods on OHSUMED",
        [("Linear, beside the published values", _table(linear)),
         ("NDCG at every cut-off and MAP, LETOR's conventions, linear", _all_cuts(linear)),
         ("Linear and boosted side by side, NDCG@10, LETOR's conventions", _side_by_side(linear, boosted)),
         ("The regression with a fixed ridge, NDCG@10, LETOR's conventions",
          markdown(["ridge", "test"], [[f"{r:g}", interval(pooled(v, "letor", "ndcg@10"))] for r, v in fixed.items()])),
         ("What was chosen", _chosen(linear))],
        [("methods.svg", "NDCG at n, linear models", "n", "NDCG@n (LETOR's conventions)",
          [Line(n, CUTS, [mean_of(r, f"ndcg@{c}") for c in CUTS])
           for n, r in linear.items() if n in PICTURED or n.startswith("large")], False)],
    )  # fmt: skip


def _over_folds(
    lab: Lab, name: str, choices: list[dict[str, Any]], rounds: int, ridges: dict[int, float]
) -> list[dict[str, Any]]:
    """As `selected`, with each fold's own ridge."""
    chosen = []
    for fold in FOLDS:
        mine = [c if c.get("initial") == "random" else {**c, "ridge": ridges[fold]} for c in choices]
        results = [lab.result(Cell(fold, params, rounds)) for params in mine]
        best = int(np.argmax([result["selected"] for result in results]))
        chosen.append({**results[best], "params": mine[best]})
    console.print(f"{name}: ndcg@10 {mean_of(chosen):.4f} ({lab.trained} trained so far, {lab.seconds:.0f} s of CPU)")
    return chosen


def _table(linear: dict[str, Any]) -> str:
    rows = []
    for name, results in linear.items():
        ours = [pooled(results, "letor", f"ndcg@{k}") for k in (1, 3, 5, 10)]
        theirs = PUBLISHED.get(name)
        said = "-" if theirs is None else f"{theirs[3]:.4f}"
        gap = "-" if theirs is None else f"{float(ours[3].mean()) - theirs[3]:+.4f}"
        others = "-" if theirs is None else " ".join(f"{v:.4f}" for v in theirs[:3])
        average = pooled(results, "letor", "map")
        rows.append(
            [name, *(f"{v.mean():.4f}" for v in ours[:3]), interval(ours[3]), said, gap, f"{np.nanmean(average):.4f}",
             others, f"{np.nanmean(pooled(results, 'default', 'ndcg@10')):.4f}"]
        )  # fmt: skip
    return markdown(
        ["method", "N@1", "N@3", "N@5", "N@10, ours", "N@10, published", "ours - published", "MAP",
         "published N@1 N@3 N@5", "N@10, our conventions"],
        rows,
    )  # fmt: skip


def _all_cuts(linear: dict[str, Any]) -> str:
    rows = [
        [
            name,
            *(f"{np.nanmean(pooled(r, 'letor', f'ndcg@{c}')):.4f}" for c in CUTS),
            f"{np.nanmean(pooled(r, 'letor', 'map')):.4f}",
        ]
        for name, r in linear.items()
    ]
    return markdown(["method", *(f"@{c}" for c in CUTS), "MAP"], rows)


def _side_by_side(linear: dict[str, Any], boosted: dict[str, Any]) -> str:
    rows = []
    base = pooled(boosted["LambdaRank"], "letor", "ndcg@10")
    for name in dict.fromkeys([*linear, *boosted]):
        both = [family.get(name) for family in (linear, boosted)]
        values = ["-" if r is None else interval(pooled(r, "letor", "ndcg@10")) for r in both]
        training = ["-" if r is None else f"{np.mean([one['train'] for one in r]):.4f}" for r in both]
        differences = []
        for results in both:
            if results is None or results is boosted["LambdaRank"]:
                differences.append("-")
                continue
            found = paired_difference(pooled(results, "letor", "ndcg@10"), base)
            differences.append(f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]")
        rows.append([name, values[0], differences[0], values[1], differences[1], *training])
    return markdown(
        ["objective", "linear", "minus boosted LambdaRank", "boosted", "minus boosted LambdaRank", "linear, training",
         "boosted, training"],
        rows,
    )  # fmt: skip


def _chosen(linear: dict[str, Any]) -> str:
    hidden = {"objective", "scaling", "initial", "toward", "target", "optimizer", "learning_rate", "bound"}
    rows = []
    for name, results in linear.items():
        keys = [k for k in results[0]["params"] if k not in hidden]
        said = ["; ".join(f"{k} {r['params'][k]:g}" for k in keys) + f" (round {r['best_round']})" for r in results]
        rows.append([name, *said])
    return markdown(["method", *(f"fold {f}" for f in FOLDS)], rows)


if __name__ == "__main__":
    main("methods", run, __doc__)
