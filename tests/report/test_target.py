"""Looking for the conventions behind somebody else's number."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.core.conventions import PRESETS
from boostrank.core.errors import ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.metric import evaluate
from boostrank.reporting.conventions import find_conventions
from tests.report.test_metrics import LABELS, QUERIES, SCORES


@pytest.mark.parametrize("library", [name for name in PRESETS if name != "trec"])
@pytest.mark.parametrize("metric", ["ndcg@3", "map@3", "precision@10"])
def test_the_conventions_of_each_library_are_found_by_its_number(library: str, metric: str) -> None:
    theirs = evaluate(metric, LABELS, SCORES, QUERIES, library)[metric].mean
    hits = [match for match in find_conventions(f"{theirs:.9f}", LABELS, SCORES, QUERIES, metric) if match.hit]
    assert any(library in match.libraries for match in hits)


def test_what_is_found_gives_the_value_that_is_told() -> None:
    weighted = QueryIndex(QUERIES.ptr, QUERIES.qid, np.resize([1.0, 4.0, 2.0], len(QUERIES)))
    for match in find_conventions("0.5", LABELS, SCORES, weighted, ["ndcg@3", "recall@2"])[::7]:
        alone = evaluate(match.metric, LABELS, SCORES, weighted, match.conventions)[match.metric]
        assert match.value == pytest.approx(alone.mean, rel=1e-12)


def test_the_nearest_come_first_and_hits_are_those_that_round_to_the_target() -> None:
    matches = find_conventions("0.66", LABELS, SCORES, QUERIES, "ndcg@3")
    away = [abs(match.difference) for match in matches]
    assert np.all(np.diff(away) > -1e-11)
    assert [match.hit for match in matches] == [f"{match.value:.2f}" == "0.66" for match in matches]
    assert len({match.conventions for match in matches}) == len(matches)


def test_conventions_that_cannot_matter_are_not_varied() -> None:
    index = QueryIndex.from_sizes([3, 3])
    labels, scores = [1, 0, 1, 0, 1, 0], [3.0, 2.0, 1.0, 3.0, 2.0, 1.0]
    matches = find_conventions("1.0", labels, scores, index, "ndcg@3")
    assert [list(match.choices) for match in matches] == [["discount"]] * 2
    # Tied by float32 alone, an empty query, a query of one document, lists shorter than the cut-off, grades.
    index = QueryIndex.from_sizes([3, 2, 1])
    labels, scores = [2, 0, 1, 0, 0, 1], [3.0, 3.0 + 1e-9, 1.0, 3.0, 2.0, 1.0]
    matches = find_conventions("1.0", labels, scores, index, "ndcg@3")
    assert set(matches[0].choices) == {"gain", "discount", "short_lists", "ties", "score_type", "empty", "single"}
    assert len(matches) == 2 * 2 * 2 * 4 * 2 * 3 * 2


@pytest.mark.parametrize("target", ["0.8o", "nan", ""])
def test_a_target_is_a_number(target: str) -> None:
    with pytest.raises(ParameterError, match="must be a number"):
        find_conventions(target, LABELS, SCORES, QUERIES)
