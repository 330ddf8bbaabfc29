"""`boostrank data join`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import invoke

pytest.importorskip("pyarrow", reason="tables are read by pyarrow")


def test_judgements_and_a_log_become_a_table_that_train_takes(tmp_path: Path) -> None:
    queries = range(30)
    judged = tmp_path / "judged.csv"
    log = tmp_path / "log.jsonl"
    table = tmp_path / "table.csv"
    judged.write_text(
        "query,docid,rating\n"
        + "".join(f"q {q},p{d},{(q + d) % 3}\n" for q in queries for d in range(6))
    )
    hit = (
        '{{"query": "q {}", "_id": "p{}", "fields": {{"_ltrlog": [{{"main": [{{"name": "bm25",'
        ' "value": {}}}]}}]}}}}\n'
    )
    log.write_text(
        "".join(hit.format(q, d, (q + d) % 3 + d / 10) for q in queries for d in range(1, 7))
    )
    result = invoke("data", "join", judged, log, "-o", table, "--unjudged", "zero")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"{table}\n"
    assert f"{judged}:2: document 'p0' of query 'q 0'" in result.stderr
    assert f"{log}:6: document 'p6' of query 'q 0'" in result.stderr
    trained = invoke(
        "train", table, "-m", tmp_path / "model.txt", "--quality", "plain", "--rounds", 2
    )
    assert trained.exit_code == 0, trained.stderr
    assert "180 rows, 30 queries, 1 feature" in trained.stderr
    scores = tmp_path / "scores.csv"
    assert invoke("predict", tmp_path / "model.txt", table, "-o", scores).exit_code == 0
    assert scores.read_text().startswith("qid,doc_id,score\nq 0,p1,")
    refused = invoke("data", "join", judged, log, "-o", table, "--unjudged", "stop")
    assert refused.exit_code == 2
    assert f"{log}:6: document 'p6' of query 'q 0'" in refused.stderr
    piped = invoke("data", "join", "-", log, "-o", table)
    assert piped.exit_code == 2
    assert "standard input" in piped.stderr
