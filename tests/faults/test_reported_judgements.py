"""Qrels, runs, judgements, logged scores and click tables in the forms that people have."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import boostrank
from boostrank.core.errors import DataWarning, FileFormatError
from boostrank.files.join import join
from boostrank.files.judgements import values_by_query
from boostrank.model.trec import evaluate_run
from boostrank.reporting.segments import by_table, read_segments
from tests.cli.conftest import FEW, invoke, refuse, succeed

pytest.importorskip("pyarrow", reason="tables need the extra `tables`")

GRADES = {"q1": {"d1": 2, "d2": 0, "d3": 1}, "q2": {"d1": 0, "d4": 1}}
SCORES = {"q1": {"d1": 0.25, "d2": 0.5, "d5": 0.125}, "q2": {"d4": 0.5, "d1": 1.0}}
ROWS = [(qid, name, grade) for qid, of_query in GRADES.items() for name, grade in of_query.items()]
RUN = [(qid, name, score) for qid, of_query in SCORES.items() for name, score in of_query.items()]


def frame_of(rows: list[tuple[Any, ...]], names: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=names.split())


def text_of(rows: list[tuple[Any, ...]], line: str) -> str:
    return "".join(line.format(*row) + "\n" for row in rows)


def ranked() -> list[tuple[str, str, int]]:
    ranks = []
    for qid, of_query in SCORES.items():
        ranks += [
            (qid, name, rank)
            for rank, name in enumerate(sorted(of_query, key=of_query.get)[::-1], 1)
        ]
    return ranks


def evaluated(run: Path, qrels: Path) -> dict[str, float]:
    done = succeed(
        "evaluate", run, "--qrels", qrels, "--metric", "ndcg@3", "--metric", "map", "--json"
    )
    return {name: result["mean"] for name, result in json.loads(done.stdout).items()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with qrels and a run of TREC, features, a model, its data with names, and its
    scores.
    """
    folder = tmp_path_factory.mktemp("plain")
    (folder / "qrels").write_text(text_of(ROWS, "{} 0 {} {}"))
    (folder / "run").write_text(text_of(RUN, "{} Q0 {} 7 {} me"))
    (folder / "features.csv").write_text("query,doc_id,bm25\n" + text_of(ROWS, "{},{},0.5"))
    rows = [
        (label, qid, label * 0.25 + qid * 0.01, f"D{i}")
        for i, (label, qid) in enumerate([(i % 3, i // 6) for i in range(60)])
    ]
    (folder / "data.txt").write_text(text_of(rows, "{} qid:{} 1:{} # {}"))
    succeed("train", folder / "data.txt", "-m", folder / "m.txt", *FEW)
    for name in ("scores.txt", "scores.csv"):
        succeed("predict", folder / "m.txt", folder / "data.txt", "-o", folder / name)
    return folder


def written(path: Path, content: Any) -> Path:
    if isinstance(content, pd.DataFrame):
        writers: dict[str, Callable[..., Any]] = {
            ".parquet": content.to_parquet,
            ".feather": content.to_feather,
            ".csv": lambda p: content.to_csv(p, index=False),
            ".tsv": lambda p: content.to_csv(p, index=False, sep="\t"),
        }
        writers[path.suffix](path)
    else:
        text = content if isinstance(content, str) else json.dumps(content, indent=1)
        path.write_text(text)
    return path


WORKBENCH = {
    "name": "shop",
    "type": "IMPORT_JUDGMENT",
    "judgmentRatings": [
        {
            "query": qid,
            "ratings": [
                {"docId": name, "rating": f"{grade}.0"} for name, grade in of_query.items()
            ],
        }
        for qid, of_query in GRADES.items()
    ],
}
RANK_EVAL = {
    "requests": [
        {
            "id": qid,
            "request": {"query": {"match": {"t": qid}}},
            "ratings": [
                {"_index": "i", "_id": name, "rating": grade} for name, grade in of_query.items()
            ],
        }
        for qid, of_query in GRADES.items()
    ]
}
EVALUATOR = {
    "index": "shop",
    "topics": [
        {
            "description": "all",
            "query_groups": [
                {
                    "name": f"the words of {qid}",
                    "queries": [{"template": "a.json", "placeholders": {"$query": qid}}],
                    "relevant_documents": [
                        {name: {"gain": grade}} for name, grade in of_query.items()
                    ],
                }
                for qid, of_query in GRADES.items()
            ],
        }
    ],
}
QRELS = {
    "beir.tsv": frame_of(ROWS, "query-id corpus-id score"),
    "marco.tsv": text_of(ROWS, "{}\t0\t{}\t{}"),
    "three.txt": text_of(ROWS, "{} {} {}"),
    "head.qrels": "query_id iteration doc_id relevance\n" + text_of(ROWS, "{} 0 {} {}"),
    "head.txt": "topic docno judgment\n" + text_of(ROWS, "{} {} {}"),
    "ranx.parquet": frame_of(ROWS, "q_id doc_id score"),
    "pyterrier.feather": frame_of(ROWS, "qid docno label"),
    "quepid.csv": frame_of(ROWS, "query docid rating"),
    "ir_datasets.csv": frame_of(ROWS, "query_id doc_id relevance"),
    "dict.json": GRADES,
    "lines.jsonl": text_of(
        [(json.dumps({"qid": q, "docno": d, "label": g}),) for q, d, g in ROWS], "{}"
    ),
    "by_line.jsonl": text_of(
        [(json.dumps({q: of_query}),) for q, of_query in GRADES.items()], "{}"
    ),
    "camel.csv": frame_of(ROWS, "QueryId DocId Relevance"),
    "wrapped.json": {"qrels": GRADES},
    "scores.json": {
        "judgmentScores": {
            q: [{"docId": d, "score": str(g)} for d, g in of_query.items()]
            for q, of_query in GRADES.items()
        }
    },
    "texts.json": {
        "queries": [{"query_text": q, "ratings": of_query} for q, of_query in GRADES.items()]
    },
    "workbench.json": WORKBENCH,
    "hits.json": {"hits": {"hits": [{"_id": "1", "_source": WORKBENCH}]}},
    "rank_eval.json": RANK_EVAL,
    "rre.json": EVALUATOR,
    "text.parquet": frame_of(ROWS, "qid docno rel").astype(str),
    "lists.json": {
        q: [{"doc_id": d, "label": g} for d, g in of_query.items()]
        for q, of_query in GRADES.items()
    },
}
RUNS = {
    "marco.run": text_of(ranked(), "{}\t{}\t{}"),
    "tabs.run": text_of(RUN, "{}\tQ0\t{}\t1\t{}\tmy tag"),
    "head.run": "qid Q0 docno rank score tag\n" + text_of(RUN, "{} Q0 {} 7 {} me"),
    "head.tsv": "qid\tQ0\tdocno\trank\tscore\ttag\n" + text_of(RUN, "{}\tQ0\t{}\t7\t{}\tme"),
    "three.run": "qid docno score\n" + text_of(RUN, "{} {} {}"),
    "ranked.run": "qid pid rank\n" + text_of(ranked(), "{} {} {}"),
    "frame.csv": frame_of([(q, 9, d, s) for q, d, s in RUN], "qid docid docno score"),
    "ranx.json": SCORES,
    "pyterrier.csv": frame_of(RUN, "qid docno score"),
    "predicted.parquet": frame_of(RUN, "queryId docId prediction"),
    "ranx.parquet": frame_of(RUN, "q_id doc_id score"),
    "ranks.tsv": frame_of(ranked(), "qid docno rank"),
    "lines.jsonl": text_of(
        [(json.dumps({"qid": q, "docno": d, "score": s}),) for q, d, s in RUN], "{}"
    ),
}


@pytest.mark.parametrize("name", QRELS)
def test_report_05_06_qrels_have_any_form(name: str, plain: Path, tmp_path: Path) -> None:
    qrels = written(tmp_path / name, QRELS[name])
    assert values_by_query(qrels) == GRADES
    assert evaluated(plain / "run", qrels) == evaluated(plain / "run", plain / "qrels")


@pytest.mark.parametrize("name", RUNS)
def test_report_05_06_runs_have_any_form(name: str, plain: Path, tmp_path: Path) -> None:
    assert evaluated(written(tmp_path / name, RUNS[name]), plain / "qrels") == evaluated(
        plain / "run", plain / "qrels"
    )


def test_a_run_without_a_judged_document_is_said(plain: Path, tmp_path: Path) -> None:
    run = written(tmp_path / "other.run", text_of(RUN, "{} Q0 p-{} 7 {} me"))
    done = succeed("evaluate", run, "--qrels", plain / "qrels", "--metric", "map", "--json")
    assert json.loads(done.stdout)["map"]["mean"] == 0.0
    assert all(word in done.stderr for word in ("warning", "'p-d1'", "'d1'", "'q1'")), done.stderr


IDS = {
    "whole": ("7", "7.0"),
    "day": ("2024-01-05", "2024-01-05T00:00:00"),
    "clock": ("2024-01-05 10:30:00", "2024-01-05T10:30"),
}


@pytest.mark.parametrize("kind", IDS)
def test_report_09_10_ids_of_judgements_logs_scores_and_clicks_are_those_of_data(
    kind: str, tmp_path: Path
) -> None:
    qid, other = IDS[kind]
    rows = [(f"d{i}", i % 2, i / 8) for i in range(6)]
    data = written(tmp_path / "d.csv", "qid,doc_id,label,a\n" + text_of(rows, qid + ",{},{},{}"))
    grades = written(tmp_path / "j.csv", "qid,doc_id,label\n" + text_of(rows, other + ",{},{}"))
    logged = [(json.dumps({"query": other, "doc_id": d, "a": a}),) for d, _, a in rows]
    joined, model = tmp_path / "o.csv", tmp_path / "m.txt"
    succeed(
        "data", "join", grades, written(tmp_path / "f.jsonl", text_of(logged, "{}")), "-o", joined
    )
    assert pd.read_csv(joined, dtype=str)["qid"].tolist() == [qid] * 6
    succeed("train", data, "-m", model, *FEW, "--param", "min_data_in_leaf=1")
    succeed("predict", model, data, "-o", tmp_path / "s.csv")
    shuffled = pd.read_csv(tmp_path / "s.csv", dtype=str)[::-1].assign(qid=other)
    shuffled.to_csv(tmp_path / "r.csv", index=False)
    (tmp_path / "r.jsonl").write_text(shuffled.to_json(orient="records", lines=True))
    for name in ("r.csv", "r.jsonl"):
        assert "equal" in succeed("verify", model, data, "--against", tmp_path / name).stdout
    segments = written(tmp_path / "g.csv", f"qid,segment\n{other},x\n")
    assert by_table(read_segments(segments), boostrank.read(data).queries).names == ("x",)
    week = "qid,doc_id,position,clicked\n" + text_of(rows, other + ",{},1,{}")
    command = ("data", "count-clicks", written(tmp_path / "w.csv", week))
    succeed(*command, "--documents", data, "-o", tmp_path / "c")
    assert len((tmp_path / "c").read_text().splitlines()) == 7
    written(tmp_path / "w.csv", week.partition("\n")[0] + "\n")
    refuse(*command, "--documents", data, "-o", tmp_path / "c", says=("w.csv", "no rows"))


def test_report_06_python_takes_paths_frames_and_mappings(plain: Path) -> None:
    polars = pytest.importorskip("polars")
    frames = frame_of(RUN, "qid docno score"), frame_of(ROWS, "qid docno label")
    for run, qrels in (
        (SCORES, GRADES),
        (plain / "run", str(plain / "qrels")),
        frames,
        map(polars.from_pandas, frames),
        (frame_of(ranked(), "qid docno rank"), GRADES),
    ):
        assert (
            evaluate_run(["map"], run, qrels)["map"].mean
            == evaluate_run(["map"], SCORES, GRADES)["map"].mean
        )
    integers = evaluate_run(
        ["map"], {1: {7: 0.5, 8: 0.25}}, pd.DataFrame({"q_id": [1.0], "doc_id": [8], "score": [1]})
    )
    assert integers["map"].mean == 0.5
    with pytest.raises(boostrank.ParameterError, match="int"):
        evaluate_run(["map"], 3, GRADES)
    with pytest.raises(boostrank.DataError, match=r"row 2.*'d2'"):
        evaluate_run(["map"], frames[0].assign(score=[1.0, np.nan, 1.0, 1.0, 1.0]), GRADES)


@pytest.mark.parametrize(
    "name",
    ["workbench.json", "rank_eval.json", "rre.json", "dict.json", "ranx.parquet", "beir.tsv"],
)
def test_report_12_judgements_of_any_form_are_joined(
    name: str, plain: Path, tmp_path: Path
) -> None:
    succeed(
        "data",
        "join",
        written(tmp_path / name, QRELS[name]),
        plain / "features.csv",
        "-o",
        tmp_path / "j.csv",
    )
    table = pd.read_csv(tmp_path / "j.csv")
    assert [*zip(table["qid"], table["doc_id"], table["label"], strict=True)] == ROWS


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04\x14\0", "Excel workbook"),
        ("q1 0 d1 1\n".encode("utf-16"), "UTF-16"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
        (b"<!DOCTYPE html>\n<html></html>\n", "a web page"),
        (b"SQLite format 3\0", "SQLite"),
    ],
)
def test_report_06_other_files_are_named(
    content: bytes, words: str, plain: Path, tmp_path: Path
) -> None:
    path = tmp_path / "grades"
    path.write_bytes(content)
    for command in (
        ("evaluate", plain / "run", "--qrels", path),
        ("evaluate", path, "--qrels", plain / "qrels"),
        ("data", "join", path, plain / "features.csv", "-o", tmp_path / "o.csv"),
    ):
        refuse(*command, says=(str(path), words))


def test_report_06_qrels_and_a_run_in_place_of_each_other_are_named(plain: Path) -> None:
    refuse("evaluate", plain / "run", "--qrels", plain / "run", says=("a TREC run",))
    refuse("evaluate", plain / "qrels", "--qrels", plain / "qrels", says=("TREC qrels",))
    features, joined = plain / "features.csv", plain / "joined.csv"
    refuse("data", "join", plain / "run", features, "-o", joined, says=("a TREC run",))


def test_report_12_refused_json(plain: Path, tmp_path: Path) -> None:
    for content, words in (
        ({"qid": {"0": 1}, "docno": {"0": 2}, "label": {"0": 3}}, "label"),
        ({"a": 1}, "label"),
        (
            {"queries": [{"placeholders": {"$query": "q"}}], "relevant_documents": {"2": ["d"]}},
            "label",
        ),
        ([1], "label"),
        ({"qid": 1, "label": 0}, "doc_id"),
        ({"qid": 1, "doc_id": 0}, "label"),
        ([{"query": "q1", "ratings": [{"docId": "d1"}]}], "label"),
        ({"q1": {"d1": "0,5"}}, "decimal point"),
        ('{"q1": {"d1": 1, "d1": 2}}', "twice"),
        ("{", "JSON"),
        ({"q1": {"d1": "good"}}, "'good'"),
        ({"index": "i", "queries": [{"template": "a"}]}, "label"),
    ):
        path = written(tmp_path / "odd.json", content)
        for command in (
            ("data", "join", path, plain / "features.csv", "-o", tmp_path / "o.csv"),
            ("evaluate", plain / "run", "--qrels", path),
        ):
            done = invoke(*command)
            assert (done.exit_code, words in done.stderr, str(path) in done.stderr) == (
                2,
                True,
                True,
            ), done.stderr


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("q1 Q0 d1 1 0.5 t\nq1 Q0 d2 2 nan t\n", ":2", ("score", "'nan'", "'d2'")),
        ("q1 Q0 d1 1 0.5 t\nq1 Q0 d2 2 inf t\n", ":2", ("score", "'inf'")),
        ("q1 Q0 d1 1 0,5 t\n", ":1", ("'0,5'", "decimal point")),
        ("q1 Q0 d1 1 1.234,5 t\n", ":1", ("'1.234,5'", "decimal point")),
        ("qid,docno,score\nq1,d1,0.5\nq1,d2,\n", ":3", ("score", "'d2'")),
        ("qid,docno,score\nq1,d1,high\n", ":2", ("score", "'high'")),
        ("q1\td1\t1\nq1\td2\t1.5\n", ":2", ("'1.5'", "score")),
        ("qid,docno,score\nq1,d1,0,5\n", ":2", ("decimal point",)),
        ("q1 Q0 d1 1 0.5 t\nq1 Q0 d1 2 0.4 t\n", ":2", ("twice",)),
        (
            (
                '{"qid": "q1", "docno": "d1", "score": 1}\n{"qid": "q1", "docno": "d2", "score":'
                " null}\n"
            ),
            ":2",
            ("score",),
        ),
    ],
)
def test_report_13_scores_that_are_no_numbers_are_named(
    content: str, line: str, words: tuple[str, ...], plain: Path, tmp_path: Path
) -> None:
    file_name = "run.tsv" if content.startswith("q1\t") else "odd.csv"
    run = written(tmp_path / file_name, content)
    done = refuse("evaluate", run, "--qrels", plain / "qrels")
    assert f"{run}{line}: " in done.stderr
    assert all(word in done.stderr for word in words), done.stderr


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("q1 0 d1 0,5\n", ":1"),
        ('query,docid,rating\nq1,d1,1\nq1,d2,"0,5"\n', ":3"),
        ("query\tdocid\trating\nq1\td1\t1.000,5\n", ":2"),
    ],
)
def test_report_14_decimal_commas_in_judgements_are_refused(
    content: str, line: str, plain: Path, tmp_path: Path
) -> None:
    path = written(tmp_path / "grades.txt", content)
    for command in (
        ("evaluate", plain / "run", "--qrels", path),
        ("data", "join", path, plain / "features.csv", "-o", tmp_path / "o.csv"),
    ):
        done = invoke(*command)
        assert (done.exit_code, f"{path}{line}: " in done.stderr) == (2, True), done.stderr
        assert "decimal point" in done.stderr


