"""`boostrank compile`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from boostrank.cli.errors import say
from boostrank.cli.options import Command, ObjectiveName, option


@click.command("compile", cls=Command)
@option("--objective", "objectives", multiple=True, metavar="NAME", type=ObjectiveName(),
        help="Compile this objective, too. Repeat for several.")  # fmt: skip
def command(objectives: tuple[str, ...]) -> None:
    """Compile what train (with no options), predict, evaluate and doctor need, and keep it in the cache.

    Run it when you build a container image. Later processes of the same processor type load the machine code from the
    cache and compile nothing. Set NUMBA_CACHE_DIR to choose the directory. A small generated data set is trained.
    """
    from boostrank.core.errors import TrainingError
    from boostrank.kernels.runtime.jit import cache_directory
    from boostrank.objectives import OBJECTIVES

    for name in objectives:
        OBJECTIVES.get(name)
    started, directory = time.monotonic(), cache_directory()
    if directory is None:
        raise click.exceptions.Exit(3)
    from boostrank.data import blocks
    from boostrank.data.text import number_text, parser

    # The commands below read too little to need these.
    filled = blocks.fill_dense, blocks.fill_sparse, blocks.fill_columns
    for function in (parser.parse_lines, *filled, number_text.format_rows):
        function.compiled  # noqa: B018 (compiles at first use)
    with tempfile.TemporaryDirectory() as folder:
        plain = ["train", "d/train.txt", "--quality", "plain", "--rounds", "2", "--model", "own.txt"]
        for arguments in (
            ["make-data", "d", "--queries", "60"],
            ["train", "d/train.txt", "--rounds", "2", "--model", "m.txt"],
            [*plain, "--valid", "d/valid.txt"],
            *([*plain, "--valid", "d/valid.txt", "--objective", name] for name in objectives),
            ["predict", "m.txt", "d/test.txt", "--output", "scores.txt"],
            ["evaluate", "m.txt", "d/test.txt"],
            ["doctor", "d/train.txt", "--valid", "d/valid.txt"],
        ):
            done = subprocess.run([sys.executable, "-m", "boostrank", *arguments], cwd=folder, capture_output=True)
            if done.returncode:
                raise TrainingError(f"{' '.join(arguments)}: {done.stderr.decode().strip()}")
    files = sum(1 for _ in Path(directory).rglob("*.nb*"))
    say(f"{files} files, {time.monotonic() - started:.0f} s")
    click.echo(directory)
