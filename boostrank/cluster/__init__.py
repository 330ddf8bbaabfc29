"""Training on several workers, which train one model together.

    model = boostrank.cluster.train("local:2", {"objective": "shf-sdcg"}, ["a.txt", "b.txt"], valid=["v.txt"])

Each worker reads some of the shards, files of whole queries, from its own file system into bins. Trees, gradients'
scale, metrics and the decision to stop are made from sums over all workers, so every worker ends with the same model.
A launcher, one file an engine of clusters, starts `worker.serve` on each of them; all else is the same everywhere.
"""

from __future__ import annotations

from boostrank.cluster.train import launcher_of, train
from boostrank.cluster.workers import Launcher

__all__ = ["Launcher", "launcher_of", "train"]