def commas(word: str) -> str:
    return f"{float(word):.4f}".replace(".", ",")


@pytest.mark.parametrize(
    ("head", "line", "line_number"),
    [
        ("", "{0}", 1),
        ("score\n", "{0}", 2),
        ("", "{1};{2};{0}", 1),
        ("qid;doc_id;score\n", "{1};{2};{0}", 2),
        ("", "{1} {2} {0}", 1),
        ("", "{1}\t{0}", 1),
        ("qid,doc_id,score\n", "{1},{2},{0}", 2),
        ("", "{1},{2},{0}", 0),
        ("qid,doc_id,score\n", '{1},{2},"{0}"', 2),
        ("", '{{"score": "{0}"}}', 1),
    ],
)
def test_report_14_decimal_commas_in_logged_scores_are_refused(
    head: str, line: str, line_number: int, plain: Path, tmp_path: Path
) -> None:
    table = pd.read_csv(plain / "scores.csv", dtype=str)
    rows = [(commas(score), qid, name) for qid, name, score in table.itertuples(index=False)]
    logged = written(tmp_path / "logged.txt", head + text_of(rows, line))
    done = refuse("verify", plain / "m.txt", plain / "data.txt", "--against", logged)
    assert f"{logged}:{line_number}: " in done.stderr or (
        line_number == 0 and f"{logged}:" in done.stderr
    )
    assert "decimal point" in done.stderr
    if (head, line) == ("", "{0}"):
        for command in (("evaluate", logged), ("compare", plain / "m.txt", logged)):
            done = invoke(*command, plain / "data.txt")
            assert (
                done.exit_code,
                f"{logged}:1: " in done.stderr,
                "decimal point" in done.stderr,
            ) == (2, True, True)


