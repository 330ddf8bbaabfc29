"""Judgements joined with logged features."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import DataError, FileFormatError, ParameterError
from boostrank.files.join import join

pa = pytest.importorskip("pyarrow", reason="tables are read by pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

WORDS = {"1": "red shoe", "2": "hat"}
GRADES = [("1", "d10", 2), ("1", "d9", 0), ("2", "d9", 1), ("2", "d7", 3)]
LOGGED = {
    ("1", "d10"): (1.5, 7),
    ("1", "d9"): (0.25, None),
    ("2", "d9"): (-1.0, 9),
    ("2", "d7"): (4.0, 1),
}


def list_of(grades: list[Any] = GRADES) -> str:
    head = [f"# qid:{qid}: {words}" for qid, words in WORDS.items()]
    return "\n".join(
        ["# grade qid doc", "#", *head, *(f"{g}\tqid:{q}\t# {d} title" for q, d, g in grades), ""]
    )


def quepid(grades: list[Any] = GRADES) -> str:
    return "query,docid,rating\n" + "".join(f"{WORDS[q]},{d},{g}\n" for q, d, g in grades)


def qrels(grades: list[Any] = GRADES) -> str:
    return "".join(f"{q} 0 {d} {g}\n" for q, d, g in grades)


def table(name: dict[str, str]) -> str:
    rows = [f"{d},{name[q]},{x},{'' if n is None else n}\n" for (q, d), (x, n) in LOGGED.items()]
    return "product_id,Query,bm25,clicks\n" + "".join(rows)


def log_of(q: str, d: str) -> list[dict[str, Any]]:
    x, n = LOGGED[q, d]
    return [
        {"name": "bm25", "value": x},
        {"name": "clicks"} if n is None else {"name": "clicks", "value": n},
    ]


def hits(name: dict[str, str]) -> str:
    """A hit per line, with its query."""
    log_hits = [
        {
            "_id": d,
            "_score": 1.0,
            "query": name[q],
            "fields": {"_ltrlog": [{"log_entry1": log_of(q, d)}]},
        }
        for q, d in LOGGED
    ]
    return "\n".join(map(json.dumps, log_hits))


def responses(name: dict[str, str]) -> str:
    """An Elasticsearch response per line."""
    lines = []
    for query in WORDS:
        query_hits = [
            {"_id": d, "fields": {"_ltrlog": [{"main": log_of(q, d)}]}}
            for q, d in LOGGED
            if q == query
        ]
        lines.append(
            json.dumps({"query": name[query], "took": 1, "hits": {"total": 2, "hits": query_hits}})
        )
    return "\n".join(lines)


def solr(name: dict[str, str]) -> str:
    """A Solr response per line."""
    lines = []
    for query in WORDS:
        docs = []
        for (q, d), (x, n) in LOGGED.items():
            if q == query:
                clicks = f",clicks={n}" if n is not None else ""
                docs.append({"id": d, "[features]": f"bm25={x}{clicks}"})
        lines.append(
            json.dumps(
                {"responseHeader": {"params": {"q": name[query]}}, "response": {"docs": docs}}
            )
        )
    return "\n".join(lines)


def pretty(name: dict[str, str]) -> str:
    rows = [
        {"qid": name[q], "doc_id": d, "bm25": x, "clicks": n} for (q, d), (x, n) in LOGGED.items()
    ]
    return json.dumps(rows, indent=1)


JUDGEMENTS = {
    "list.txt": list_of(),
    "quepid.csv": quepid(),
    "qrels.tsv": qrels().replace(" ", "\t"),
    "qrels": qrels(),
}
FEATURES = {
    "log.csv": table,
    "hits.jsonl": hits,
    "responses.json": responses,
    "solr.jsonl": solr,
    "pretty.json": pretty,
}


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize("log", FEATURES)
@pytest.mark.parametrize("judged", JUDGEMENTS)
def test_every_kind_of_judgements_joins_every_kind_of_log(
    tmp_path: Path, judged: str, log: str, by_id: bool
) -> None:
    if (judged == "quepid.csv" and by_id) or (judged.startswith("qrels") and not by_id):
        return  # these know queries by words alone, or by ids alone
    name = {query_id: query_id for query_id in WORDS} if by_id else WORDS
    paths = (
        written(tmp_path, judged, JUDGEMENTS[judged]),
        written(tmp_path, log, FEATURES[log](name)),
    )
    for ending in ("csv", "parquet"):
        output = tmp_path / f"out.{ending}"
        summary = join(*paths, str(output))
        assert (summary.documents, summary.queries) == (4, 2)
        assert not any(count for count, _ in summary.problems.values())
        data = boostrank.read(output, keep_names=True)
        assert data.feature_names == ("bm25", "clicks")
        ids = {q: q for q in WORDS} if judged.startswith("qrels") else WORDS
        names = data.document_names
        assert names is not None
        rows = list(zip(data.queries.row_ids().tolist(), names.tolist(), strict=True))
        assert rows == sorted(rows)
        by_document = {(ids[q], d): (g, *LOGGED[q, d]) for q, d, g in GRADES}
        expected = [by_document[str(q), d] for q, d in rows]
        assert data.labels.tolist() == [g for g, _, _ in expected]
        # None becomes NaN.
        expected_features = np.array([[x, n] for _, x, n in expected], np.float32)
        np.testing.assert_array_equal(data.features, expected_features)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("seed", range(3))
def test_a_shuffled_split_gives_the_bytes_of_the_whole(
    tmp_path: Path, ending: str, seed: int
) -> None:
    rng, n = np.random.default_rng(seed), 500
    whole = pa.table(
        {
            "qid": np.repeat(np.arange(50), 10),
            "doc_id": [f"p{i:03d}" for i in range(n)],
            "label": rng.integers(0, 5, n),
            "bm25": rng.normal(size=n),
            "price": pa.array(rng.random(n), from_pandas=True).cast(pa.float64()),
            "brand": [["a", 'b"c', None][i] for i in rng.integers(0, 3, n)],
            "clicks": rng.integers(0, 9, n),
        }
    )
    (csv.write_csv if ending == "csv" else parquet.write_table)(whole, tmp_path / f"whole.{ending}")

    def shuffled(names: list[str], path: str) -> str:
        part = whole.select(names).take(pa.array(rng.permutation(n)))
        (csv.write_csv if path.endswith("csv") else parquet.write_table)(part, tmp_path / path)
        return str(tmp_path / path)

    judged = shuffled(["label", "doc_id", "qid"], f"judged.{ending}")
    log = shuffled(["doc_id", "bm25", "price", "qid", "brand", "clicks"], f"log.{ending}")
    summary = join(judged, [log], str(tmp_path / f"out.{ending}"))
    assert summary.documents == n
    assert (tmp_path / f"out.{ending}").read_bytes() == (tmp_path / f"whole.{ending}").read_bytes()


def test_judgements_and_rows_without_a_partner_are_counted_with_a_place(tmp_path: Path) -> None:
    grades = [*GRADES, ("1", "d9", 1), ("1", "d8", 1), ("1", "d8", 1)]
    judged = written(tmp_path, "j.txt", list_of(grades))
    log = written(tmp_path, "f.csv", table(WORDS) + "d10,red shoe,9,9\nd3,hat,1,1\nd3,boots,1,1\n")
    output = tmp_path / "out.csv"
    summary = join(judged, log, str(output))
    assert summary.documents == 4
    assert summary.problems["unlogged"] == (1, f"{judged}:10: document 'd8' of query 'red shoe'")
    assert summary.problems["unjudged"] == (2, f"{log}:7: document 'd3' of query 'hat'")
    assert summary.problems["disagreeing"] == (1, f"{judged}:6: document 'd9' of query 'red shoe'")
    assert summary.problems["repeated"] == (1, f"{log}:6: document 'd10' of query 'red shoe'")
    assert boostrank.read(output).labels.tolist() == [3, 1, 2, 0.5]
    zero = join(judged, log, str(output), unjudged="zero")
    assert (zero.documents, zero.queries) == (5, 2)  # nobody judged documents of `boots`
    assert boostrank.read(output).labels.tolist() == [0, 3, 1, 2, 0.5]
    with pytest.raises(DataError, match=r"f\.csv:7: document 'd3'"):
        join(judged, log, str(output), unjudged="stop")


def test_logs_of_several_files_and_rows_without_a_grade(tmp_path: Path) -> None:
    judged = written(tmp_path, "j.csv", quepid() + "hat,d5,\n")
    lines = hits(WORDS).splitlines()
    more = json.dumps({"query": "hat", "docno": "d5", "age": 3})
    logs = [
        written(tmp_path, "a.jsonl", "\n".join(lines[:3])),
        written(tmp_path, "b.jsonl", f"{lines[3]}\n{more}\n"),
    ]
    summary = join(judged, logs, str(tmp_path / "out.parquet"))
    assert summary.problems["unrated"] == (1, f"{judged}:6: document 'd5' of query 'hat'")
    assert summary.problems["unjudged"] == (1, f"{logs[1]}:2: document 'd5' of query 'hat'")
    assert parquet.read_table(tmp_path / "out.parquet").column_names[3:] == [
        "bm25",
        "clicks",
        "age",
    ]


@pytest.mark.parametrize(
    ("judged", "log", "location"),
    [
        ("# a\n4 qid:1 # 7\nx\n", "doc,qid,a\n7,1,2\n", "j.txt:3"),
        ("4 qid:1 # 7\nnan qid:1 # 8\n", "doc,qid,a\n7,1,2\n", "j.txt:2"),
        ("4 qid:1 # 7\n3 qid:1 #\n", "doc,qid,a\n7,1,2\n", "j.txt:2"),
        ("1 0 7 4\n1 0 7\n", "doc,qid,a\n7,1,2\n", "j.txt:2"),
        ("query,docid,rating\n1,7,2\n1,8,good\n", "doc,qid,a\n7,1,2\n", "j.txt:3"),
        ("query,docid,rating\n1,,2\n", "doc,qid,a\n7,1,2\n", "j.txt:2"),
        ("query,url,rating\n1,7,2\n", "doc,qid,a\n7,1,2\n", "--id"),
        ("1 0 7 4\n", "doc,qid,a\n7,1,2\n7,,3\n", "f.txt:3"),
        ("1 0 7 4\n", "doc,qid,label\n7,1,2\n", "'label'"),
        ("1 0 7 4\n", "doc,qid,a\n7,2,2\n", "document '7' of query '2'"),
        ("1 0 7 4\n", '{"qid": 1, "_id": 7, "a": 2}\n{"qid": 1, "a": 2}\n', "f.txt:2"),
        ("1 0 7 4\n", '{"qid": 1, "_id": 7, "a": 2}\n{"_id": 7, "a": 2}\n', "f.txt:2"),
        ("1 0 7 4\n", '{"qid": 1, "_id": 7, "a": 2}\n{"qid": 1,\n', "f.txt:2"),
        ("1 0 7 4\n", '{"qid": 1, "_id": 7, "a": "red"}\n', "f.txt:1"),
        ("1 0 7 4\n", '{"qid": 1, "_id": 7, "fields": {"_ltrlog": [3]}}\n', "f.txt:1"),
        ("1 0 7 4\n", '{"qid": 1, "hits": 3}\n', "f.txt:1"),
        ("1 0 7 4\n", "[3]\n", "f.txt:1"),
        ("1 0 7 4\n", '{\n"qid": ', "f.txt"),
        ("4 qid:1 # 7\ninf qid:1 # 8\n", "doc,qid,a\n7,1,2\n", "j.txt:2"),
        ("inf qid:1 # 7\n", "doc,qid,a\n7,1,2\n", "j.txt:1"),
        ("query,docid,rating\n1,7,2\n1,8,1e300\n", "doc,qid,a\n7,1,2\n", "j.txt:3"),
        ("query,docid,rating\n1,7,2\n1,8,-2147483649\n", "doc,qid,a\n7,1,2\n", "j.txt:3"),
        ("1 0 7 4\n1 0 8 -1e400\n", "doc,qid,a\n7,1,2\n", "j.txt:2"),
        (
            "1 0 7 4\n",
            '{"qid": 1, "_id": 7, "[features]": "a=1e400"}\n',
            "f.txt:1: document '7': feature 'a'",
        ),
        ("1 0 7 4\n", '{"qid": 1, "_id": 7, "a": 1e39}\n', "f.txt:1: document '7': feature 'a'"),
        ("1 0 7 4\n", '{"qid": 1, "_id": 7, "a": [1]}\n', "f.txt:1: document '7': feature 'a'"),
        (
            "1 0 7 4\n",
            '{"qid": 1, "_id": 7, "a": 1%s}\n' % ("0" * 400),
            "f.txt:1: document '7': feature 'a'",
        ),
        ("1 0 7 4\n", '{"qid": 1, "_id": 7, "[features]": "a=1,a=2"}\n', "f.txt:1: document '7'"),
        ("1 0 7 4\n", '{"qid": 1, "_id": "7\\n8", "a": 1}\n', "f.txt:1: document '7\\n8'"),
        ("1 0 7 4\n", '{"qid": "1\\u0000", "_id": 7, "a": 1}\n', "f.txt:1: document '7'"),
        ("1 0 7 4\n", '{"qid": 1, "_id": "\\ud800", "a": 1}\n', "f.txt:1: document '\\ud800'"),
        ("1 0 7 4\n", '{"qid": 1, "_id": 7, "a\\nb": 1}\n', "'a\\nb'"),
        ("1 0 7 4\n", '{"qid": 1, "a": 2}\n', "'doc_id'"),
    ],
)
def test_rows_that_cannot_be_joined_are_refused_with_their_place(
    tmp_path: Path, judged: str, log: str, location: str
) -> None:
    (tmp_path / "out.csv").write_text("old")
    with pytest.raises((FileFormatError, DataError)) as error:
        join(
            written(tmp_path, "j.txt", judged),
            written(tmp_path, "f.txt", log),
            str(tmp_path / "out.csv"),
        )
    words = str(error.value)
    assert location in words
    assert words.count("f.txt:1") < 2
    assert "Error:" not in words
    assert (tmp_path / "out.csv").read_text() == "old"


def test_whole_floats_in_json_are_the_names_of_integers(tmp_path: Path) -> None:
    log = written(tmp_path, "f.jsonl", '{"qid": 1.0, "doc_id": 7.0, "a": 2}\n')
    output: Any = tmp_path / "out.csv"
    assert join(written(tmp_path, "j.txt", "1 0 7 4\n"), log, output)[:2] == (1, 1)


def test_columns_that_no_table_can_hold_are_refused(tmp_path: Path) -> None:
    judged = written(tmp_path, "j.txt", "1 0 7 4\n1 0 8 1\n")
    logs = [
        written(tmp_path, f"{i}.csv", f"qid,doc_id,a\n1,{i},{'xy'[: i - 7] or 3}\n") for i in (7, 8)
    ]
    lists = tmp_path / "l.parquet"
    parquet.write_table(pa.table({"qid": [1], "doc_id": [7], "a": [[1, 2]]}), lists)
    for log, word in ((logs, "Field a"), ([str(lists)], "list")):
        with pytest.raises(FileFormatError, match=rf"out\.csv: .*{word}"):
            join(judged, log, str(tmp_path / "out.csv"))
    assert not (tmp_path / "out.csv").exists()


def test_a_feature_that_one_entry_logs_twice_is_refused(tmp_path: Path) -> None:
    twice = {
        "query": "1",
        "_id": "7",
        "fields": {"_ltrlog": [{"main": [{"name": "x", "value": i} for i in (1, 2)]}]},
    }
    log = written(tmp_path, "f.jsonl", json.dumps(twice))
    with pytest.raises(FileFormatError, match=r"f\.jsonl:1: document '7'.*'x'"):
        join(written(tmp_path, "qrels", "1 0 7 4\n"), log, str(tmp_path / "out.csv"))


def test_blanks_are_part_of_names(tmp_path: Path) -> None:
    judged = written(tmp_path, "j.csv", "query,docid,rating\n1, a,2\n1,a,3\n1, 7,1\n")
    log = written(tmp_path, "f.csv", "query,docid,x\n1, a, 2\n1,a,3\n1,7,1\n")
    more = written(
        tmp_path,
        "g.jsonl",
        '{"query": "1", "doc_id": " a", "x": 2}\n{"query": "1", "doc_id": "a", "x": 3}\n',
    )
    for log_path, names in ((log, [" a", "7", "a"]), (more, [" a", "a"])):
        summary = join(judged, log_path, str(tmp_path / "out.parquet"))
        assert (summary.problems["disagreeing"][0], summary.problems["repeated"][0]) == (0, 0)
        table = parquet.read_table(tmp_path / "out.parquet").to_pydict()
        assert table["doc_id"] == names
        assert table["label"] == [{" a": 2, "a": 3, "7": 1}[name] for name in names] == table["x"]


def test_negative_grades_of_qrels_are_counted(tmp_path: Path) -> None:
    log = written(tmp_path, "f.csv", "doc,qid,a\n7,1,2\n8,1,3\n9,1,3\n")
    qrels = written(tmp_path, "qrels", "1 0 7 1\n1 0 8 -2\n1 0 9 -1\n")
    assert join(qrels, log, str(tmp_path / "out.csv")).problems["negative"] == (
        2,
        f"{qrels}:2: document '8' of query '1'",
    )
    assert csv.read_csv(tmp_path / "out.csv")["label"].to_pylist() == [1, 0, 0]


def test_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    good = written(tmp_path, "f.csv", "doc,qid,label\n7,1,2\n")
    for bad in ("-", str(tmp_path / "pipe")):
        for pair in ((bad, good), (good, bad)):
            with pytest.raises(ParameterError, match=bad):
                join(*pair, str(tmp_path / "out.csv"))


def test_columns_can_be_named(tmp_path: Path) -> None:
    judged = written(tmp_path, "j.csv", "q,url,rating,points\n1,7,0,3\n1,8,0,4\n")
    log = written(tmp_path, "f.csv", "url,query,a\n7,1,0.5\n8,1,1.5\n")
    qrels = written(tmp_path, "qrels", "1 0 7 -2\n1 0 8 1\n")
    join(qrels, log, str(tmp_path / "out.csv"), qid="query", id="url")
    assert csv.read_csv(tmp_path / "out.csv")["label"].to_pylist() == [0, 1]  # as trec_eval counts
    join(judged, log, str(tmp_path / "out.csv"), qid="q", id="url", label="points")
    assert csv.read_csv(tmp_path / "out.csv").to_pydict() == {
        "qid": [1, 1],
        "doc_id": [7, 8],
        "label": [3, 4],
        "a": [0.5, 1.5],
    }
    with pytest.raises(FileFormatError, match="'uri'"):
        join(judged, log, str(tmp_path / "out.csv"), qid="q", id="uri")
    with pytest.raises(ParameterError, match="out"):
        join(judged, log, str(tmp_path / "out.txt"))
    with pytest.raises(ParameterError, match="unjudged"):
        join(judged, log, str(tmp_path / "out.csv"), unjudged="keep")
