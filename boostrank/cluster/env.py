"""Ranks that somebody else has started, each with the same command: torchrun, MPI, Slurm, Kubernetes' indexed jobs.

The first rank is the client, and has a process beside it that works; the others work, and get the model in the end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from boostrank.cluster.channel import Call
from boostrank.cluster.local import LocalWorkers
from boostrank.cluster.worker import Leave, serve
from boostrank.core.errors import ParameterError, WorkerLost
from boostrank.core.machine import resolve_threads

_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX")
_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "JOB_PARALLELISM")
_PORT = 29400
_LEAST_KEY = 16


class EnvWorkers(LocalWorkers):
    """The ranks of a job; see `workers.Launcher`.

    Attributes:
        rank: of this process.
    """

    def __init__(self) -> None:
        place = next(((r, s) for r, s in zip(_RANKS, _SIZES, strict=True) if r in os.environ), None)
        if place is None:
            raise ParameterError(f"cluster env: the environment has none of {', '.join(_RANKS)}")
        rank, size = (_number(name) for name in place)
        if not 0 <= rank < size:
            raise ParameterError(f"cluster env: {place[0]}={rank} is not below {place[1]}={size}")
        key = os.environ.get("BOOSTRANK_KEY", "")
        if len(key) < _LEAST_KEY:
            raise ParameterError(
                f"cluster env: set BOOSTRANK_KEY to the same secret on every rank, at least {_LEAST_KEY} characters "
                "(openssl rand -hex 16): the ranks know each other by it"
            )
        if "MASTER_ADDR" not in os.environ:
            raise ParameterError("cluster env: set MASTER_ADDR, the host of the first rank, on every rank")
        here = _number("LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in os.environ else 1
        super().__init__(size, max(1, resolve_threads(None) // here))
        self.rank, self.key, self.listen = rank, key.encode(), (os.environ["MASTER_ADDR"], _port())
        self.patience = 600.0  # ranks of a job may start minutes apart

    def run(self, call: Call) -> None:
        """Have a process beside this one work; the other ranks come by themselves."""
        self._run(call, 1)

    def stop(self, ranks: Sequence[int]) -> None:
        """End the process beside this one; the other ranks end when they lose contact."""
        super().stop([rank for rank in ranks if rank == 0])

    def serve(self) -> Leave:
        """Work, on any other rank; the client's last words."""
        try:
            assert self.key is not None
            return serve(Call(self.listen, self.key), self.rank, self._threads, patience=self.patience)
        except OSError as error:
            raise WorkerLost(f"the first rank does not answer at {self.listen[0]}:{self.listen[1]}: {error}") from error


def _port() -> int:
    """The port of the first rank; torchrun itself listens on MASTER_PORT."""
    if "BOOSTRANK_PORT" in os.environ:
        return _number("BOOSTRANK_PORT")
    if "MASTER_PORT" not in os.environ:
        return _PORT
    return _number("MASTER_PORT") + ("TORCHELASTIC_RUN_ID" in os.environ)


def _number(name: str) -> int:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        raise ParameterError(f"cluster env: {name}={os.environ.get(name, '')!r} is not a number") from None


def served() -> bool:
    """Work until the training is over, on every rank but the first; whether it was one.

    Raises:
        WorkerLost: the first rank is gone, or has ended the training without a model.
    """
    launcher = EnvWorkers()
    if not launcher.rank:
        return False
    last = launcher.serve()
    if last.error:
        raise WorkerLost(f"the first rank has ended the training: {last.error}")
    return True


@contextlib.contextmanager
def opened(where: str) -> Iterator[EnvWorkers]:
    """The launcher of `env`."""
    if where:
        raise ParameterError(f"env:{where}: `env` alone, as the environment says the rest")
    yield EnvWorkers()