def test_report_14_commas_that_separate_columns_are_read(plain: Path, tmp_path: Path) -> None:
    scores = (plain / "scores.txt").read_text().split()
    for head, line in (
        ("", "{0},{1}"),
        ("row,score\n", "{0},{1}"),
        ("", "a b,{1}"),
        ("row;score\n", "{0};{1}"),
    ):
        logged = written(tmp_path / "logged.txt", head + text_of(list(enumerate(scores)), line))
        succeed("verify", plain / "m.txt", plain / "data.txt", "--against", logged)
    blank = written(tmp_path / "logged.txt", "\n".join([*scores[:9], "", *scores[9:]]))
    assert (
        f"{blank}:10: "
        in invoke("verify", plain / "m.txt", plain / "data.txt", "--against", blank).stderr
    )
    data = boostrank.read(plain / "data.txt")
    words = [score.replace(".", ",") for score in scores]
    for call in (
        boostrank.compare,
        lambda old, new, data: boostrank.verify(plain / "m.txt", data, old),
    ):
        with pytest.raises(boostrank.DataError, match="numbers"):
            call(words, np.zeros(60), data)


@pytest.mark.parametrize("word", ["nan", "-inf", "Infinity"])
def test_report_13_a_first_score_that_is_no_number_is_no_heading(
    word: str, plain: Path, tmp_path: Path
) -> None:
    scores = (plain / "scores.txt").read_text().split()
    logged = written(tmp_path / "logged.txt", "\n".join([word, *scores[1:]]) + "\n")
    model, data = plain / "m.txt", plain / "data.txt"
    for command in (("verify", model, data, "--against", logged), ("evaluate", logged, data)):
        done = refuse(*command)
        assert f"{logged}:1: {word!r} " in done.stderr


