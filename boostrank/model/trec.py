"""TREC runs (`query Q0 document rank score tag`), and metrics of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import Any

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.errors import DataError, InputError, warn_user
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.files.judgements import Values, values_by_query
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
        scores = piece.values.tolist(), piece.values.astype(np.float32).tolist()
        names = map(str, piece.qids), map(str, piece.document_names)
        yield from zip(*names, *scores, strict=True)


def data_of_runs(
    runs: Sequence[Any], judgements: Mapping[str, Any]
) -> tuple[RankingDataset, list[Float64Array], dict[str, Float64Array]]:
    """Return the documents of judged queries as a data set without features, whose labels are the
    first judge's grades.

    It has the queries that all runs answer and any judge judged, and of each query all documents
    that a run lists or a judge judged.

    Args:
        runs, judgements: see `boostrank.files.judgements.values_by_query`. Judgements are by judge.

    Returns:
        The data set; the scores of each run, float64[N], NaN for documents that it does not list;
        and the grades of each judge, float64[N], NaN where it did not judge. Negative grades are 0.

    Raises:
        DataError: the runs answer no judged query, or a file cannot be read.
    """
    # Read the files, and find the queries that all runs answer.
    lists = [values_by_query(run, run=True) for run in runs]
    graded = {judge: values_by_query(source) for judge, source in judgements.items()}
    judged = dict.fromkeys(chain.from_iterable(graded.values()))
    asked = [qid for qid in judged if all(qid in scores for scores in lists)]
    if not asked:
        run = next((run for run in lists if not run.keys() & judged.keys()), lists[0])
        raise DataError(
            f"no judged query is in all runs: a run has {next(iter(run), 'none')}, the qrels have"
            f" {next(iter(judged), 'none')}"
        )
    # Warn where names of documents cannot be those of the judgements.
    for run in lists:
        pairs = [(qid, values[qid]) for values in graded.values() for qid in asked if qid in values]
        if not any(run[qid].keys() & judged_names.keys() for qid, judged_names in pairs):
            qid, judged_names = pairs[0]
            warn_user(
                "no document in the run is judged, so all count as irrelevant: query"
                f" {qid!r} has {next(iter(run[qid]))!r} in the run, and"
                f" {next(iter(judged_names))!r} in the qrels"
            )
    # List the documents of each query, and make a column of what each file says of them.
    sources = [*lists, *graded.values()]
    documents = dict.fromkeys(
        (qid, name) for qid in asked for file in sources for name in file.get(qid, ())
    )

    def column(values: Values) -> Float64Array:
        return np.array([values.get(qid, {}).get(name, np.nan) for qid, name in documents])

    grades = {
        judge: np.maximum(column(judge_grades), 0.0) for judge, judge_grades in graded.items()
    }
    labels = np.nan_to_num(next(iter(grades.values())))
    sizes = Counter(qid for qid, _ in documents).values()
    queries = QueryIndex(np.cumsum([0, *sizes]), np.array(asked, object))
    features = np.zeros((labels.size, 0), np.float32)
    names = np.array([name for _, name in documents], object)
    data = RankingDataset(features, labels, queries, document_names=names)
    return data, list(map(column, lists)), grades


def bind_run(
    metrics: Any,
    data: RankingDataset,
    scores: Float64Array,
    rules: Conventions,
    threads: int | None = None,
) -> tuple[BoundMetrics, Float64Array]:
    """Bind metrics to the documents that a run lists, and return their scores too.

    Judged documents that it does not list count in recall, MAP and the ideal ranking of NDCG.

    Args:
        data, scores: see `data_of_runs`.
    """
    rows = np.flatnonzero(~np.isnan(scores))
    queries = data.queries
    sizes = np.bincount(queries.of_rows()[rows], minlength=len(queries))
    bound = BoundMetrics(
        metrics,
        data.labels[rows],
        QueryIndex(np.cumsum([0, *sizes]), queries.qid, queries.weights),
        rules.with_best_grade(data.labels),
        threads,
        docnos=np.asarray(data.document_names)[rows],
        judged=(data.labels, queries),
    )
    return bound, scores[rows]


def describe_left_out(run: Values, name: str, grades: Values) -> str:
    """Say which queries a run and the qrels do not share, or return "" if there are none."""
    missing = [qid for qid in grades if qid not in run]
    unjudged = [qid for qid in run if qid not in grades]
    reasons = []
    if missing:
        reasons.append(
            f"{len(missing):,} judged without documents (0 in trec_eval -c: {missing[0]})"
        )
    if unjudged:
        reasons.append(f"{len(unjudged):,} without judgements ({unjudged[0]})")
    return f"{name}: queries left out: {', '.join(reasons)}" if reasons else ""


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
    grades = values_by_query(qrels)
    data, (scores,), _ = data_of_runs([run], {"label": grades})
    bound, listed_scores = bind_run(metrics, data, scores, Conventions.of(rules), threads)
    results = bound.results(listed_scores)
    for name, result in results.items():
        by_query = dict(zip(data.queries.qid, result.per_query, strict=True))
        per_query = np.array([by_query.get(qid, np.nan) for qid in grades])
        results[name] = replace(result, per_query=per_query)
    return results
