"""Columns within queries: the kernel says what the slow twin says, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.kernels.within_query import KINDS, fill_within_queries
from tests.reference.within_query import within_query

ODD = np.array(
    [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -3.4e38, 3.4e38, 1.0, 16777217.0], np.float32
)


def table(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of many kinds, more than are worked on together; queries of 1 to 300 documents."""
    rng = np.random.default_rng(seed)
    ptr = np.cumsum([0, 1, 2, 1, 39, 40, 41, 300, 7, 120])
    n = ptr[-1]
    columns = [
        rng.normal(size=(n, 9)),
        rng.lognormal(0, 6, (n, 4)),
        rng.integers(-300, 300, (n, 3)),
        rng.integers(0, 2, (n, 2)),
        rng.choice(ODD, (n, 2)),
        np.full((n, 1), 0.1),
    ]
    features = np.column_stack(columns).astype(np.float32)
    features[rng.random(features.shape) < 0.1] = np.nan
    features[40:79, 0] = np.nan  # missing throughout a query
    return features, ptr


def filled(
    features: np.ndarray, ptr: np.ndarray, columns: np.ndarray, threads: int = 1
) -> np.ndarray:
    out = np.zeros((len(features), features.shape[1] + len(KINDS) * len(columns)), np.float32)
    fill_within_queries(features, columns, KINDS, ptr, out, threads)
    return out


def test_the_kernel_says_what_the_twin_says() -> None:
    features, ptr = table(1)
    chosen = np.array([0, *range(20, 1, -1)])
    out = filled(features, ptr, chosen)
    np.testing.assert_array_equal(out[:, :21], features)
    for number, kind in enumerate(KINDS):
        columns = out[:, 21 + number * 20 :][:, :20]
        np.testing.assert_allclose(
            columns, within_query(kind, features[:, chosen], ptr), rtol=3e-7, atol=1e-12
        )


def test_ranks_go_from_0_to_1_and_ties_share_them() -> None:
    x = np.array([[3.0], [1.0], [1.0], [np.nan], [-0.0], [0.0], [9.0]], np.float32)
    out = np.empty((7, 1), np.float32)
    fill_within_queries(x, np.array([0]), ["rank"], np.array([0, 6, 7]), out)
    assert out[:3, 0].tolist() + out[4:, 0].tolist() == [1.0, 0.625, 0.625, 0.125, 0.125, 0.5]
    assert np.isnan(out[3, 0])


def test_other_queries_and_the_order_of_documents_change_nothing() -> None:
    features, ptr = table(2)
    whole = filled(features, ptr, np.arange(21))
    order = np.random.default_rng(0).permutation(300)
    alone = filled(features[124:424][order], np.array([0, 300]), np.arange(21))
    np.testing.assert_allclose(alone, whole[124:424][order], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(alone[:, 21:42], whole[124:424][order][:, 21:42])


@pytest.mark.parametrize("threads", [2, 3])
def test_any_number_of_threads_gives_the_same_bytes(threads: int) -> None:
    features, ptr = table(3)
    features, ptr = (
        np.tile(features, (20, 1)),
        np.concatenate([[0], np.cumsum(np.tile(np.diff(ptr), 20))]),
    )
    single_thread = filled(features, ptr, np.arange(21))
    assert filled(features, ptr, np.arange(21), threads).tobytes() == single_thread.tobytes()


@pytest.mark.parametrize("documents", [2, 39, 40, 41])
@pytest.mark.parametrize("byte", range(4))
def test_one_value_that_differs_in_one_byte_is_put_in_its_place(documents: int, byte: int) -> None:
    ptr = np.array([0, documents])
    for position in {0, 1, documents - 1}:
        bits = np.full((documents, 1), 0x3F123456, np.uint32)
        bits[position] ^= np.uint32(1 << 8 * byte)
        values = bits.view(np.float32)
        out = np.empty((documents, 1), np.float32)
        fill_within_queries(values, np.array([0]), ["rank"], ptr, out)
        np.testing.assert_array_equal(out, within_query("rank", values, ptr).astype(np.float32))
        assert len(np.unique(out)) == 2