def test_report_13_a_run_without_scores_names_what_it_lacks(plain: Path, tmp_path: Path) -> None:
    run = written(tmp_path / "run.csv", frame_of(RUN, "qid docno similarity"))
    done = refuse("evaluate", run, "--qrels", plain / "qrels")
    assert "score or rank" in done.stderr
    assert "--" not in done.stderr  # evaluate has no option for it


@pytest.mark.parametrize(
    "name", ["s.csv", "s.parquet", "s.jsonl", "s.tsv", "s.txt", "s.json", "s.run"]
)
def test_first_use_cli_08_named_scores_have_any_order(
    name: str, plain: Path, tmp_path: Path
) -> None:
    table = pd.read_csv(plain / "scores.csv").sample(frac=1.0, random_state=1)
    renamed = {} if name == "s.csv" else {"doc_id": "docno"}
    table = table.rename(columns=renamed).assign(took=3)
    if name == "s.json":
        shuffled = written(tmp_path / name, table.to_json(orient="records"))
    elif name == "s.run":
        run = table[["qid", "docno", "score"]].itertuples(index=False)
        shuffled = written(tmp_path / name, text_of([*run], "{} Q0 {} 1 {} 7"))
    elif name in ("s.jsonl", "s.txt"):
        lines = (
            table.to_json(orient="records", lines=True)
            if name == "s.jsonl"
            else table.to_csv(index=False, sep=";")
        )
        shuffled = written(tmp_path / name, lines)
    else:
        shuffled = written(tmp_path / name, table)
    succeed("verify", plain / "m.txt", plain / "data.txt", "--against", shuffled)
    if name not in ("s.txt", "s.json", "s.run"):
        of_scores = invoke("evaluate", shuffled, plain / "data.txt")
        of_model = invoke("evaluate", plain / "m.txt", plain / "data.txt")
        assert of_scores.stdout.splitlines()[1:] == of_model.stdout.splitlines()[1:]
        compared = invoke("compare", shuffled, plain / "m.txt", plain / "data.txt", "--json")
        assert json.loads(compared.stdout)["metrics"]["ndcg@10"]["mean"] == 0.0


