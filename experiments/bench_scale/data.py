"""Files to measure on: MSLR-like (136 dense features) and sparse (700 features), written in shards
of whole queries.

The values are those of `boostrank data make`, whole numbers, zeros and six-digit fractions; the
useless features fill up the width. Queries of all shards are distinct.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.files.writer import write_libsvm

DENSE_FEATURES = 136
SPARSE_FEATURES = 700
BYTES_A_ROW = 1110
"""Of text, with `DENSE_FEATURES`."""
_ROWS_A_SHARD = 50_000
_LIST = 120
_ZEROS = 0.6
_SPARSE_PRESENT = 0.29  # of the cells, as in Yahoo's data


def write_dense(path: Path, rows: int, *, seed: int = 1) -> None:
    """About `rows` rows x `DENSE_FEATURES`."""
    with path.open("wb") as out:
        done = shard = 0
        while done < rows:
            data = _shard(min(_ROWS_A_SHARD, rows - done), seed + shard, shard)
            done += _append(out, path, data)
            shard += 1


def write_sparse(path: Path, rows: int, *, seed: int = 1) -> None:
    """About `rows` rows x `SPARSE_FEATURES`, of which 29% are present."""
    from scipy import sparse

    with path.open("wb") as out:
        done = shard = 0
        while done < rows:
            rng = np.random.default_rng([seed, shard])
            data = _shard(min(_ROWS_A_SHARD // 4, rows - done), seed + shard, shard)
            n = data.n_documents
            wide = np.zeros((n, SPARSE_FEATURES), np.float32)
            wide[:, :DENSE_FEATURES] = np.nan_to_num(data.features)
            fractions = np.round(rng.random((n, SPARSE_FEATURES - DENSE_FEATURES)), 6)
            wide[:, DENSE_FEATURES:] = fractions
            wide[rng.random(wide.shape) > _SPARSE_PRESENT] = 0.0
            wide[0, 0] = wide[0, -1] = 1.0
            features = sparse.csr_matrix(wide)
            done += _append(out, path, RankingDataset(features, data.labels, data.queries))
            shard += 1


def _shard(rows: int, seed: int, shard: int) -> RankingDataset:
    queries = max(2, round(rows / _LIST))
    informative = len(
        make_ranking_data(queries=2, mean_length=2.0, useless=0, seed=0).dataset.feature_names
    )
    made = make_ranking_data(
        queries=queries, mean_length=float(_LIST), useless=DENSE_FEATURES - informative, seed=seed
    ).dataset
    made.features[np.isnan(made.features)] = 0.0  # XGBoost's reader fails on "nan"
    rng = np.random.default_rng([seed, 1])
    for column in range(informative, DENSE_FEATURES, 2):  # many of MSLR's cells are 0
        made.features[rng.random(made.n_documents) < _ZEROS, column] = 0.0
    ids = np.arange(len(made.queries), dtype=np.int64) + shard * 1_000_000
    return RankingDataset(
        made.features, made.labels, QueryIndex(made.queries.ptr, ids), made.feature_names
    )


def _append(out: object, path: Path, data: RankingDataset) -> int:
    part = path.with_suffix(".part")
    write_libsvm(part, data)
    out.write(part.read_bytes())  # type: ignore[attr-defined]
    part.unlink()
    return data.n_documents
