"""Launcher for processes on this machine, `local:2`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from boostrank.cluster.channel import Call
from boostrank.cluster.workers import Launcher
from boostrank.core.errors import TrainingError
from boostrank.core.machine import resolve_threads

_WORKER = (
    "import sys; from boostrank.cluster.worker import serve; from boostrank.cluster.channel import"
    " Call;key = bytes.fromhex(sys.stdin.readline()); host, port, rank, threads ="
    " sys.argv[1:];serve(Call((host, int(port)), key), int(rank), int(threads))"
)
_ROOT = str(Path(__file__).parents[2])


class LocalWorkers(Launcher):
    """Launcher for processes on this machine.

    Args:
        size: number of workers.
        threads: number of threads per process; None divides the cores among the processes.

    Attributes:
        processes: number of workers to start, with ranks from 0. Workers with other ranks are
            started elsewhere.
    """

    def __init__(self, size: int, threads: int | None = None) -> None:
        super().__init__(size, ("127.0.0.1", 0))
        self.threads = max(1, resolve_threads(None) // size) if threads is None else threads
        self.processes, self._started = size, list[subprocess.Popen[str]]()

    def run(self, call: Call) -> None:
        """Start a process a rank, pass it the key by its standard input, and wait for all."""
        folders = [_ROOT, os.environ.get("PYTHONPATH"), *sys.path]
        searched = os.pathsep.join(filter(None, folders))
        for rank in range(self.processes):
            process = subprocess.Popen(
                [sys.executable, "-c", _WORKER, *map(str, (*call.address, rank, self.threads))],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"PYTHONPATH": searched},
            )
            self._started.append(process)
            assert process.stdin is not None
            with contextlib.suppress(
                BrokenPipeError
            ):  # arguments and environment are visible to others
                process.stdin.write(f"{call.key.hex()}\n")
                process.stdin.flush()
        ended = [(process.communicate()[1], process.returncode) for process in self._started]
        self._started = []
        for error_output, status in ended:
            if status:
                lines = ["no message", *filter(str.strip, error_output.splitlines())]
                raise TrainingError(f"a worker ended with status {status}: {lines[-1]}")

    def stop(self, ranks: Sequence[int]) -> None:
        """Kill the processes of these ranks."""
        for rank, process in enumerate(self._started):
            if rank in ranks:
                process.kill()