def test_first_use_cli_08_named_scores_that_lack_repeat_or_add_documents(
    plain: Path, tmp_path: Path
) -> None:
    # One is missing, one is there twice, two are of documents that nobody knows.
    header, *lines = (plain / "scores.csv").read_text().splitlines()
    for rows, status, words in (
        (
            lines[:0:-1],
            2,
            (
                "1 of 60 documents of the data have no score; first: document"
                f" {lines[0].split(',')[1]!r}"
            ),
        ),
        ([*lines[::-1], lines[3]], 2, "s.csv:62: "),
        (
            [*lines[::-1], "9,D99,0.5", "9,D98,0.5"],
            0,
            "2 scores of documents that the data lack left out; first: ",
        ),
    ):
        # Every command that takes scores by name refuses the file or says what it leaves out.
        path = written(tmp_path / "s.csv", "\n".join([header, *rows]))
        data, model = plain / "data.txt", plain / "m.txt"
        for command in (
            ("verify", model, data, "--against", path),
            ("evaluate", path, data),
            ("compare", path, model, data),
        ):
            done = invoke(*command)
            assert (done.exit_code, words.replace('"', "") in done.stderr.replace('"', "")) == (
                status,
                True,
            ), done.stderr


def test_first_use_cli_08_names_that_the_data_lack_are_said(plain: Path, tmp_path: Path) -> None:
    text = (plain / "data.txt").read_text()
    data = written(
        tmp_path / "data.txt", "".join(line.partition(" #")[0] + "\n" for line in text.splitlines())
    )
    for command in (
        ("evaluate", plain / "scores.csv", data),
        ("verify", plain / "m.txt", data, "--against", plain / "scores.csv"),
    ):
        done = invoke(*command)
        assert (done.exit_code, "--id" in done.stderr) == (0, True), done.stderr
    assert "--id" not in invoke("evaluate", plain / "scores.txt", data).stderr


