"""Checks whether an objective keeps the kernel contract, for `boostrank objectives --check
my.py`.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator

import numpy as np

from boostrank.checking.rules import RULES, Finding, Probe, Status, unsafe
from boostrank.core.errors import BoostrankError, MissingDependency
from boostrank.core.queries import QueryIndex
from boostrank.data.synthetic import make_ranking_data
from boostrank.engines import ENGINES, get_backend
from boostrank.fit.from_data import train
from boostrank.kernels.objective import ObjectiveSpec
from boostrank.metrics import Metric
from boostrank.objective.description import Objective

__all__ = ["Finding", "Status", "check_contract", "check_objective"]

ROUNDS = 30
_TREES = {"num_leaves": 15, "learning_rate": 0.1, "seed": 1, "num_threads": 1, "verbosity": -1}
_METRIC = "ndcg@10"

LENGTHS = (10, 100, 1000, 4000)
_DOCUMENTS = 8_000
_SECONDS = 3.0  # longest expected time of a query that is measured

# Bounds on the exponent p of a cost of n^p per query.
_LINEAR, _QUADRATIC, _CUBIC = 1.4, 1.7, 2.6


def check_contract(
    spec: ObjectiveSpec, function: Callable[..., float] | None = None
) -> Iterator[Finding]:
    """Check every rule of the kernel contract on queries of 0 to 11 documents.

    If `function` is given, for example the kernel's Python body, it is called instead of the
    compiled kernel.
    """
    probe = Probe(spec, function)
    for rule in RULES:
        try:
            finding = rule(probe)
        except BoostrankError:
            raise
        except Exception as error:  # whatever the user's code raises
            message = f"the kernel raises {type(error).__name__}: {error}"
            mend = "see the kernel contract in boostrank.kernels.objective"
            finding = Finding("runs", Status.FAIL, message, "", "nothing can be computed", mend)
        yield finding
        if _is_fatal(finding):
            return


def check_objective(spec: ObjectiveSpec) -> Iterator[Finding]:
    """Check the contract, measure the cost by list length, and train briefly with every installed
    engine.

    Each finding is yielded as soon as it is made. All checks together take a few seconds.
    """
    finding = unsafe(spec)
    if finding is not None:  # compiled code would not be safe to call
        yield finding
        return
    for finding in check_contract(spec):
        yield finding
        if _is_fatal(finding):
            return
    yield cost(spec)
    yield from learning(spec)


def _is_fatal(finding: Finding) -> bool:
    """Return True if a finding makes all later results meaningless."""
    return finding.status is Status.FAIL and finding.check in ("memory", "runs")


def cost(spec: ObjectiveSpec) -> Finding:
    """Measure the time per document by list length, including the sort and the driver, and how a
    query's cost grows.
    """
    measured: dict[int, float] = {}  # seconds a document
    power = 3.0  # exponent of a query's cost; a safe guess until it is measured
    try:
        for length in LENGTHS:
            if any(
                seconds * last * (length / last) ** power > _SECONDS
                for last, seconds in measured.items()
            ):
                break
            measured[length] = _seconds_a_document(spec, length)
            if len(measured) > 1:  # fit without the shortest length if there are others
                pairs = [*measured.items()]
                if len(pairs) > 2:
                    del pairs[0]
                lengths, seconds = np.log(pairs).T
                power = 1.0 + float(np.polyfit(lengths, seconds, 1)[0])
    except BoostrankError as error:
        return _broken("speed", error)
    shape = f"about n^{power:.1f}"
    if power < _LINEAR:
        shape = "n or n log n"
    elif _QUADRATIC <= power < _CUBIC:
        shape = "n^2"
    costs = ", ".join(f"{seconds * 1e9:,.0f} at {length:,}" for length, seconds in measured.items())
    message = f"ns per document, by list length: {costs}; the cost of a query grows as {shape}"
    status, why, mend = Status.FAIL, "", ""
    if power >= _CUBIC:
        why = "a list of 1,000 documents costs 10^9 steps per round"
        mend = (
            "look for a sum inside a pair loop that does not depend on the pair, and keep it in"
            " scratch"
        )
    elif power >= _QUADRATIC and not spec.quadratic:
        why = (
            "quadratic=False disables the guard against long lists, and 100,000 documents take"
            " minutes"
        )
        mend = "declare quadratic=True"
    elif power < _LINEAR and spec.quadratic:
        status, why = (
            Status.NOTE,
            "the driver refuses lists of more than 50,000 documents unnecessarily",
        )
        mend = "declare quadratic=False"
    if not why:
        status = Status.PASS
    return Finding("speed", status, message, "", why, mend)


def _seconds_a_document(spec: ObjectiveSpec, length: int) -> float:
    rng, queries = np.random.default_rng(0), max(1, _DOCUMENTS // length)
    labels, scores = rng.integers(0, 5, queries * length), rng.normal(size=queries * length)
    bound = Objective(spec, threads=1, total_rounds=ROUNDS).bind(
        labels, QueryIndex.from_sizes([length] * queries)
    )
    return (
        min(timeit.repeat(lambda: bound.gradient(scores, ROUNDS - 1), number=1, repeat=3))
        / scores.size
    )


def learning(spec: ObjectiveSpec) -> Iterator[Finding]:
    """Train briefly on generated data with each engine, and check that the training metric
    improves.
    """
    data, metric = make_ranking_data(150, seed=1, mean_length=20).dataset, Metric.parse(_METRIC)
    # Measure the ranking before training, where all scores are equal.
    start = metric.evaluate(data.labels, np.zeros(data.n_documents), data.queries).mean
    for name in ENGINES:
        try:
            if not get_backend(name).grows_trees:
                continue
            model = train(
                {"objective": Objective(spec, threads=1), **_TREES}, data, ROUNDS, backend=name
            )
        except MissingDependency:
            yield Finding(name, Status.SKIP, "not installed")
            continue
        except BoostrankError as error:
            yield _broken(name, error)
            continue
        # Compare with the ranking after training.
        end = metric.evaluate(data.labels, model.predict(data, threads=1), data.queries).mean
        message = f"{_METRIC} of the training set {start:.3f} -> {end:.3f} in {ROUNDS} rounds"
        if end > start:
            yield Finding(name, Status.PASS, message)
            continue
        # Point to the sign of the gradient, the usual cause.
        example = f"{len(data.queries)} generated queries, {data.n_documents:,} documents"
        why = "steps against the gradient must lift relevant documents"
        mend = (
            "give a relevant document that ranks too low a negative gradient: scores move against"
            " the gradient"
        )
        yield Finding(
            name, Status.FAIL, f"training made the ranking worse: {message}", example, why, mend
        )


def _broken(check: str, error: BoostrankError) -> Finding:
    return Finding(
        check, Status.FAIL, str(error), "", "a training stops there", "see the failed checks above"
    )
