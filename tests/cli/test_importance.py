"""`boostrank importance`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import succeed

from .conftest import invoke


def test_the_table_names_the_metric_and_the_shuffles(model: Path, data: Path) -> None:
    result = succeed("importance", model, data / "test.txt", "--top", 5, "--threads", 1)
    lines = result.stdout.splitlines()
    assert "ndcg@10" in lines[0]
    assert "5 shuffles per query" in lines[1]
    header = next(i for i, line in enumerate(lines) if line.startswith("  feature"))
    assert lines[header + 6].startswith("  ... and ")
    assert "unused, " in result.stdout


def test_json_has_every_feature(model: Path, data: Path) -> None:
    arguments = ("importance", model, data / "test.txt", "--repeats", 1, "--top", 2, "--threads", 1)
    printed = json.loads(invoke(*arguments, "--json").stdout)
    assert len(printed["features"]) == 38
    assert {"feature", "verdict", "loss", "loss_low", "loss_high"} <= set(printed["features"][0])
