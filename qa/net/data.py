"""Small data sets for the net: made rows, the same each time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas

FEATURES = ["price", "clicks", "match", "rare", "age", "title", "stock"]
QUERIES = {"train": 48, "valid": 20}


def rows(part: str) -> pandas.DataFrame:
    """Label, qid, features, one of them a category, and weights of queries and rows, of "train" or
    "valid".
    """
    import pandas

    seed = list(QUERIES).index(part)
    draw = np.random.default_rng(seed)
    sizes = draw.integers(4, 14, QUERIES[part])
    many = int(sizes.sum())
    frame = pandas.DataFrame(
        {"label": 0, "qid": np.repeat(np.arange(sizes.size) + 100 * (seed + 1), sizes)}
    )
    frame["price"] = np.round(draw.lognormal(2.0, 1.0, many), 2)
    frame["clicks"] = draw.poisson(3.0, many)
    frame["match"] = np.round(draw.normal(size=many), 3)
    frame["rare"] = np.where(draw.random(many) < 0.8, 0, draw.integers(1, 9, many))
    frame["age"] = np.where(
        draw.random(many) < 0.2, np.nan, np.round(draw.gamma(2.0, 30.0, many), 1)
    )
    frame["title"] = draw.integers(0, 5, many)
    frame["stock"] = np.repeat(draw.integers(0, 100, sizes.size), sizes)
    frame["kind"] = np.array(["book", "film", "game", "toy"])[draw.integers(0, 4, many)]
    worth = (
        frame["match"]
        + 0.3 * frame["clicks"]
        - 0.2 * np.log(frame["price"])
        + 0.4 * (frame["kind"] == "film")
    )
    worth += (
        0.3 * frame["title"] * (frame["rare"] > 0)
        - 0.3 * frame["age"].isna()
        + 0.7 * draw.normal(size=many)
    )
    frame["label"] = np.searchsorted([0.6, 1.4, 2.2, 3.0], worth)
    frame["weight"] = np.repeat(np.round(draw.uniform(0.5, 2.0, sizes.size), 2), sizes)
    frame["row_weight"] = np.round(draw.uniform(0.1, 2.0, many), 2)
    return frame


def write_files(folder: Path) -> None:
    """Write both parts as libsvm text, CSV and Parquet, and a log of sessions on the training rows."""
    for part in QUERIES:
        frame = rows(part)
        frame.to_csv(folder / f"{part}.csv", index=False)
        frame.to_parquet(folder / f"{part}.parquet", index=False)
        for name, ordered in (
            (part, frame),
            (f"{part}-scattered", frame.sample(frac=1.0, random_state=1)),
        ):
            with open(folder / f"{name}.txt", "w", encoding="utf-8") as text:
                for i, (label, qid, *cells) in enumerate(
                    ordered[["label", "qid", *FEATURES]].to_numpy().tolist()
                ):
                    pairs = " ".join(
                        f"{j}:{cell:g}" for j, cell in enumerate(cells, 1) if cell != 0
                    )
                    text.write(f"{label:g} qid:{qid:g} {pairs} # docid = D{i}\n")
    draw, frame = np.random.default_rng(9), rows("train")
    with open(folder / "sessions.csv", "w", encoding="utf-8") as text:
        text.write("row,position,clicked\n")
        for row_numbers in frame.groupby("qid").indices.values():
            for _ in range(30):
                for position, row in enumerate(draw.permutation(row_numbers)[:5], 1):
                    clicked = draw.random() < (0.1 + 0.2 * frame["label"][row]) / position
                    text.write(f"{row + 1},{position},{int(clicked)}\n")
