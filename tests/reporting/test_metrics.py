"""Tied documents."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from boostrank.core.queries import QueryIndex
from boostrank.reporting.sections.verdict import tied_documents


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
    assert tied_documents(*map(np.array, (labels, scores)), index, score_type) == count


def test_tied_documents_of_no_documents() -> None:
    assert tied_documents(np.zeros(0), np.zeros(0), QueryIndex.from_sizes([])) == 0
