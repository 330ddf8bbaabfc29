"""The command `boostrank compile`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from boostrank.cli.command import command
from boostrank.cli.errors import FAILED, say
from boostrank.options import Options, option


class Compile(Options):
    """Options of `boostrank compile`."""

    objectives: tuple[str, ...] = option(
        "Compile this objective too.", flag="--objective", metavar="NAME", file="objective"
    )


@command("compile")
def compile(options: Compile) -> int | None:
    """Compile the functions that train (without options), predict, evaluate and doctor need, and
    cache them.

    Run this when building a container image. Later processes on the same type of processor load the
    machine code from the cache. NUMBA_CACHE_DIR sets the directory. The command trains on a small
    generated data set.
    """
    from boostrank.core.errors import TrainingError
    from boostrank.kernels.jit import cache_directory, write_fault
    from boostrank.objectives import OBJECTIVES

    for name in options.objectives:
        OBJECTIVES.get(name)
    started, directory = time.monotonic(), cache_directory()
    if directory is None:
        return FAILED
    if write_fault(directory):
        raise TrainingError(f"{directory}: cannot be written: {write_fault(directory)}")
    from boostrank.files import blocks
    from boostrank.files.text import parser

    # The small files below do not use these functions.
    for function in (parser.parse_lines, blocks.fill_dense, blocks.fill_sparse):
        function.compiled  # noqa: B018 (compiles at first use)
    with tempfile.TemporaryDirectory() as folder:
        plain = [
            "train",
            "d/train.txt",
            "--quality",
            "plain",
            "--rounds",
            "2",
            "--model",
            "own.txt",
        ]
        for arguments in (
            ["data", "make", "d", "--queries", "60"],
            ["train", "d/train.txt", "--rounds", "2", "--model", "m.txt"],
            [*plain, "--valid", "d/valid.txt"],
            *(
                [*plain, "--valid", "d/valid.txt", "--objective", name]
                for name in options.objectives
            ),
            ["predict", "m.txt", "d/test.txt", "--output", "scores.txt"],
            ["evaluate", "m.txt", "d/test.txt"],
            ["doctor", "d/train.txt", "--valid", "d/valid.txt"],
        ):
            done = subprocess.run(
                [sys.executable, "-m", "boostrank", *arguments], cwd=folder, capture_output=True
            )
            if done.returncode:
                raise TrainingError(f"{' '.join(arguments)}: {done.stderr.decode().strip()}")
    files = sum(1 for _ in Path(directory).rglob("*.nb*"))
    say(f"{files} files, {time.monotonic() - started:.0f} s")
    click.echo(directory)
    return None
