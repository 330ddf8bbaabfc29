"""The same scores under many conventions: the numbers are the conventions' own, and the steps
between them add up.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boostrank.core.conventions import PRESETS, Conventions
from boostrank.core.errors import ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.metrics import evaluate
from boostrank.reporting.conventions import (
    LIBRARIES,
    STEPS,
    Explanation,
    explain_conventions,
    tied_documents,
)
from tests.metrics.golden.make import inputs

DRAWN = inputs()
LABELS, SCORES = np.array(DRAWN["labels"]), np.array(DRAWN["scores"])
QUERIES = QueryIndex.from_sizes(DRAWN["sizes"])
NAMES = tuple(PRESETS)


def explain(metric: str, base: str = "default", names: tuple[str, ...] = NAMES) -> Explanation:
    (explanation,) = explain_conventions(
        LABELS, SCORES, QUERIES, metric, names, base=base, docnos=DRAWN["docnos"]
    )
    return explanation


def test_every_convention_is_a_step() -> None:
    steps = [field for fields in STEPS.values() for field in fields]
    assert sorted(steps) == sorted(field.name for field in fields(Conventions))


@pytest.mark.parametrize("metric", ["ndcg@10", "map@5", "precision@10", "mrr", "recall@3", "dcg@5"])
@pytest.mark.parametrize("base", ["default", "catboost", "letor"])
def test_the_steps_add_up_to_the_value_under_the_librarys_own_conventions(
    metric: str, base: str
) -> None:
    explanation = explain(metric, base)
    assert explanation.value == evaluate(metric, LABELS, SCORES, QUERIES, base)[metric].mean
    for reading in explanation.readings:
        alone = evaluate(metric, LABELS, SCORES, QUERIES, reading.name, docnos=DRAWN["docnos"])[
            metric
        ]
        assert reading.value == alone.mean
        assert explanation.value + sum(c.change for c in reading.changes) == pytest.approx(
            reading.value, abs=1e-14
        )
        assert [c.value for c in reading.changes][-1:] in ([reading.value], [])
        order = [*STEPS]
        at = [order.index(change.convention) for change in reading.changes]
        assert at == sorted(set(at))


def test_a_library_is_compared_with_itself_in_no_steps() -> None:
    (reading,) = explain("ndcg@10", "xgboost", ("xgboost",)).readings
    assert reading.changes == ()


def test_what_differs_alone_takes_the_whole_difference() -> None:
    """Five documents of one query; a constant model; then a second query, without a relevant
    document.
    """
    one_query, two_queries = QueryIndex.from_sizes([5]), QueryIndex.from_sizes([5, 1])
    (explanation,) = explain_conventions([1, 0, 0, 0, 0], np.zeros(5), one_query, "ndcg@5")
    values = {reading.name: reading.value for reading in explanation.readings}
    mean = np.mean(1.0 / np.log2(np.arange(2.0, 7.0)))
    assert values["lightgbm"] == values["xgboost"] == 1.0  # the relevant one happens to come first
    assert values["catboost"] == pytest.approx(1.0 / np.log2(6.0))
    assert values["sklearn"] == pytest.approx(mean)
    assert explanation.value == pytest.approx(mean)
    lightgbm = explanation.readings[0]
    assert {c.convention: c.change for c in lightgbm.changes if c.change} == {
        "ties": pytest.approx(1.0 - mean)
    }

    (explanation,) = explain_conventions(
        [1, 0, 0, 0, 0, 0], [5, 4, 3, 2, 1, 0], two_queries, "ndcg@5"
    )
    changes = [
        {c.convention: c.change for c in r.changes if c.change} for r in explanation.readings
    ]
    names = [reading.name for reading in explanation.readings]
    assert dict(zip(names, changes, strict=True)) == {
        "lightgbm": {},
        "xgboost": {},
        "catboost": {},
        "sklearn": {},
        "trec": {"empty": -0.5},
        "letor": {"empty": -0.5},
    }
    assert (explanation.queries, explanation.empty, explanation.single, explanation.short) == (
        2,
        1,
        1,
        1,
    )


def test_the_order_of_ties_is_worth_best_minus_worst() -> None:
    (explanation,) = explain_conventions(
        [0, 1, 1, 0], [2, 2, 1, 1], QueryIndex.from_sizes([2, 2]), "ndcg@1"
    )
    ties = explanation.ties
    assert (ties.worst, ties.file_order, ties.expected, ties.best) == (0.0, 0.5, 0.5, 1.0)
    assert (ties.worth, ties.tied, ties.mass) == (1.0, 4, 1.0)


def test_without_document_names_trec_is_told_with_the_range_that_names_could_make() -> None:
    (explanation,) = explain_conventions(
        [0, 1], [1, 1], QueryIndex.from_sizes([2]), "ndcg@1", ["trec"]
    )
    (reading,) = explanation.readings
    assert reading.value == 0.5
    assert "from 0.0000 to 1.0000" in reading.note
    (explanation,) = explain_conventions(
        [0, 1], [1, 1], QueryIndex.from_sizes([2]), "ndcg@1", ["trec"], docnos=["a", "b"]
    )
    assert (explanation.readings[0].value, explanation.readings[0].note) == (1.0, "")
    (explanation,) = explain_conventions(
        [0, 1], [1, 2], QueryIndex.from_sizes([2]), "ndcg@1", ["trec"]
    )
    assert (explanation.readings[0].value, explanation.readings[0].note) == (1.0, "")


def test_a_library_that_refuses_the_data_says_why_and_the_others_answer() -> None:
    (explanation,) = explain_conventions(
        [1, 1], [1, 2], QueryIndex.from_sizes([1, 1]), "ndcg@1", ["sklearn", "lightgbm"]
    )
    sklearn, lightgbm = explanation.readings
    assert sklearn.value is None
    assert "2 have one document" in sklearn.note
    assert lightgbm.value == 1.0


def test_each_metric_and_cutoff_has_its_own_explanation() -> None:
    explanations = explain_conventions(LABELS, SCORES, QUERIES, ["ndcg@1,10", "map"], LIBRARIES)
    assert [explanation.metric for explanation in explanations] == ["ndcg@1", "ndcg@10", "map"]
    with pytest.raises(ParameterError, match="xgboost"):
        explain_conventions(LABELS, SCORES, QUERIES, "ndcg", ["xgbost"])


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from([-0.0, 0.0, 1.0, 1.0 + 1e-12])
            )
        ),
        min_size=1,
        max_size=4,
    ).map(lambda lists: [documents for documents in lists if documents] or [[(0.0, 0.0)]]),
    st.sampled_from(["float64", "float32"]),
)
def test_tied_documents_are_those_with_a_twin_of_another_label(
    lists: list[list[tuple[float, float]]], score_type: str
) -> None:
    rounded = np.float32 if score_type == "float32" else np.float64
    count = sum(
        any(y != other and rounded(s) == rounded(score) for other, score in documents)
        for documents in lists
        for y, s in documents
    )
    labels, scores = zip(*(document for documents in lists for document in documents), strict=True)
    index = QueryIndex.from_sizes([len(documents) for documents in lists])
    assert tied_documents(labels, scores, index, score_type=score_type) == count


def test_tied_documents_of_no_documents() -> None:
    assert tied_documents([], [], QueryIndex.from_sizes([])) == 0
