"""Sums over several workers, played by threads."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from boostrank.cluster.channel import Mesh
from boostrank.core.queries import QueryIndex
from boostrank.data.synthetic import make_ranking_data
from boostrank.engines.base import LostContact
from boostrank.fit.gradient import GuardedGradient
from boostrank.metrics import BoundMetrics, Conventions
from boostrank.objective.description import Objective, TrainingObjective
from boostrank.objective.mixture import Mixture


def run(*works: Callable[[Mesh], Any]) -> list[Any]:
    """Each in a thread of its own; results or errors."""
    meshes = [Mesh("127.0.0.1", b"key") for _ in works]
    addresses = [mesh.address for mesh in meshes]

    def one(rank: int) -> Any:
        try:
            with contextlib.closing(meshes[rank]) as mesh:
                mesh.connect_all(rank, addresses)
                return works[rank](mesh)
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(one, range(len(works))))


def test_what_fails_on_one_worker_fails_on_all_and_nobody_waits() -> None:
    def good(mesh: Mesh) -> None:
        mesh.all_reduce(np.ones(3))

    def bad(mesh: Mesh) -> None:
        raise ValueError("part")

    first, second, third = run(good, bad, good)
    assert isinstance(second, ValueError)
    assert isinstance(first, LostContact)
    assert isinstance(third, LostContact)


def test_values_are_shared_with_all_workers_or_with_one() -> None:
    def work(mesh: Mesh) -> Any:
        return mesh.share(mesh.rank), mesh.share(mesh.rank, reader=1)

    assert run(work, work) == [([0, 1], [None, None]), ([0, 1], [0, 1])]


@pytest.mark.parametrize(
    "objective",
    [Objective("shf-sdcg"), Mixture("shf-sdcg", "regression", mix=0.3)],
    ids=["alone", "mixture"],
)
def test_gradients_over_workers_are_those_of_one_machine(objective: TrainingObjective) -> None:
    """The Hessian's scale, the balance of a mixture and the mean weight are those of all queries."""
    whole = make_ranking_data(queries=30, mean_length=10, seed=3).dataset
    rng = np.random.default_rng(0)
    labels, scores = whole.labels, rng.normal(size=whole.n_documents)
    queries, _ = whole.queries.take(np.arange(30))
    object.__setattr__(queries, "weights", rng.uniform(0.5, 2.0, 30))
    cuts = [range(0, 4), range(4, 30), range(30, 30)]  # uneven, and one worker without any row

    def worker(part: range) -> Callable[[Mesh], Any]:
        index, rows = queries.take(np.array(part, dtype=np.int64))
        bound_labels, bound_scores = labels[rows], scores[rows]

        def work(mesh: Mesh) -> Any:
            result = objective.bind(bound_labels, index, mesh.all_reduce).gradient(bound_scores, 1)
            return result.grad, result.hess, result.stats

        return work

    expected = objective.bind(labels, queries).gradient(scores, 1)
    parts = run(*(worker(part) for part in cuts))
    np.testing.assert_allclose(np.concatenate([p[0] for p in parts]), expected.grad, rtol=1e-6)
    np.testing.assert_allclose(np.concatenate([p[1] for p in parts]), expected.hess, rtol=1e-6)
    for _, _, stats in parts:
        assert stats.dead_queries == expected.stats.dead_queries
        assert stats.scale == pytest.approx(expected.stats.scale, rel=1e-12)


@pytest.mark.parametrize("moving", [True, False])
def test_trees_stand_still_only_when_they_do_so_on_every_worker(moving: bool) -> None:
    """All queries of one worker may lie in one leaf of a tree that has many; another has no queries
    at all.
    """
    sizes = (3, 4, 0)

    def worker(number: int) -> Callable[[Mesh], Any]:
        def work(mesh: Mesh) -> list[str]:
            worker_sizes = [sizes[number]] if sizes[number] else []
            queries = QueryIndex.from_sizes(worker_sizes)
            labels = np.arange(sizes[number], dtype=np.float64)
            bound = Objective("shf-sdcg").bind(labels, queries, mesh.all_reduce)
            guarded = GuardedGradient(bound, all_reduce=mesh.all_reduce)
            scores = np.zeros(sizes[number])
            for round in range(5):
                guarded(scores, None, round)
                scores = scores + (labels if moving and number == 1 else 1.0)
            return [] if guarded._still < 3 else ["still"]

        return work

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(*(worker(i) for i in range(3))) == ([[]] * 3 if moving else [["still"]] * 3)


def test_fault_95_sums_of_parts_give_the_metric_of_the_whole() -> None:
    whole = make_ranking_data(queries=40, mean_length=8, seed=5).dataset
    scores = np.random.default_rng(1).normal(size=whole.n_documents)
    names = ["ndcg@1,10", "map", "mrr@5"]
    expected = BoundMetrics(names, whole.labels, whole.queries).values(scores)
    total = dict.fromkeys(expected, (0.0, 0.0))
    for part in (range(0, 3), range(3, 40), range(40, 40)):
        index, rows = whole.queries.take(np.array(part, dtype=np.int64))
        part = BoundMetrics(names, whole.labels[rows], index, Conventions(), partial=True).sums(
            scores[rows]
        )
        total = {
            name: (total[name][0] + part[name][0], total[name][1] + part[name][1])
            for name in expected
        }
    assert {name: value / weight for name, (value, weight) in total.items()} == pytest.approx(
        expected, abs=1e-12
    )
