"""Scores by the compiled code of an export, where the language is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

_PROGRAMS = Path(__file__).with_name("programs")
COMPILERS = {"c": "cc", "go": "go", "java": "javac", "javascript": "node"}
# File of the model, main program, and commands; MODEL is the name of the model in the file.
_COMMANDS = {
    "c": (
        "MODEL.c",
        "proof.c",
        ("cc -std=c99 -O2 -ffp-contract=off MODEL.c proof.c -o proof", "./proof"),
    ),
    "go": ("model.go", "proof.go", ("go build -o proof model.go proof.go", "./proof")),
    "java": (
        "MODEL.java",
        "proof.java",
        ("javac -encoding UTF-8 MODEL.java proof.java", "java -cp . BoostrankProof"),
    ),
    "javascript": ("model.mjs", "proof.mjs", ("node proof.mjs",)),
}


def need_compiler(target: str) -> None:
    """Skip the test if the language is not installed."""
    if not shutil.which(COMPILERS[target]):
        pytest.skip(f"{COMPILERS[target]} is not installed")


def compiled(target: str, body: bytes, folder: Path) -> Callable[[np.ndarray], np.ndarray]:
    """Compile an export with a program that prints the score of each row."""
    text = body.decode()
    declaration = re.search(
        r"^(?:package (\w+)|public final class (\w+)|double (\w+)_score)", text, re.MULTILINE
    )
    model = declaration[declaration.lastindex or 0] if declaration else ""
    text = re.sub("^package .*", "package main", text, flags=re.MULTILINE)
    file, program, commands = _COMMANDS[target]
    (folder / file.replace("MODEL", model)).write_text(text, encoding="utf-8")
    main = (_PROGRAMS / program).read_text(encoding="utf-8").replace("MODEL", model)
    (folder / program).write_text(main, encoding="utf-8")
    *build, run = [command.replace("MODEL", model).split() for command in commands]
    for command in build:
        subprocess.run(command, cwd=folder, check=True)

    def score(rows: np.ndarray) -> np.ndarray:
        lines = "".join(" ".join(map(repr, row)) + "\n" for row in rows.tolist())
        lines = lines.replace("inf", "Infinity").replace("nan", "NaN")
        done = subprocess.run(
            run, cwd=folder, input=lines, capture_output=True, encoding="utf-8", check=True
        )
        return np.array(done.stdout.split(), np.float64)

    return score
