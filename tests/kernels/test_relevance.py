"""Which documents are relevant, and which queries can teach a binary objective."""

from __future__ import annotations

import numpy as np

from boostrank.kernels.shared import relevance_constants


def constants(labels, sizes, relevant_from):
    y, ptr = np.array(labels, dtype=np.float64), np.concatenate([[0], np.cumsum(sizes)])
    documents, queries = relevance_constants(
        y, np.exp2(y) - 1, ptr, {"relevant_from": relevant_from}
    )
    return documents[:, 0].tolist(), queries[:, 0].tolist()


def test_every_label_above_zero_is_relevant_unless_a_threshold_is_given():
    assert constants([0, 0.5, 2, 1], [4], 0.0) == ([0, 1, 1, 1], [3])
    assert constants([0, 0.5, 2, 1], [4], 1.0) == ([0, 0, 1, 1], [2])
    assert constants([0, 0.5, 2, 1], [4], 5.0) == ([0, 0, 0, 0], [0])


def test_queries_whose_documents_are_all_relevant_or_all_not_count_none():
    assert constants([1, 2, 0, 0, 0, 3], [2, 2, 0, 2], 0.0)[1] == [0, 0, 0, 1]