def test_first_use_cli_08_frames_are_matched_by_name(plain: Path) -> None:
    data = boostrank.read(plain / "data.txt", keep_names=True)
    frame = pd.read_csv(plain / "scores.csv").sample(frac=1.0, random_state=1)
    model = boostrank.RankingModel.load(plain / "m.txt")
    assert boostrank.compare(frame, model, data).metrics["ndcg@10"].mean == 0.0
    assert boostrank.verify(model, data, frame).equal()
    with pytest.raises(boostrank.DataError, match="no score"):
        boostrank.compare(frame[1:], model, data)
    with pytest.warns(DataWarning, match="D99"):
        boostrank.compare(pd.concat([frame, frame[:1].assign(doc_id="D99")]), model, data)


WEEK = "query,sku,position,clicked\nshoe,d1,1,1\nshoe,d9,2,0\nhat,d3,1,0\nhat,d3,1,1\n"
JOINED = "qid,doc_id,label,bm25\nshoe,d1,2,0.5\nshoe,d2,0,0.25\nhat,d3,0,2\n"


@pytest.mark.parametrize("pattern", [False, True])
def test_first_use_cli_04_click_tables_have_the_names_that_join_writes(
    pattern: bool, tmp_path: Path
) -> None:
    written(tmp_path / "week-1.csv", WEEK)
    header, *lines = JOINED.splitlines(keepends=True)
    for part, rows in enumerate((lines[:2], lines[2:])):
        written(tmp_path / f"train-{part}.csv", "".join([header, *rows]))
    documents = tmp_path / "train-*.csv" if pattern else written(tmp_path / "all.csv", JOINED)
    sessions = tmp_path / ("week-*.csv" if pattern else "week-1.csv")
    done = succeed(
        "data",
        "count-clicks",
        sessions,
        "--documents",
        documents,
        "-o",
        tmp_path / "c",
    )
    assert (tmp_path / "c").read_text().splitlines()[1:] == ["1,1,1,1", "3,1,2,1"]
    assert "1 row of 4" in done.stderr
    assert "week-1.csv:3: shoe, d9" in done.stderr


