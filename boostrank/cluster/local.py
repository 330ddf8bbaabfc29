"""Workers as processes of this machine: `local:2`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from boostrank.cluster.channel import Address, Call
from boostrank.core.errors import ParameterError, TrainingError
from boostrank.core.machine import resolve_threads

_WORKER = (
    "import sys; from boostrank.cluster.worker import serve; from boostrank.cluster.channel import Call;"
    "key = bytes.fromhex(sys.stdin.readline()); host, port, rank, threads = sys.argv[1:];"
    "serve(Call((host, int(port)), key), int(rank), int(threads))"
)
_ROOT = str(Path(__file__).parents[2])
_STDERR_TAIL = 4000  # bytes of a worker's last words that are read


class LocalWorkers:
    """Processes of this machine; see `workers.Launcher`.

    Args:
        size: how many.
        threads: of each; None shares out the cores.
    """

    def __init__(self, size: int, threads: int | None = None) -> None:
        self.size, self.patience = size, 120.0
        self.key: bytes | None = None
        self.listen: Address = ("127.0.0.1", 0)
        self._threads = max(1, resolve_threads(None) // size) if threads is None else threads
        self._processes: list[subprocess.Popen[Any]] = []

    @property
    def pids(self) -> list[int]:
        """Process of each worker."""
        return [process.pid for process in self._processes]

    def run(self, call: Call) -> None:
        """Start them, and wait for their end."""
        self._run(call, self.size)

    def _run(self, call: Call, workers: int) -> None:
        host, port = call.address
        for rank in range(workers):
            # The key goes through a pipe: arguments and environment can be read by others.
            process = subprocess.Popen(
                [sys.executable, "-c", _WORKER, host, str(port), str(rank), str(self._threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join([_ROOT, *filter(None, sys.path)])},
            )
            self._processes.append(process)
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(f"{call.key.hex()}\n")
                process.stdin.flush()
        outputs = [process.communicate()[1] for process in self._processes]
        failed = [(one.returncode, text) for one, text in zip(self._processes, outputs, strict=True) if one.returncode]
        self._processes = []
        if failed:
            status, text = failed[0]
            last = next(
                (line for line in reversed(text[-_STDERR_TAIL:].splitlines()) if line.strip()), "it said nothing"
            )
            raise TrainingError(f"a worker ended with status {status}: {last}")

    def stop(self, ranks: Sequence[int]) -> None:
        """Kill them."""
        for rank in ranks:
            if rank < len(self._processes):
                self._processes[rank].kill()


@contextlib.contextmanager
def opened(where: str) -> Iterator[LocalWorkers]:
    """The launcher of `local:WHERE`."""
    if where and not (where.isdecimal() and int(where)):
        raise ParameterError(f"local:{where}: give the number of workers, local:2")
    yield LocalWorkers(int(where) if where else min(4, resolve_threads(None)))
