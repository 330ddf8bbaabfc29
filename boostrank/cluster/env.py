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
_ON_MACHINE = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_NTASKS_PER_NODE",
)
"""Environment variables for the number of ranks on this machine, set by torchrun, Open MPI, MPICH
and Slurm.
"""
_PORT = 29400
_LEAST_KEY = 16


class EnvWorkers(LocalWorkers):
    """Launcher for the ranks in a job."""

    def __init__(self) -> None:
        name = next((name for name in _RANKS if name in os.environ), None)
        if name is None:
            raise ParameterError(f"cluster env: the environment has none of {', '.join(_RANKS)}")
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
        threads = resolve_threads(None)
        if threads == os.cpu_count():  # otherwise ranks are bound to their share of the cores
            local = next((name for name in _ON_MACHINE if name in os.environ), "")
            threads = max(1, threads // max(1, _number(local, 1)))
        super().__init__(size, threads)
        self.processes = 1
        # torchrun itself listens on MASTER_PORT.
        port = _number(
            "BOOSTRANK_PORT", _number("MASTER_PORT", _PORT) + ("TORCHELASTIC_RUN_ID" in os.environ)
        )
        self.rank, self.key, self.listen = rank, key.encode(), (os.environ["MASTER_ADDR"], port)
        self.patience = 600.0  # ranks of a job may start minutes apart

    @classmethod
    def from_name(cls, kind: str, where: str) -> Self:
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


def _number(name: str, default: int | None = None) -> int:
    if default is not None and name not in os.environ:
        return default
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        raise ParameterError(
            f"cluster env: {name}={os.environ.get(name, '')!r} is not a number"
        ) from None