def test_first_use_cli_04_click_tables_without_a_common_document_are_refused(
    tmp_path: Path,
) -> None:
    week, documents = (
        written(tmp_path / "week.csv", WEEK),
        written(tmp_path / "t.csv", JOINED.replace(",d1", ",SKU-1").replace(",d3", ",SKU-3")),
    )
    done = refuse(
        "data",
        "count-clicks",
        week,
        "--documents",
        documents,
        "-o",
        tmp_path / "c",
    )
    assert all(word in done.stderr for word in ("shoe, SKU-1", "shoe, d1", "alike")), done.stderr
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("cell", "words"), [("NULL", "--missing-token"), ('"0,5"', "decimal point")]
)
def test_report_14_stand_ins_and_commas_in_logged_features_are_refused(
    cell: str, words: str, plain: Path, tmp_path: Path
) -> None:
    features = written(tmp_path / "f.csv", f"query,doc_id,bm25\nq1,d1,0.5\nq1,d2,{cell}\n")
    command = "data", "join", plain / "qrels", features, "-o", tmp_path / "o.csv"
    done = invoke(*command)
    assert (done.exit_code, f"{features}:3: " in done.stderr, words in done.stderr) == (
        2,
        True,
        True,
    ), done.stderr
    if cell == "NULL":
        succeed(*command, "--missing-token", "NULL")
        assert np.isnan(boostrank.read(tmp_path / "o.csv").features[1, 0])
    written(features, "query,doc_id,brand\nq1,d1,red\nq1,d2,NULL\n")
    join(str(plain / "qrels"), str(features), str(tmp_path / "o.csv"))
    assert pd.read_csv(tmp_path / "o.csv", keep_default_na=False)["brand"].tolist() == [
        "red",
        "NULL",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"query": "q1", "response": {"docs": [{"id": "d1", "[features]": "a=0,5"}]}}, "log"),
        ({"query": "q1", "response": {"docs": [{"id": "d1", "[features]": "a:1"}]}}, "log"),
        ({"error": {"msg": "no such model", "code": 400}}, "no such model"),
    ],
)
def test_report_14_answers_that_are_no_logs_are_refused_at_their_line(
    line: dict[str, Any], words: str, plain: Path, tmp_path: Path
) -> None:
    log = written(tmp_path / "f.jsonl", json.dumps(line) + "\n")
    done = refuse("data", "join", plain / "qrels", log, "-o", tmp_path / "o.csv", says=(words,))
    assert f"{log}:1: " in done.stderr


