"""Training on several machines: a Dask cluster whose workers train one model together.

    client = distributed.Client("tcp://10.0.0.1:8786")
    model = boostrank.cluster.train(client, {"objective": "shf-sdcg"}, ["a.txt", "b.txt"], valid_shards=["v.txt"])

Each worker reads some of the shards, files of whole queries, from its own file system into bins. Trees, gradients'
scale, metrics and the decision to stop are made from sums over all workers, so every worker ends with the same model.
"""

from __future__ import annotations

from boostrank.cluster.connect import connected
from boostrank.cluster.train import train

__all__ = ["connected", "train"]
