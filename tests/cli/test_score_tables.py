"""Scores written as a table, with query ids, are read again wherever scores go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import invoke


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_table_of_scores_is_a_ranker(model: Path, data: Path, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("pyarrow", reason="tables need the extra `tables`")
    test, scores = data / "test.txt", tmp_path / f"scores.{ending}"
    assert invoke("predict", model, test, "-o", scores).exit_code == 0
    assert invoke("verify", model, test, "--against", scores, "--tolerance", "equal").exit_code == 0
    assert (
        invoke("evaluate", scores, test).stdout.splitlines()[1:]
        == invoke("evaluate", model, test).stdout.splitlines()[1:]
    )
    compared = invoke("compare", scores, model, test)
    assert "+0.0000  +0.0000 to +0.0000" in compared.stdout


def test_scores_of_other_queries_are_refused(model: Path, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="tables need the extra `tables`")
    scores, other = tmp_path / "scores.csv", tmp_path / "other.csv"
    assert invoke("predict", model, data / "test.txt", "-o", scores).exit_code == 0
    header, *lines = scores.read_text().splitlines()
    other.write_text("\n".join([header, *lines[::-1]]) + "\n")
    refused = invoke("evaluate", other, data / "test.txt")
    assert refused.exit_code == 2
    assert f"of query {lines[-1].split(',')[0]}" in refused.stderr