def test_report_14_logged_scores_that_are_a_list_or_no_text(plain: Path, tmp_path: Path) -> None:
    words = (plain / "scores.txt").read_text().split()
    scores = written(tmp_path / "s.json", f"[{','.join(words)}]")
    command = ("verify", plain / "m.txt", plain / "data.txt", "--against")
    assert ": equal" in succeed(*command, scores).stdout
    for content, word in (
        ("\n".join(words).encode("utf-16"), "UTF-16"),
        (b"\x93NUMPY\1\0", "NumPy"),
    ):
        scores.write_bytes(content)
        refuse(*command, scores, says=("s.json", word))


def test_report_05_qrels_of_another_form_are_refused(plain: Path, tmp_path: Path) -> None:
    # Files that are no judgements.
    for content, location in (
        ("q1 0 d1 1\nq1 0 7\n", ":2"),
        ("q1 d1 0 1 x\n", ":1"),
        ("a,b,c\n1,2,3\n", ": "),
        ("# none\n", ": "),
    ):
        qrels = written(tmp_path / "odd.txt", content)
        with pytest.raises(FileFormatError) as caught:
            values_by_query(qrels)
        assert str(caught.value).startswith(f"{qrels}{location}")
    # Files that lack grades, or have more columns.
    with pytest.warns(DataWarning, match="1 document"):
        grades = values_by_query(
            written(tmp_path / "some.csv", "query,docid,rating\nq1,d1,2\nq1,d2,\n")
        )
    assert grades == {"q1": {"d1": 2}}
    with pytest.raises(FileFormatError, match="no column is called"):
        values_by_query(written(tmp_path / "pairs.tsv", "q1\td1\nq2\td4\n"))
    assert values_by_query(
        written(tmp_path / "b.csv", "query,docid,my rating,rating\nq1,d1,0,2\n")
    ) == {"q1": {"d1": 2}}
    for name in ("true.csv", "true.parquet"):
        table = written(
            tmp_path / name, frame_of([("q1", "d1", True), ("q1", "d2", False)], "qid docno label")
        )
        assert values_by_query(table) == {"q1": {"d1": 1, "d2": 0}}


def test_judgements_come_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "qrels"
    os.mkfifo(pipe)
    writer = threading.Thread(
        target=pipe.write_text, args=("".join(f"q{i} 0 d{i} 1\n" for i in range(9_000)),)
    )
    writer.start()
    judged = values_by_query(str(pipe))
    writer.join()
    assert len(judged) == 9_000


def test_judgements_come_through_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    with (tmp_path / "qrels").open() as qrels:
        monkeypatch.setattr("sys.stdin", qrels)
        assert values_by_query("-") == {"q1": {"d1": 1}}


@pytest.mark.parametrize("text", ["qid,docid,rel\nq1,d1,1\n", '{"q1": {"d1": 1}}\n'])
def test_report_06_tables_and_json_in_a_pipe_are_told_to_be_files(
    text: str, plain: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "qrels"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    refuse("evaluate", plain / "run", "--qrels", pipe, says=(f"{pipe}:1", "to a file"))
    writer.join()


def test_days_of_a_frame_are_the_ids_of_data_sets() -> None:
    frame = pd.DataFrame({"qid": pd.to_datetime(["2024-01-31"]), "doc_id": ["a"], "label": [1]})
    assert list(values_by_query(frame)) == ["2024-01-31"]


def test_rows_of_letor_may_have_tabs(tmp_path: Path) -> None:
    file = written(
        tmp_path / "judged.txt", "4 qid:1\t1:0.5\t2:0.3 # a\n0 qid:1\t1:0.1\t2:0.2 # b\n"
    )
    assert values_by_query(str(file)) == {"1": {"a": 4.0, "b": 0.0}}


def test_columns_of_scores_by_other_libraries_are_no_pickles(tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", "catboost_score,qid,label\n0.5,1,0\n0.7,1,1\n")
    assert boostrank.read(table).feature_names == ("catboost_score",)
