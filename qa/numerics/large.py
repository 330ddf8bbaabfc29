"""Queries of many documents, many queries, and orders and ties that are hard on sums."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import boostrank
from boostrank.core.queries import QueryIndex
from boostrank.files.writer import write_libsvm
from boostrank.objective.description import Objective

# Ranks of tied documents, or numbers that are drawn for them, go by their order in the file.
BY_ORDER = (
    "lambdarank",
    "lambdaloss",
    "smooth-ndcg",
    "xe-ndcg",
    "yetirank",
)


def hard_lists(n: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """What it is, labels and scores."""
    rng = np.random.default_rng(n)
    labels = rng.choice(5, n, p=[0.5, 0.3, 0.1, 0.06, 0.04])
    yield "spread", labels, rng.normal(size=n)
    yield "equal", labels, np.full(n, 0.25)
    yield "two values", labels, rng.choice([0.0, 3.0], n)
    yield "right order", np.sort(labels)[::-1], np.linspace(5.0, -5.0, n)
    yield "wrong order", np.sort(labels), np.linspace(5.0, -5.0, n)
    yield (
        "ties by ascending label",
        np.sort(labels),
        np.repeat([2.0, 0.0, -1.0, -1.5], -(-n // 4))[:n],
    )
    yield "geometric gaps", labels, np.geomspace(1e30, 1e-300, n)
    yield "geometric gaps, wrong order", np.sort(labels), np.geomspace(100.0, 1e-100, n)


def warm(spec: Any, **options: Any) -> Objective:
    """An objective that has a gradient at equal scores too, without the part that pulls scores to
    labels.
    """
    values = {"mix": 0.0} if "mix" in [p.name for p in spec.params] else {}
    if spec.name == "smooth-ndcg":
        values["sigma"] = 1.0
    return Objective(spec, **values, **options)


def sums_to_zero(spec: Any, what: str) -> bool:
    """Whether its gradient does on such a list; that of a mixture does without the squared error.

    XE-NDCG's does until one document stands so far above the rest that their shares are lost.
    """
    if spec.name == "xe-ndcg" and what == "geometric gaps":
        return False
    return spec.shift_invariant or "mix" in [p.name for p in spec.params]


def sum_of_gradient(spec: Any, labels: np.ndarray, scores: np.ndarray) -> float:
    """|sum| of one query's gradient over the sum of sizes, or over 1 if that is more; infinity if
    it is not finite.
    """
    bound = warm(spec, threads=1).bind(labels, QueryIndex.from_sizes([len(labels)]))
    grad = bound.evaluate(scores, 1).grad
    size = float(np.abs(grad).sum())
    if not np.isfinite(size):
        return float("inf")
    return abs(float(grad.sum())) / max(size, 1.0)


def change_by_order(spec: Any, labels: np.ndarray, scores: np.ndarray, seed: int = 0) -> float:
    """How far gradient and curvature are from the same, of their largest, when documents and
    queries are shuffled.

    Two queries, of a third and of two thirds of the documents; in their order where it numbers the
    draws.
    """
    rng, n = np.random.default_rng(seed), len(labels)
    sizes = [n // 3, n - n // 3]
    ordered = warm(spec, threads=1).bind(labels, QueryIndex.from_sizes(sizes)).evaluate(scores, 1)
    side = 1 if spec.random else -1
    rows = np.concatenate([rng.permutation(sizes[0]), sizes[0] + rng.permutation(sizes[1])][::side])
    shuffled = (
        warm(spec, threads=1)
        .bind(labels[rows], QueryIndex.from_sizes(sizes[::side]))
        .evaluate(scores[rows], 1)
    )
    worst = 0.0
    for before, after in ((ordered.grad, shuffled.grad), (ordered.hess, shuffled.hess)):
        largest = float(np.abs(before).max())
        if largest > 0.0:
            worst = max(worst, float(np.abs(before[rows] - after).max()) / largest)
    return worst


def bytes_by_threads(
    spec: Any, labels: np.ndarray, queries: QueryIndex, scores: np.ndarray
) -> set[bytes]:
    """Gradients with 1, 2 and 7 threads."""
    contents = set()
    for threads in (1, 2, 7):
        result = (
            warm(spec, threads=threads, total_rounds=40).bind(labels, queries).gradient(scores, 30)
        )
        contents.add(
            result.grad.tobytes() + result.hess.tobytes() + np.float64(result.stats.loss).tobytes()
        )
    return contents


def models_by_form(folder: Path, rows: int) -> dict[str, str]:
    """Form of the same rows -> text of the trees of a model trained on them."""
    rng = np.random.default_rng(4)
    labels, features = rng.integers(0, 5, rows), rng.normal(size=(rows, 6)).astype(np.float32)
    data = boostrank.RankingDataset.from_arrays(features, labels, group=[20] * (rows // 20))
    text = folder / "rows.txt"
    write_libsvm(text, data)
    packed = folder / "rows.txt.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    names = [f"f{i}" for i in range(1, 7)]
    lines = (
        ",".join([str(y), str(row // 20), *map(repr, x)])
        for row, (y, x) in enumerate(zip(labels, features.tolist(), strict=True))
    )
    table = folder / "rows.csv"
    table.write_text(
        "\n".join([",".join(["label", "qid", *names]), *lines]) + "\n", encoding="utf-8"
    )
    columns = {
        "label": labels,
        "qid": np.arange(rows) // 20,
        **dict(zip(names, features.T, strict=True)),
    }
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table(columns), folder / "rows.parquet")
    read = boostrank.read
    forms = {
        "arrays": data,
        "text": read(text),
        "text, one thread": read(text, threads=1),
        "text, chunks of 100 bytes": read(text, chunk_bytes=100),
        "gzip": read(packed),
        "csv": read(table, label="label", qid="qid"),
        "parquet": read(folder / "rows.parquet", label="label", qid="qid"),
        "stream": boostrank.stream(text, cache=folder / "cache"),
        "cache": boostrank.stream(text, cache=folder / "cache"),
    }
    trees = {"objective": "sdcg", "num_leaves": 7, "verbosity": -1, "num_threads": 1}
    models = {}
    for form, dataset in forms.items():
        model = boostrank.train(trees, dataset, 3, start=None)
        text_of_model = model.to_bytes().decode()  # its head has the names, which some forms lack
        models[form] = text_of_model[
            text_of_model.index("Tree=0") : text_of_model.index("end of trees")
        ]
    return models
