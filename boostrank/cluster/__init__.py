"""Training on several workers, which train one model together.

    model = boostrank.cluster.train("local:2", {"objective": "shf-sdcg"}, ["a.txt", "b.txt"], valid_shards=["v.txt"])

Each worker reads some of the shards, files of whole queries, from its own file system into bins. Trees, gradients'
scale, metrics and the decision to stop are made from sums over all workers, so every worker ends with the same model.
A launcher, one file an engine of clusters, starts `worker.serve` on each of them; all else is the same everywhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from boostrank.cluster.train import Options, train
from boostrank.cluster.workers import Launcher
from boostrank.core.errors import ParameterError

__all__ = ["Launcher", "Options", "launcher_of", "train"]

_LAUNCHERS = ("local", "env", "dask", "ray")


@contextlib.contextmanager
def launcher_of(workers: Any) -> Iterator[Launcher]:
    """The launcher that a text names.

    Args:
        workers: `local`, `local:2`, `env`, `dask:tcp://HOST:PORT`, `dask:FILE`, `ray:2`; a `distributed.Client`; or a
            launcher.

    Raises:
        ParameterError: it names none.
        MissingDependency: what it needs is not installed.
        InputError: no cluster answers.
    """
    if not isinstance(workers, str):
        if type(workers).__module__.startswith("distributed."):
            workers = import_module("boostrank.cluster.dask").DaskWorkers(workers)
        yield workers
        return
    kind, _, where = workers.partition(":")
    if kind not in _LAUNCHERS:
        raise ParameterError(f"cluster {workers!r}: it begins with none of {', '.join(_LAUNCHERS)}")
    with import_module(f"boostrank.cluster.{kind}").opened(where) as launcher:
        yield launcher
