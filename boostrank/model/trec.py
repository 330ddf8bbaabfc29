"""TREC runs (`query Q0 document rank score tag`), and metrics of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.errors import DataError, InputError
from boostrank.core.queries import QueryIndex
from boostrank.files.judgements import values_by_query
from boostrank.metrics import BoundMetrics, Metric, MetricResult

RUN = "query Q0 document rank score tag"


def run_text(pieces: Iterable[Any], tag: str) -> Iterator[bytes]:
    """Yield the lines of a run, ranked as in trec_eval by score in float32 and then by document
    name, both descending.

    Args:
        pieces: `boostrank.files.assemble.Named`.

    Raises:
        InputError: if ids or names are missing, or names have blanks or are repeated, or queries
            are not contiguous.
    """
    queries = set[str]()
    for qid, rows in groupby(_rows(pieces), lambda row: row[0]):
        if qid in queries:
            raise InputError(
                f"the rows of query {qid!r} are not contiguous, as a run requires: run boostrank"
                " data sort first"
            )
        queries.add(qid)
        ranked_rows = sorted(rows, key=lambda row: (row[3], row[1].encode()))[::-1]
        seen_names = set[str]()
        for rank, (_, name, score, _) in enumerate(ranked_rows, 1):
            line = f"{qid} Q0 {name} {rank} {score!r} {tag}"
            if len(line.split()) != len(RUN.split()):
                raise InputError(
                    f"{line!r} is not a line of a run, `{RUN}`: names must not be empty or"
                    " contain blanks: use other names, or write a table, -o scores.csv"
                )
            if name in seen_names:
                raise InputError(
                    f"query {qid!r} has two documents {name!r}, but a run lists each document once"
                )
            seen_names.add(name)
            yield f"{line}\n".encode()


def _rows(pieces: Iterable[Any]) -> Iterator[tuple[str, str, float, float]]:
    for piece in pieces:
        if piece.qids is None or piece.document_names is None:
            raise InputError(
                "a run needs query and document ids: use --id COLUMN, or comments in libsvm rows"
            )
        float32_scores = piece.values.astype(np.float32).tolist()
        yield from zip(
            map(str, piece.qids),
            map(str, piece.document_names),
            piece.values.tolist(),
            float32_scores,
            strict=True,
        )


def evaluate_run(
    metrics: Sequence[str | Metric],
    run: Any,
    qrels: Any,
    rules: Conventions | str = "trec",
    threads: int | None = None,
) -> dict[str, MetricResult]:
    """Evaluate a run as trec_eval does.

    Unjudged documents are irrelevant. Judged documents that are not in the run contribute to
    recall, MAP and the ideal ranking of NDCG. Queries in the qrels without documents in the run are
    excluded (`trec_eval -c` includes them as 0).

    Args:
        metrics: metrics, such as `ndcg@10` and `map`.
        run, qrels: paths, data frames, or mappings such as {"q1": {"d1": 2}}, in a form of
            `boostrank.files.judgements`.

    Returns:
        The result of each metric. `per_query` has the order of `qrels`, with NaN for excluded
        queries.

    Raises:
        DataError: if no query in the run is judged, or a file cannot be read.
        ParameterError: if a metric is unknown.
    """
    run, qrels = values_by_query(run, run=True), values_by_query(qrels)
    judged_qids = [qid for qid in qrels if qid in run]
    if not judged_qids:
        raise DataError(
            f"no query in the run is judged: it has {next(iter(run))}, the qrels have"
            f" {next(iter(qrels))}"
        )
    run = {qid: run[qid] for qid in judged_qids}
    # Unjudged documents have label 0; ideal rankings are of the judged ones.
    labels = [max(qrels[qid].get(name, 0.0), 0.0) for qid in judged_qids for name in run[qid]]
    judged = np.array([max(grade, 0.0) for qid in judged_qids for grade in qrels[qid].values()])
    ids = np.array(judged_qids, object)
    queries = QueryIndex(np.cumsum([0, *(len(run[qid]) for qid in judged_qids)]), ids)
    judged_queries = QueryIndex(np.cumsum([0, *(len(qrels[qid]) for qid in judged_qids)]), ids)
    names = [name for query_values in run.values() for name in query_values]
    bound_metrics = BoundMetrics(
        Metric.all_of(metrics),
        labels,
        queries,
        conventions=rules,
        threads=threads,
        docnos=names,
        judged=(judged, judged_queries),
    )
    results = bound_metrics.results(
        [score for query_values in run.values() for score in query_values.values()]
    )
    for name, result in results.items():
        query_values = dict(zip(judged_qids, result.per_query, strict=True))
        results[name] = replace(
            result, per_query=np.array([query_values.get(qid, np.nan) for qid in qrels])
        )
    return results
