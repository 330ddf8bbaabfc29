"""The papers' methods, linear, on OHSUMED beside the published values; and boosted trees, alone and
on top of them.

python -m experiments.papers.methods.run
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from experiments.common import difference, interval, markdown
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

BASE = {"scaling": "none"}
PENALTIES = (1e-3, 1e-2, 1e-1)
TREES = {
    "learning_rate": 0.1,
    "num_leaves": 7,
    "min_sum_hessian_in_leaf": 20,
    "verbosity": -1,
    "seed": 1,
}
TREE_ROUNDS = 100

# Table 4 of Qin, Liu, Li 2010: NDCG@1, 3, 5 and 10, and of the whole list.
PUBLISHED = {
    "RankSVM": (0.4958, 0.4207, 0.4164, 0.4140, 0.6457),
    "ListNet": (0.5326, 0.4732, 0.4432, 0.4410, 0.6600),
    "AdaRank.NDCG": (0.5330, 0.4790, 0.4673, 0.4496, 0.6640),
    "SoftRank": (0.5229, 0.4732, 0.4580, 0.4539, 0.6623),
    "ApproxNDCG": (0.5771, 0.5037, 0.4794, 0.4620, 0.6680),
}
SHOWN = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "ndcg")
DIGITS = 3  # those that two machines share, nearly
PICTURED = ("regression", "RankSVM", "ListNet", "SmoothNDCG", "SoftRank", "ApproxNDCG")


def grid(base: dict[str, Any], **choices: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Every combination of the choices, over the base."""
    return [
        {**BASE, **base, **dict(zip(choices, values, strict=True))}
        for values in product(*choices.values())
    ]


