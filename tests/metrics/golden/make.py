"""What CatBoost and trec_eval make of one set of rankings, kept in JSON so that the suite needs
neither of them.

`python -m tests.metrics.golden.make`, where numpy, catboost and pytrec_eval (or
pytrec_eval-terrier, which brings trec_eval's sources along) are installed, writes the files anew.
They hold the inputs too: numpy may draw other numbers some day.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

SEED = 11
CUTS = (1, 3, 5, 10)
TREC_CUTS = (5, 10)
CATBOOST = {
    "ndcg": "NDCG",
    "dcg": "DCG",
    "map": "MAP",
    "precision": "PrecisionAt",
    "recall": "RecallAt",
    "mrr": "MRR",
}
TREC = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank"}
TREC_CUT = {"ndcg": "ndcg_cut", "map": "map_cut", "precision": "P", "recall": "recall"}

Inputs = dict[str, list[Any]]


def inputs(grades: int = 5, *, empty: bool = True) -> Inputs:
    """Ragged queries with many ties, lists shorter than the cut-offs, empty queries and queries of
    one document.

    Some scores tie, some differ by less than float32 can tell, which is what XGBoost and trec_eval
    compare in.
    """
    rng = np.random.default_rng(SEED)
    sizes = np.concatenate([[1, 1, 3, 4], rng.integers(1, 16, 60)])
    labels = rng.integers(0, grades, sizes.sum()).astype(np.float64)
    starts = np.cumsum(sizes) - sizes
    if empty:
        for q in (0, 2, 9):
            labels[starts[q] : starts[q] + sizes[q]] = 0.0
    else:
        labels[starts] = 1.0
    scores = rng.integers(0, 8, labels.size) / 2.0
    scores[::3] += 1e-12 * rng.integers(0, 3, scores[::3].size)
    docnos = [f"d{number}" for number in np.random.default_rng(SEED + 1).permutation(labels.size)]
    return {
        "sizes": sizes.tolist(),
        "labels": labels.tolist(),
        "scores": scores.tolist(),
        "docnos": docnos,
    }


def by_catboost(case: Inputs) -> dict[str, float]:
    """Metric -> mean. Its ERR takes labels for probabilities: they are divided by 4 there."""
    from catboost.utils import eval_metric

    groups = np.repeat(np.arange(len(case["sizes"])), case["sizes"])
    labels = np.array(case["labels"])

    def value(metric: str, labels: Any) -> float:
        return float(eval_metric(labels, case["scores"], metric, group_id=groups)[0])

    values = {
        f"{ours}@{k}": value(f"{name}:top={k}", labels)
        for ours, name in CATBOOST.items()
        for k in CUTS
    }
    return values | {f"err@{k}": value(f"ERR:top={k}", labels / 4.0) for k in CUTS}


def by_trec_eval(case: Inputs) -> dict[str, list[float]]:
    """Metric -> value of each query."""
    import pytrec_eval

    ends = np.cumsum(case["sizes"])[:-1]

    def by_query(values: list[Any]) -> dict[str, dict[str, Any]]:
        lists = zip(
            np.split(np.array(case["docnos"]), ends), np.split(np.array(values), ends), strict=True
        )
        return {
            str(q): dict(zip(n.tolist(), v.tolist(), strict=True)) for q, (n, v) in enumerate(lists)
        }

    evaluator = pytrec_eval.RelevanceEvaluator(
        by_query([int(label) for label in case["labels"]]), {*TREC.values(), *TREC_CUT.values()}
    )
    of_queries = evaluator.evaluate(by_query(case["scores"]))
    names = TREC | {
        f"{ours}@{k}": f"{trec}_{k}" for ours, trec in TREC_CUT.items() for k in TREC_CUTS
    }
    return {
        ours: [of_queries[str(q)][trec] for q in range(len(of_queries))]
        for ours, trec in names.items()
    }


def versions(*packages: str) -> dict[str, str]:
    """Of those that are installed."""
    installed = {}
    for package in packages:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


if __name__ == "__main__":
    for name, packages, values_by in (
        ("catboost", ("catboost",), by_catboost),
        ("trec_eval", ("pytrec_eval", "pytrec_eval-terrier"), by_trec_eval),
    ):
        drawn = inputs()
        document = {
            "made by": versions(*packages, "numpy"),
            "recipe": f"tests.metrics.golden.make.inputs() with seed {SEED}",
            "inputs": drawn,
            "values": values_by(drawn),
        }
        # One list a line.
        text = re.sub(r"\n {3,}|\n  (?=\])", " ", json.dumps(document, indent=1))
        Path(__file__).with_name(f"{name}.json").write_text(text + "\n")
