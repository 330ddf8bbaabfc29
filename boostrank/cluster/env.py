"""Launcher for ranks that torchrun, MPI, Slurm or indexed Kubernetes jobs start, all with the same
command.

The first rank is the client and starts a worker process. The other ranks are workers and receive
the final model.
"""

from __future__ import annotations

import os
from typing import Self

from boostrank.cluster.channel import Call
from boostrank.cluster.local import LocalWorkers
from boostrank.cluster.worker import serve
from boostrank.core.errors import ParameterError, WorkerLost
from boostrank.core.machine import resolve_threads
from boostrank.model.ranking_model import RankingModel

_RANKS = {
    "RANK": "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK": "PMI_SIZE",
    "SLURM_PROCID": "SLURM_NTASKS",
    "JOB_COMPLETION_INDEX": "JOB_PARALLELISM",
}
"""Environment variables for the rank, and for the number of ranks."""
_PORT = "29400"
_LEAST_KEY = 16


class EnvWorkers(LocalWorkers):
    """Launcher for the ranks in a job."""

    def __init__(self) -> None:
        name = next((name for name in _RANKS if name in os.environ), "RANK")
        rank, size = _number(name), _number(_RANKS[name])
        if not 0 <= rank < size:
            raise ParameterError(f"cluster env: {name}={rank} is not below {_RANKS[name]}={size}")
        key = os.environ.get("BOOSTRANK_KEY", "")
        if len(key) < _LEAST_KEY:
            raise ParameterError(
                f"cluster env: set BOOSTRANK_KEY to the same secret of at least {_LEAST_KEY}"
                " characters on every rank (openssl rand -hex 16)"
            )
        if "MASTER_ADDR" not in os.environ:
            raise ParameterError(
                "cluster env: set MASTER_ADDR, the host of the first rank, on every rank"
            )
        super().__init__(size, resolve_threads(None))
        self.processes, self.rank, self.key = 1, rank, key.encode()
        self.listen = os.environ["MASTER_ADDR"], _number("BOOSTRANK_PORT", _PORT)
        self.patience = 600.0  # ranks of a job may start minutes apart

    @classmethod
    def from_text(cls, kind: str, where: str) -> Self:
        """Create the launcher for `env`.

        Raises:
            ParameterError: WHERE is not empty, or a variable of the environment is missing.
        """
        if where:
            raise ParameterError(
                f"cluster {kind}:{where}: write env without arguments; the environment has all"
                " settings"
            )
        return cls()

    def serve(self) -> RankingModel:
        """Work as a rank other than the first, and return the model, or raise WorkerLost if there
        is no model.
        """
        try:
            model, why = serve(
                Call(self.listen, self.key or b""), self.rank, self.threads, patience=self.patience
            )
        except OSError as error:
            raise WorkerLost(
                f"the first rank does not answer at {self.listen[0]}:{self.listen[1]}: {error}"
            ) from error
        if model is None:
            raise WorkerLost(f"the first rank has ended the training: {why}")
        return model


def _number(name: str, default: str = "") -> int:
    text = os.environ.get(name, default)
    try:
        return int(text)
    except ValueError:
        remedy = "a free port" if name == "BOOSTRANK_PORT" else "RANK and WORLD_SIZE"
        raise ParameterError(
            f"cluster env: {name}={text!r} is not a number; set {remedy}"
        ) from None