# Convex baselines, from zero to convergence: only lambda is chosen on validation.
FROM_ZERO = {"toward": "zero", "initial": "zero", "optimizer": "lbfgs"}
CONVERGED: dict[str, tuple[list[dict[str, Any]], int]] = {
    "RankSVM": (
        grid({"objective": "ranksvm", **FROM_ZERO}, lambda_l2=tuple(10.0**i for i in range(-1, 5))),
        400,
    ),
    "ListNet": (
        grid({"objective": "listnet", **FROM_ZERO}, lambda_l2=tuple(10.0**i for i in range(-6, 1))),
        400,
    ),
}
# Name -> what is chosen from on validation, and steps; those that begin at the regression take its
# ridge.
LINEAR: dict[str, tuple[list[dict[str, Any]], int]] = {
    "LambdaRank": (grid({"objective": "lambdarank"}, lambda_l2=PENALTIES), 60),
    "SmoothNDCG": (grid({"objective": "smooth-ndcg"}, lambda_l2=PENALTIES), 130),
    "SmoothAP": (grid({"objective": "smooth-ap"}, sigma=(0.03, 0.1), lambda_l2=PENALTIES), 60),
    "ApproxNDCG": (
        grid({"objective": "approx-ndcg"}, alpha=(10.0, 30.0, 100.0), lambda_l2=PENALTIES[:2]),
        60,
    ),
    "ApproxAP": (
        grid(
            {"objective": "approx-ap", "lambda_l2": 1e-2},
            alpha=(10.0, 30.0, 100.0),
            beta=(0.1, 1.0),
        ),
        60,
    ),
    "SoftRank": (grid({"objective": "soft-ndcg"}, sigma=(0.03, 0.1), lambda_l2=PENALTIES[:2]), 60),
    "SHF-SDCG": (grid({"objective": "shf-sdcg", "sigma": 0.1}, lambda_l2=PENALTIES), 60),
    "REG-SHF-SDCG": (grid({"objective": "reg-shf-sdcg", "sigma": 0.1}, lambda_l2=PENALTIES), 60),
    "large-margin, convex": (
        grid(
            {"objective": "margin-ndcg", "bound": "convex", "margin": 1.0}, lambda_l2=PENALTIES[:2]
        ),
        30,
    ),
    "large-margin, tight": (
        grid(
            {"objective": "margin-ndcg", "bound": "tight", "margin": 1.0}, lambda_l2=PENALTIES[:2]
        ),
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
    for name, (choices, rounds) in CONVERGED.items():
        linear[name] = selected(lab, name, choices, rounds, to_end=True)
    for name, (choices, rounds) in LINEAR.items():
        linear[name] = _over_folds(lab, name, choices, rounds, ridges)
    boosted = {
        name: selected(
            lab, f"boosted {name}", [{**TREES, **params}], TREE_ROUNDS, backend="lightgbm"
        )
        for name, params in BOOSTED.items()
    }
    slow = {**TREES, "objective": "lambdarank", "learning_rate": 0.05}
    started = [Cell(fold, slow, TREE_ROUNDS, "lightgbm", "linear") for fold in FOLDS]
    boosted["LambdaRank from a linear start"] = [lab.result(cell) for cell in started]
    fixed = {r: [lab.result(Cell(fold, regression(r), 1)) for fold in FOLDS] for r in SHOWN_RIDGES}
    return Findings(
        "The papers' methods on OHSUMED",
        [
            ("Linear, beside the published values", _table(linear)),
            ("RankSVM and ListNet by lambda, converged, test values of all folds", _by_lambda(lab)),
            ("NDCG at every cut-off and MAP, LETOR's conventions, linear", _all_cuts(linear)),
            (
                "Linear and boosted side by side, NDCG@10, LETOR's conventions",
                _side_by_side(linear, boosted),
            ),
            (
                "The regression with a fixed ridge, NDCG@10, LETOR's conventions",
                markdown(
                    ["ridge", "test"],
                    [
                        [f"{r:g}", interval(pooled(v, "letor", "ndcg@10"), DIGITS)]
                        for r, v in fixed.items()
                    ],
                ),
            ),
            ("What was chosen", _chosen(linear)),
        ],
    )


def _over_folds(
    lab: Lab, name: str, choices: list[dict[str, Any]], rounds: int, ridges: dict[int, float]
) -> list[dict[str, Any]]:
    """As `selected`, with each fold's own ridge."""
    chosen = []
    for fold in FOLDS:
        mine = [{**c, "ridge": ridges[fold]} for c in choices]
        results = [lab.result(Cell(fold, params, rounds)) for params in mine]
        best = int(np.argmax([result["selected"] for result in results]))
        chosen.append({**results[best], "params": mine[best]})
    console.print(
        f"{name}: ndcg@10 {mean_of(chosen):.4f} ({lab.trained} trained so far, {lab.seconds:.0f} s"
        " of CPU)"
    )
    return chosen


def _table(linear: dict[str, Any]) -> str:
    header = [
        "method",
        "",
        "N@1",
        "N@3",
        "N@5",
        "N@10",
        "N, whole list",
        "MAP",
        "N@10, our conventions",
    ]
    rows = []
    for name in dict.fromkeys([*linear, *PUBLISHED]):
        if name in linear:
            results = linear[name]
            values = [f"{mean_of(results, metric):.{DIGITS}f}" for metric in (*SHOWN, "map")]
            values[3] = interval(pooled(results, "letor", "ndcg@10"), DIGITS)
            other = f"{np.nanmean(pooled(results, 'default', 'ndcg@10')):.{DIGITS}f}"
            rows.append([name, "ours", *values, other])
        if name in PUBLISHED:
            rows.append(
                [name, "published", *(f"{value:.{DIGITS}f}" for value in PUBLISHED[name]), "", ""]
            )
    return markdown(header, rows)


def _by_lambda(lab: Lab) -> str:
    rows = []
    for name, (choices, rounds) in CONVERGED.items():
        for params in choices:
            results = [lab.result(Cell(fold, params, rounds, to_end=True)) for fold in FOLDS]
            values = [
                *(mean_of(results, metric) for metric in (*SHOWN, "map")),
                np.mean([r["train"] for r in results]),
            ]
            rows.append(
                [name, f"{params['lambda_l2']:g}", *(f"{value:.{DIGITS}f}" for value in values)]
            )
    return markdown(
        ["method", "lambda", "N@1", "N@3", "N@5", "N@10", "N, whole list", "MAP", "training N@10"],
        rows,
    )


def _all_cuts(linear: dict[str, Any]) -> str:
    metrics = [*(f"ndcg@{cut}" for cut in CUTS), "ndcg", "map"]
    rows = [
        [name, *(f"{mean_of(r, metric):.{DIGITS}f}" for metric in metrics)]
        for name, r in linear.items()
    ]
    return markdown(["method", *(f"@{cut}" for cut in CUTS), "whole list", "MAP"], rows)


def _side_by_side(linear: dict[str, Any], boosted: dict[str, Any]) -> str:
    rows = []
    base = pooled(boosted["LambdaRank"], "letor", "ndcg@10")
    for name in dict.fromkeys([*linear, *boosted]):
        both = [family.get(name) for family in (linear, boosted)]
        values = [
            "-" if r is None else interval(pooled(r, "letor", "ndcg@10"), DIGITS) for r in both
        ]
        training = [
            "-" if r is None else f"{np.mean([result['train'] for result in r]):.{DIGITS}f}"
            for r in both
        ]
        differences = []
        for results in both:
            if results is None or results is boosted["LambdaRank"]:
                differences.append("-")
                continue
            differences.append(difference(pooled(results, "letor", "ndcg@10"), base, DIGITS))
        rows.append([name, values[0], differences[0], values[1], differences[1], *training])
    return markdown(
        [
            "objective",
            "linear",
            "minus boosted LambdaRank",
            "boosted",
            "minus boosted LambdaRank",
            "linear, training",
            "boosted, training",
        ],
        rows,
    )


def _chosen(linear: dict[str, Any]) -> str:
    hidden = {
        "objective",
        "scaling",
        "initial",
        "toward",
        "target",
        "optimizer",
        "learning_rate",
        "bound",
    }
    rows = []
    for name, results in linear.items():
        keys = [k for k in results[0]["params"] if k not in hidden]
        cells = [
            "; ".join(f"{k} {r['params'][k]:g}" for k in keys) + f" (round {r['best_round']})"
            for r in results
        ]
        rows.append([name, *cells])
    return markdown(["method", *(f"fold {f}" for f in FOLDS)], rows)


if __name__ == "__main__":
    main("methods", run, __doc__)
