"""Checks whether an objective keeps the kernel contract, for `boostrank objectives --check
my.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from boostrank.checking.rules import RULES, Finding, Probe, Status, unsafe
from boostrank.core.errors import BoostrankError, MissingDependency
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
            finding = Finding(
                "runs",
                Status.FAIL,
                f"the kernel raises {type(error).__name__}: {error}",
                why="nothing can be computed",
                mend="see the kernel contract in boostrank.kernels.objective",
            )
        yield finding
        if _is_fatal(finding):
            return


def check_objective(spec: ObjectiveSpec) -> Iterator[Finding]:
    """Check the contract, and train briefly with every installed engine.

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
    yield from learning(spec)


def _is_fatal(finding: Finding) -> bool:
    """Return True if a finding makes all later results meaningless."""
    return finding.status is Status.FAIL and finding.check in ("memory", "runs")


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
            yield Finding(
                name,
                Status.FAIL,
                str(error),
                why="a training stops there",
                mend="see the failed checks above",
            )
            continue
        # Compare with the ranking after training.
        end = metric.evaluate(data.labels, model.predict(data, threads=1), data.queries).mean
        message = f"{_METRIC} of the training set {start:.3f} -> {end:.3f} in {ROUNDS} rounds"
        if end > start:
            yield Finding(name, Status.PASS, message)
            continue
        # Point to the sign of the gradient, the usual cause.
        yield Finding(
            name,
            Status.FAIL,
            f"training made the ranking worse: {message}",
            why="steps against the gradient must lift relevant documents",
            mend="give a relevant document that ranks too low a negative gradient",
        )
