"""Scores written as a table, with query ids, are read again wherever scores go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import FEW, invoke, refuse, succeed


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_of_scores_is_a_ranker(
    model: Path, data: Path, tmp_path: Path, ending: str
) -> None:
    pytest.importorskip("pyarrow", reason="tables need the extra `tables`")
    test, scores = data / "test.txt", tmp_path / f"scores.{ending}"
    succeed("predict", model, test, "-o", scores)
    succeed("verify", model, test, "--against", scores, "--tolerance", "equal")
    assert (
        invoke("evaluate", scores, test).stdout.splitlines()[1:]
        == invoke("evaluate", model, test).stdout.splitlines()[1:]
    )
    compared = invoke("compare", scores, model, test)
    assert "+0.0000  +0.0000 to +0.0000" in compared.stdout


def test_scores_of_other_queries_are_refused(model: Path, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="tables need the extra `tables`")
    scores, other = tmp_path / "scores.csv", tmp_path / "other.csv"
    succeed("predict", model, data / "test.txt", "-o", scores)
    header, *lines = scores.read_text().splitlines()
    other.write_text("\n".join([header, *lines[::-1]]) + "\n")
    refused = refuse("evaluate", other, data / "test.txt")
    assert f"{other}:2: " in refused.stderr
    assert f"for query '{lines[-1].split(',')[0]}" in refused.stderr


def test_scores_of_other_documents_are_refused(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="tables need the extra `tables`")
    data, scores = tmp_path / "data.txt", tmp_path / "scores.csv"
    data.write_text("".join(f"{i % 3} qid:1 1:{i} # D{i}\n" for i in range(4)))
    succeed("predict", model, data, "-o", scores)
    succeed("evaluate", scores, data)
    scores.write_text(scores.read_text().replace("D1", "D9"))
    for refused in (
        invoke("evaluate", scores, data),
        invoke("verify", model, data, "--against", scores),
    ):
        assert refused.exit_code == 2
        assert "document 'D1' of query '1'" in refused.stderr
    scores.write_text("qid,doc_id,score\n1,D0,0.5\n1,D1,\n1,D2,0.5\n1,D3,0.5\n")
    for refused in (
        invoke("evaluate", scores, data),
        invoke("verify", model, data, "--against", scores),
    ):
        assert refused.exit_code == 2
        assert f"{scores}:3" in refused.stderr


def test_a_run_names_each_document_once(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    data.write_text("1 qid:1 1:1 # D1\n0 qid:1 1:2 # D1\n")
    refused = refuse("predict", model, data, "--run", "tag", "-o", tmp_path / "run")
    assert "'D1'" in refused.stderr
    data.write_text("1 qid:1 1:1 # D1\n0 qid:1 1:2 # D2\n")
    succeed("predict", model, data, "--run", "tag", "-o", tmp_path / "run")


@pytest.mark.parametrize("options", [(), ("--regroup",)])
def test_a_run_of_scattered_queries_is_refused(
    model: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    data = tmp_path / "data.txt"
    data.write_text("".join(f"{i % 2} qid:{i % 2} 1:{i} # D{i}\n" for i in range(4)))
    refused = refuse("predict", model, data, "--run", "tag", "-o", tmp_path / "run", *options)
    assert "'0'" in refused.stderr
    assert "boostrank data sort" in refused.stderr
    assert not (tmp_path / "run").exists()


def test_logged_scores_are_no_feature_even_if_the_model_has_one_of_their_name(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyarrow", reason="tables need the extra `tables`")
    table, model = tmp_path / "table.csv", tmp_path / "model.txt"
    rows = [f"q{i // 10},{i * 7 % 4},{i % 10},{i * 3 % 11}" for i in range(100)]
    table.write_text("\n".join(["qid,label,bm25,score", *rows]) + "\n")
    succeed("train", table, "--start", "none", "-m", model, *FEW)
    refuse("verify", model, table, "--against", "score", says=("lacks 'score'",))
