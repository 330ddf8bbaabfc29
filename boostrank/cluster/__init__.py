"""Training a single model on several workers. Each worker reads its own shards, which are files of
whole queries.
"""

from __future__ import annotations

from boostrank.cluster.client import launcher_of, train
from boostrank.cluster.workers import Launcher

__all__ = ["Launcher", "launcher_of", "train"]
