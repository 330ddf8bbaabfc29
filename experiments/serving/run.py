"""Serving: every kind of model in every program that serves rankers, and how far its scores are
from the model's own.

    python -m experiments.serving.run [--rows 100000] [--models small]

See README.md in this folder.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import boostrank
from boostrank.core.errors import BoostrankError
from boostrank.core.machine import available_threads
from boostrank.export import TARGETS
from boostrank.export.proof import MOVED
from experiments.common import arguments, markdown, save

ENGINES = ("lightgbm", "xgboost")
# What the rows are like, and the kinds of the parity pack that they are not.
DATA = {"plain": ("missing", "categories"), "missing": ("categories",), "categories": ("missing",)}
SIZES = {"small": (20, 15), "500 trees": (500, 63)}
FEATURES, DOCUMENTS, LENGTH = 20, 40_000, 100
CODES = [7, 8]


def main() -> None:
    """Train each kind of model, export it to each target with its proof, and write the table."""
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument(
        "--rows", type=int, default=100_000, help="random rows, beside those of the parity pack"
    )
    parser.add_argument(
        "--models", default="", help="a regular expression: 'small', '500 trees, xgboost, .*, auto'"
    )
    parser.add_argument(
        "--jobs", type=int, default=available_threads(), help="models that are looked at together"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out" / "serving.md")
    options = parser.parse_args()
    console, numbers = Console(stderr=True), []
    # The large ones take longest.
    models = itertools.product(list(SIZES)[::-1], ENGINES, DATA, ("auto", "none"))
    models = [model for model in models if re.search(options.models, ", ".join(model))]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for found in pool.map(looked_at, models, itertools.repeat(options.rows)):
            numbers += found
            console.print("{size}, {engine}, {data}, start {start}: done".format(**found[0]))
            save(options.out, table(numbers), numbers)
    print(options.out.read_text(), end="")


def looked_at(model: tuple[str, str, str, str], most_rows: int) -> list[dict[str, Any]]:
    """What each target makes of one model: size, engine, data, start."""
    size, engine, kind, start = model
    ranker = trained(engine, kind, start, *SIZES[size])
    numbers = []
    for target in TARGETS:
        # Few rows where it is slow.
        data = ranking_data(kind, min(most_rows, 5 * target.most_rows), seed=1)
        case = {"size": size, "engine": engine, "data": kind, "start": start, "target": target.name}
        numbers.append(case | exported(ranker, target.name, data, DATA[kind]))
    return numbers


def ranking_data(kind: str, documents: int, seed: int) -> boostrank.RankingDataset:
    """Random queries of one length: numbers of several scales, zeros, whole numbers, and codes
    where the kind is.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(documents, FEATURES))
    codes = rng.integers(0, 40, (documents, len(CODES)))
    worth = (
        X[:, 0]
        + X[:, 1] * X[:, 2]
        + 0.5 * X[:, 6]
        + (codes[:, 0] % 3 - codes[:, 1] % 2) * (kind == "categories")
    )
    y = np.clip(np.round(1.5 + worth + 0.7 * rng.normal(size=documents)), 0, 4)
    X[:, 3] = np.maximum(X[:, 3], 0.0)
    X[:, 4] *= 1e-3
    X[:, 5] = np.exp(3.0 * X[:, 5]) * 1e4
    X[:, 6] = np.round(3.0 * X[:, 6])
    if kind == "missing":
        X[rng.random(X.shape) < 0.1] = np.nan
    if kind == "categories":
        X[:, CODES] = codes
    return boostrank.RankingDataset.from_arrays(
        X.astype(np.float32), y, group=np.full(documents // LENGTH, LENGTH)
    )


def trained(engine: str, kind: str, start: str, rounds: int, leaves: int) -> boostrank.RankingModel:
    """A model of this kind."""
    data = ranking_data(kind, DOCUMENTS, seed=0)
    coded = {"categorical_feature": CODES} if kind == "categories" else {}
    # A thread each: models stand beside each other.
    quiet = {"verbose": -1} if engine == "lightgbm" else {"verbosity": 0}
    params = {"num_leaves": leaves, "num_threads": 1, **quiet, **coded}
    return boostrank.train(params, data, rounds, backend=engine, start=start)


def exported(
    model: boostrank.RankingModel,
    target: str,
    data: boostrank.RankingDataset,
    others: tuple[str, ...],
) -> dict[str, Any]:
    """What the proof of an export says; the reason where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            names = [f"f{i}" for i in range(model.n_features)]
            proof = boostrank.export_model(
                model,
                Path(folder) / "model",
                target,
                feature_names=names,
                data=data,
                allow=(*others, MOVED),
            )
        except BoostrankError as error:
            return {"refused": str(error)}
    assert proof.moves is not None
    first = None if proof.moves.first is None else list(proof.moves.first)
    return {
        "same_bits": proof.same_bits and proof.moves.largest == 0.0,
        "largest": max(proof.largest, proof.moves.largest),
        "moved": proof.moves.moved,
        "documents": proof.moves.documents,
        "first": first,
        "splits": proof.nodes,
        "of_splits": proof.of_nodes,
        "proved_by": proof.proved_by,
        "bytes": proof.size,
    }


def table(numbers: list[dict[str, Any]]) -> str:
    """A line a target: the largest difference over models with a start and without, small and
    large.
    """
    kinds = [(engine, data) for engine in ENGINES for data in DATA]
    rows = []
    for target in dict.fromkeys(one["target"] for one in numbers):
        cells, of_target = [], [one for one in numbers if one["target"] == target]
        for engine, data in kinds:
            found = [one for one in of_target if (one["engine"], one["data"]) == (engine, data)]
            held = [one for one in found if "refused" not in one]
            cell = f"{max((one['largest'] for one in held), default=0.0):.1g}"
            parts = ["same bits" if all(one["same_bits"] for one in held) else cell] if held else []
            parts += sorted(
                {f"refused: {reason(one['refused'])}" for one in found if "refused" in one}
            )
            cells.append(", ".join(parts))
        moved = [one for one in of_target if one.get("first")]
        place = (
            "none"
            if not moved
            else f"query {moved[0]['first'][0]}, document {moved[0]['first'][1]}"
        )
        rows.append([target, *cells, place])
    return markdown(
        ["target", *(f"{engine}, {data}" for engine, data in kinds), "first document that moved"],
        rows,
    )


def reason(refusal: str) -> str:
    """What is refused, in a word."""
    words = {
        "of kind 'missing'": "missing values",
        "categorical feature": "categories",
        "compares and sums": "engine",
        "is more than": "size",
        "deeper": "depth",
        "pip install": "not installed",
    }
    return next((word for text, word in words.items() if text in refusal), refusal)


if __name__ == "__main__":
    main()
