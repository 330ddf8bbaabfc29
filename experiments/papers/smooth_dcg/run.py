"""Claims of Wu et al. 2009 on boosted trees: SDCG < regression, SHF-SDCG > SDCG, REG-SHF-SDCG >
SHF-SDCG.

    python -m experiments.papers.smooth_dcg.run

Every method chooses its learning rate and its number of trees, 250 at most, on the validation
queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import boostrank
from boostrank.metrics import Conventions, evaluate
from experiments.common import markdown
from experiments.curvature.families import SPECS
from experiments.papers.cells import FOLDS, Lab, console
from experiments.papers.findings import Findings, main

TREES_OF_THE_PAPER = 250
RATES = {"OHSUMED": (0.05, 0.2, 0.7), "sparse-long": (0.02, 0.05, 0.2, 0.7, 2.0)}
SEEDS = 3
TREES: dict[str, Any] = {
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.8,
    "min_sum_hessian_in_leaf": 20,
    "verbosity": -1,
    "metric": "ndcg",
    "eval_at": 10,
    "early_stopping_round": 100_000,
}
LEAVES = {"OHSUMED": 7, "sparse-long": 15}
# "Plain": gains of 2^label - 1 and one curvature for all documents and rounds, so that leaves are
# means of gradients, as in gradient boosting of 2009. Ours count gains from the least of the query,
# and divide by a bound of the curvature.
PLAIN = {"curvature": "constant", "gain_base": "zero"}
METHODS: dict[str, dict[str, Any]] = {
    "regression": {"objective": "regression"},
    "SDCG": {"objective": "sdcg"},
    "SHF-SDCG": {"objective": "shf-sdcg"},
    "REG-SHF-SDCG": {"objective": "reg-shf-sdcg"},
    "SDCG, plain": {"objective": "sdcg", **PLAIN},
    "SHF-SDCG, plain": {"objective": "shf-sdcg", **PLAIN},
}
CLAIMS = (
    ("SDCG", "regression"),
    ("SHF-SDCG", "SDCG"),
    ("REG-SHF-SDCG", "SHF-SDCG"),
    ("REG-SHF-SDCG", "regression"),
    ("SDCG, plain", "regression"),
    ("SHF-SDCG, plain", "SDCG, plain"),
)
LETOR = Conventions.of("letor")
# sparse-long: labels are 1 to 3, and LETOR's script gives 0 to a list that is shorter than the
# cut-off.
CONVENTIONS = {
    "OHSUMED": {"LETOR": LETOR, "ours": Conventions.of("default")},
    "sparse-long": {"LETOR": replace(LETOR, relevant_from=2.0), "ours": Conventions.of("default")},
}
METRICS = ("ndcg@1,3,5,10", "map", "precision@5,10")
SHOWN = (
    ("LETOR", "ndcg@1"),
    ("LETOR", "ndcg@3"),
    ("LETOR", "ndcg@5"),
    ("LETOR", "ndcg@10"),
    ("LETOR", "map"),
    ("LETOR", "precision@5"),
    ("LETOR", "precision@10"),
    ("ours", "ndcg@5"),
    ("ours", "ndcg@10"),
)
COMPARED = (("LETOR", "ndcg@5"), ("LETOR", "map"), ("LETOR", "precision@10"), ("ours", "ndcg@10"))
SPARSE_FOLDS, SPARSE_QUERIES = 3, 1200
RESAMPLES = 4000

Parts = tuple[boostrank.RankingDataset, boostrank.RankingDataset, boostrank.RankingDataset]
Values = npt.NDArray[np.float64]


def run(lab: Lab) -> Findings:
    """Train, choose on validation, and compare over queries and seeds."""
    tables = []
    for name in LEAVES:
        values: dict[str, dict[tuple[str, str], list[Values]]] = {method: {} for method in METHODS}
        rates: dict[str, list[float]] = {method: [] for method in METHODS}
        for fold, parts in enumerate(_splits(lab, name)):
            for method, params in METHODS.items():
                settings = {**TREES, **params, "num_leaves": LEAVES[name]}
                work = partial(_trained, parts, settings, name, lab.threads)
                result = lab.kept(
                    "smooth DCG",
                    name,
                    fold,
                    settings,
                    RATES[name],
                    SEEDS,
                    SPARSE_QUERIES,
                    make=work,
                )
                rates[method].append(result["rate"])
                for convention, metric in SHOWN:
                    measured = np.array(result[convention][metric], dtype=np.float64)
                    values[method].setdefault((convention, metric), []).append(measured)
            console.print(
                f"{name}, fold {fold + 1} ({lab.trained} made so far, {lab.seconds:.0f} s of CPU)"
            )
        pooled = {
            method: {key: np.hstack(v) for key, v in of_method.items()}
            for method, of_method in values.items()
        }
        queries = next(iter(pooled["SDCG"].values())).shape[1]
        tables += [
            (f"{name}, {queries} test queries, mean of {SEEDS} seeds", _means(pooled, rates)),
            (
                f"{name}, the claims: differences with 95% intervals over queries and seeds",
                _claims(pooled),
            ),
        ]
    return Findings("The claims of Wu et al.", tables)


def _splits(lab: Lab, name: str) -> Iterator[Parts]:
    """(train, valid, test): OHSUMED's five; three of a part of sparse-long's training file,
    validated on a quarter.
    """
    if name == "OHSUMED":
        yield from (lab.fold(fold) for fold in FOLDS)
        return
    path: Path = lab.root.parent / "sparse-long" / "train.txt"
    data = boostrank.RankingDataset.from_libsvm(path)
    shuffled = np.random.default_rng(0).permutation(len(data.queries))[:SPARSE_QUERIES]
    for fold in range(SPARSE_FOLDS):
        others = np.random.default_rng(fold).permutation(
            np.setdiff1d(shuffled, shuffled[fold::SPARSE_FOLDS])
        )
        quarter = others.size // 4
        yield (
            data.take(others[quarter:]),
            data.take(others[:quarter]),
            data.take(shuffled[fold::SPARSE_FOLDS]),
        )


def _trained(parts: Parts, params: dict[str, Any], name: str, threads: int) -> dict[str, Any]:
    """The rate that the first seed's validation queries prefer, and float[seed][query] for each
    measure.
    """
    train, valid, test = parts
    if "curvature" in params:
        params = {**params, "objective": SPECS[params["objective"]]}

    def model_at(rate: float, seed: int) -> boostrank.RankingModel:
        settings = {**params, "learning_rate": rate, "seed": seed, "num_threads": threads}
        return boostrank.train(
            settings, train, TREES_OF_THE_PAPER, valid_sets=[valid], valid_names=["valid"]
        )

    def validated(model: boostrank.RankingModel) -> float:
        return float(model.evals_result["valid"]["ndcg@10"][model.best_iteration - 1])

    rates = RATES[name]
    models = [model_at(rate, 0) for rate in rates]
    best = int(np.argmax([validated(model) for model in models]))
    models = [models[best], *(model_at(rates[best], seed) for seed in range(1, SEEDS))]
    result: dict[str, Any] = {
        "rate": rates[best],
        "trees": [model.best_iteration for model in models],
    }
    for convention, rules in CONVENTIONS[name].items():
        per_seed = [
            evaluate(METRICS, test.labels, model.predict(test), test.queries, conventions=rules)
            for model in models
        ]
        result[convention] = {
            m: [results[m].per_query.tolist() for results in per_seed] for m in per_seed[0]
        }
    return result


def _means(pooled: dict[str, dict[tuple[str, str], Values]], rates: dict[str, list[float]]) -> str:
    header = [
        "method",
        *(f"{metric}, {convention}" for convention, metric in SHOWN),
        "rates chosen",
    ]
    rows = [
        [
            method,
            *(f"{np.nanmean(values[key]):.3f}" for key in SHOWN),
            " ".join(f"{rate:g}" for rate in rates[method]),
        ]
        for method, values in pooled.items()
    ]
    return markdown(header, rows)


def _claims(pooled: dict[str, dict[tuple[str, str], Values]]) -> str:
    header = ["difference", *(f"{metric}, {convention}" for convention, metric in COMPARED)]
    rows = [
        [
            f"{higher} - {lower}",
            *(_interval(pooled[higher][key] - pooled[lower][key]) for key in COMPARED),
        ]
        for higher, lower in CLAIMS
    ]
    return markdown(header, rows)


def _interval(differences: Values) -> str:
    """`+.003 [-.001, +.007]` of float64[seed, query]: seeds and queries are drawn again, both with
    replacement.
    """
    differences = differences[:, ~np.isnan(differences).any(axis=0)]
    seeds, queries = differences.shape
    rng = np.random.default_rng(0)
    means = [
        differences[rng.integers(0, seeds, seeds)][:, rng.integers(0, queries, queries)].mean()
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{differences.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


if __name__ == "__main__":
    main("smooth_dcg", run, __doc__)
