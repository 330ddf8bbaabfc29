"""Keys of what commands print for programs: of `--json`, and of the lines of `train --log`."""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.conftest import invoke

FILES = Path(__file__).parents[1] / "model" / "golden" / "0.2.0.dev0.tar.gz"
DEPTH = 3
"""Deeper keys follow from data: names of features, say. Of a report, what the sections hold is theirs to change."""
_MEASURED = ("lightgbm.txt", "new.txt", "--metric", "ndcg@5", "--threads", "1")
_TRAINED = (
    "rows.txt", "--valid", "new.txt", "--objective", "lambdarank", "--rounds", "2", "--num-leaves", "4", "--metric",
    "ndcg@5", "--threads", "1",
)  # fmt: skip
COMMANDS = (
    ("compare", "lightgbm-dart.txt", *_MEASURED),
    ("doctor", "rows.txt", "--valid", "rows.txt", "--threads", "1"),
    ("evaluate", *_MEASURED),
    ("importance", *_MEASURED),
    ("metrics", "lightgbm.txt", "new.txt", "--threads", "1"),
    ("study", "noise", *_TRAINED, "--runs", "3"),
    ("objectives", "lambdarank"),
    ("plan", "rows.txt"),
    ("report", *_MEASURED),
    ("train", *_TRAINED, "--quality", "plain", "--model", "one.txt", "--log", "log.jsonl"),
    ("tune", *_TRAINED, "--trials", "1", "-o", "tuned.toml"),
    ("verify", "lightgbm.txt", "new.txt", "--against", "scores.txt", "--threads", "1"),
    ("why", "lightgbm.txt", "new.txt", "row:1", "row:2", "--qid", "16", "--threads", "1"),
)  # fmt: skip


def output_lines() -> Iterator[str]:
    """A line a key, with its place."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, tarfile.open(FILES) as files:
        files.extractall(folder, filter="data")
        os.chdir(folder)
        try:
            for name, *words in COMMANDS:
                done = invoke(name, *words, "--json")
                assert done.exit_code == 0, f"boostrank {name}: {done.stderr}"
                found = keys(json.loads(done.stdout), depth=1 if name == "report" else DEPTH)
                yield from sorted({f"boostrank {name} --json: {key}" for key in found})
            rounds = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
            yield from sorted({f"boostrank train --log: {key}" for one in rounds for key in keys(one)})
        finally:
            os.chdir(before)


def keys(value: Any, place: str = "", depth: int = DEPTH) -> Iterator[str]:
    """`metrics.ndcg@5.mean`; of a list's items, `trials[].value`."""
    if isinstance(value, list):
        for one in value:
            yield from keys(one, f"{place}[]", depth)
    elif isinstance(value, dict) and depth:
        for key, one in value.items():
            yield f"{place}.{key}".lstrip(".")
            yield from keys(one, f"{place}.{key}".lstrip("."), depth - 1)
