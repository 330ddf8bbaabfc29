"""Score files, one number a line in the order of the rows of the data; and models, which make scores."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from boostrank.core.errors import FileFormatError

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.training.model import RankingModel

_LOOK = 64
# `float` takes more: 1_000, digits of other scripts.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def load_ranker(path: str) -> RankingModel | None:
    """The model in a file, None when it holds scores, by its first bytes; its name does not matter.

    Raises:
        FileFormatError: it is empty, or no model that can be read.
    """
    with open(path, "rb") as file:
        head = file.read(_LOOK).removeprefix(codecs.BOM_UTF8).lstrip()
    if not head:
        raise FileFormatError("the file is empty: neither a model nor scores", file=path)
    if head[:1].isdigit() or head[:1] in (b"+", b"-", b".") or head[:3].lower() in (b"nan", b"inf"):
        return None
    from boostrank.training.model import RankingModel

    return RankingModel.load(path)


def scores_of(path: str, model: RankingModel | None, data: RankingDataset, threads: int | None) -> Any:
    """One score a row of `data`, which may have been regrouped while it was read: float64[N].

    Args:
        path: of a model or a score file.
        model: what `load_ranker` made of it.
    """
    scores = read_scores(path, data.n_documents) if model is None else model.predict(data, threads=threads)
    return data.in_row_order(scores)


def read_scores(path: str, rows: int) -> Any:
    """float64[N].

    Args:
        path: the file; blank lines are allowed at its end alone.
        rows: N, the rows of the data.

    Raises:
        FileFormatError: a line that is not one finite number, or another number of them.
    """
    import numpy as np

    with open(path, encoding="utf-8-sig", errors="backslashreplace") as file:
        lines = file.read().rstrip().split("\n")
    scores: list[float] = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        score = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(score):
            what = f"{text[:40]!r} is not a finite score" if text else "the line is blank: a score was expected"
            raise FileFormatError(what, file=path, line=number)
        scores.append(score)
    if len(scores) != rows:
        raise FileFormatError(f"{len(scores):,} scores, but the data has {rows:,} rows", file=path)
    return np.array(scores)


def score_lines(scores: Iterable[float]) -> Iterable[str]:
    """Each score as the shortest text that reads back as the same number."""
    return (f"{float(score)!r}\n" for score in scores)
