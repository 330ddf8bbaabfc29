"""`boostrank compare --machine` and `boostrank study queries`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import FEW, invoke, refuse, succeed

pytest.importorskip("pyarrow", reason="tables are read by pyarrow")


def graded_table(folder: Path) -> tuple[Path, list[Path]]:
    """A table of two judges, as `data join` writes it, and the scores of two rankers."""
    table, scores = folder / "test.csv", [folder / "old.txt", folder / "new.txt"]
    lines, values = ["qid,doc_id,label,machine,gain,weight,bm25"], ([], [])
    for q in range(40):
        for d in range(6):
            grade = (q * d + d + d // 2) % 4
            label = grade if q < 16 else ""
            lines.append(f"q{q},p{d},{label},{min(grade + (q + d) % 2, 3)},1,0.5,{d}")
            values[0].append(f"{(q * 7 + d * 5) % 11}\n")
            values[1].append(f"{grade + (q * 5 + d * 3) % 4}\n")
    table.write_text("\n".join(lines) + "\n")
    for path, numbers in zip(scores, values, strict=True):
        path.write_text("".join(numbers))
    return table, scores


def test_a_gate_reads_people_and_a_machine(tmp_path: Path) -> None:
    table, scores = graded_table(tmp_path)
    arguments = ("compare", *scores, table, "--machine", "machine")
    result = succeed(*arguments, "--json")
    assert "1 feature" in result.stderr
    people, machine, both = json.loads(result.stdout)["judges"]
    assert (people["queries"], machine["queries"]) == (16, 40)
    assert both["error"] < people["error"]
    low = both["low"]
    for bound, status in ((low + 1e-6, 1), (low - 1e-6, 0)):
        printed = invoke(*arguments, "--fail-if", f"low(ndcg@10) < {bound}")
        assert printed.exit_code == status, printed.stderr
    for words in ("people", "machine", "both", "worth", f"{both['mean']:+.4f}"):
        assert words in printed.stdout


def runs_of(table: Path, scores: list[Path]) -> tuple[list[Path], list[Path]]:
    """The runs of two rankers, and the qrels of people and of the machine."""
    rows = [line.split(",") for line in table.read_text().split()[1:]]
    runs = [path.with_suffix(".run") for path in scores]
    for path, run in zip(scores, runs, strict=True):
        pairs = zip(rows, path.read_text().split(), strict=True)
        run.write_text("".join(f"{r[0]} Q0 {r[1]} 1 {score} tag\n" for r, score in pairs))
    qrels = [table.with_name(name) for name in ("people.qrels", "machine.qrels")]
    for column, path in enumerate(qrels, 2):
        graded = [row for row in rows if row[column]]
        path.write_text("".join(f"{row[0]} 0 {row[1]} {row[column]}\n" for row in graded))
    return runs, qrels


def test_two_runs_and_two_qrels_compare_as_their_table_does(tmp_path: Path) -> None:
    table, scores = graded_table(tmp_path)
    runs, (people, machine) = runs_of(table, scores)
    options = ("--conventions", "trec", "--metric", "map", "--json")
    by_table = succeed(
        "compare", *scores, table, "--machine", "machine", "--id", "doc_id", *options
    )
    expected = json.loads(by_table.stdout)
    for data, machines in ((people, machine), (table, "machine")):
        printed = json.loads(
            succeed("compare", *runs, data, "--machine", machines, *options).stdout
        )
        for part in ("judges", "metrics", "queries"):
            assert printed[part] == expected[part]
    # Scores that name documents are runs where the data have nothing but judgements.
    only, old = tmp_path / "only.csv", tmp_path / "old.csv"
    rows = [line.split(",") for line in table.read_text().split()]
    only.write_text("".join(",".join(row[:4]) + "\n" for row in rows))
    pairs = zip(rows[1:], scores[0].read_text().split(), strict=True)
    lines = [f"{row[0]},{row[1]},{score}\n" for row, score in pairs]
    old.write_text("qid,doc_id,score\n" + "".join(lines))
    again = succeed("compare", old, runs[1], only, "--machine", "machine", *options)
    assert json.loads(again.stdout)["judges"] == expected["judges"]
    plan = ("study", "queries", *runs, people, "--machine", machine, "--detect", 0.15, "--json")
    assert json.loads(succeed(*plan).stdout)["judged"] == 40


def test_a_gate_reads_two_runs(tmp_path: Path) -> None:
    runs, (people, machine) = runs_of(*graded_table(tmp_path))
    with runs[1].open("a") as file:
        file.write("q99 Q0 p1 1 2.5 tag\nq0 Q0 p77 1 9.5 tag\n")
    arguments = ("compare", *runs, people, "--metric", "ndcg@5", "--json")
    for first, more in (("q16", ()), ("q99", ("--machine", machine))):
        for sign, status in (("<", 0), (">", 1)):
            done = invoke(*arguments, *more, "--fail-if", f"high(ndcg@5) {sign} 0")
            assert done.exit_code == status, done.stderr
        assert f"({first})" in " ".join(json.loads(done.stdout)["notes"])
    for words, reason in (
        (("--clicks",), "--clicks"),
        (("--drop", "x"), "--drop"),
        ((machine,), "one file"),
        (("--machine", "machin"), "'machin'"),
    ):
        assert reason in refuse(*arguments, *words).stderr


def test_queries_of_people_are_counted_with_and_without_a_machine(tmp_path: Path) -> None:
    table, scores = graded_table(tmp_path)
    arguments = ("study", "queries", *scores, table, "--machine", "machine", "--detect", 0.15)
    plan = json.loads(invoke(*arguments, "--json").stdout)
    assert plan["both"] < plan["people"]
    printed = invoke(*arguments)
    assert f"{plan['people']} queries" in printed.stdout
    assert f"{plan['both']} with" in printed.stdout
    table.write_text(table.read_text().replace(",,", ",1,"))
    alone = succeed("study", "queries", *scores, table, "--drop", "machine,gain", "--detect", 0.1)
    assert "with the machine" not in alone.stdout


def judgements_of(table: Path, form: str, path: Path) -> Path:
    """Move the column `machine` of a table to a file of judgements, and return its path."""
    rows = [line.split(",") for line in table.read_text().split()]
    table.write_text("\n".join(",".join(row[:3] + row[6:]) for row in rows) + "\n")
    cells = [(row[0], row[1], row[3]) for row in reversed(rows[1:])]
    path.write_text("".join(form.format(*each) + "\n" for each in cells))
    return path


@pytest.mark.parametrize(
    "form", ["{0} 0 {1} {2}", "{0}\t{1}\t{2}", '{{"qid": "{0}", "doc_id": "{1}", "label": {2}}}']
)
def test_a_machines_judgements_are_those_of_its_column(tmp_path: Path, form: str) -> None:
    table, scores = graded_table(tmp_path)
    expected = invoke("compare", *scores, table, "--machine", "machine", "--json").stdout
    file = judgements_of(table, form, tmp_path / "machine.txt")
    result = succeed("compare", *scores, table, "--machine", file, "--json")
    assert json.loads(result.stdout)["judges"] == json.loads(expected)["judges"]
    assert "1 feature" in result.stderr


def test_a_file_with_the_name_of_a_column_is_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, scores = graded_table(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("machine").write_text("q0 0 p0 1\nq0 0 p1 1\n")
    by_column = succeed("compare", *scores, table, "--machine", "machine")
    assert "./machine" in by_column.stderr
    by_file = refuse("compare", *scores, table, "--machine", "./machine")
    assert "judged 1 whole quer" in by_file.stderr


def test_what_a_machine_left_out_and_what_matches_nothing_are_counted(tmp_path: Path) -> None:
    table, scores = graded_table(tmp_path)
    file = judgements_of(table, "{0} 0 {1} {2}", tmp_path / "machine.qrels")
    lines = [line for line in file.read_text().split("\n") if not line.startswith(("q0 ", "q1 "))]
    more = ["q99 0 p0 1", "q0 0 p0 2", "q0 0 p1 -1", "q3 0 p0 0", "q3 0 p0 3", ""]
    file.write_text("\n".join([*lines[:-2], *more]))
    result = succeed("compare", *scores, table, "--machine", file, "--json")
    assert "1 grade of documents that the data lack" in result.stderr
    assert "1 document with different grades" in result.stderr
    notes = " ".join(json.loads(result.stdout)["notes"])
    assert "5 documents of the machine's queries" in notes
    assert "1 query without a machine's grade" in notes


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("{1} 0 {0} {2}", "same columns"),
        ("{0}x 0 {1} {2}", "document 'p5' of query 'q39x'"),
        ("{0} 0 {1} much", "machine.txt:1"),
    ],
)
def test_judgements_of_other_documents_are_refused(tmp_path: Path, form: str, words: str) -> None:
    table, scores = graded_table(tmp_path)
    file = judgements_of(table, form, tmp_path / "machine.txt")
    refused = refuse("compare", *scores, table, "--machine", file)
    assert words in refused.stderr


def test_data_without_names_or_with_libsvm_labels(tmp_path: Path) -> None:
    scores = graded_table(tmp_path)[1]
    qrels, data = tmp_path / "m.qrels", tmp_path / "test.txt"
    pairs = [(q, d) for q in range(40) for d in range(6)]
    qrels.write_text("".join(f"{q} 0 p{d} {d % 3}\n" for q, d in pairs if q < 12))
    data.write_text("".join(f"{d % 4} qid:{q} 1:{d} # p{d}\n" for q, d in pairs))
    result = succeed("compare", *scores, data, "--machine", qrels, "--json")
    printed = json.loads(result.stdout)
    assert [row["queries"] for row in printed["judges"]] == [12, 12, 12]
    assert "swapped" in " ".join(printed["notes"])
    data.write_text("".join(f"{d % 4} qid:{q} 1:{d}\n" for q, d in pairs))
    refused = refuse("compare", *scores, data, "--machine", qrels)
    assert "--id" in refused.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--machine", "machin"), "'machine'"),
        (("--machine", "machine", "--gain", "label + bm25"), "--gain"),
        (("--machine", "machine", "--clicks"), "--clicks"),
        (("--machine", "machine", "--on-bad-line", "skip"), "--on-bad-line"),
        (("--machine", "machine", "--label-map", "3=2"), "--label-map"),
    ],
)
def test_a_machine_is_refused_where_it_cannot_be_read(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    table, scores = graded_table(tmp_path)
    refused = refuse("compare", *scores, table, *options)
    assert words in refused.stderr


def test_a_model_keeps_the_columns_that_its_training_dropped(tmp_path: Path) -> None:
    table, scores = graded_table(tmp_path)
    header, *lines = table.read_text().splitlines()
    rows = [f"{line},{number}" for number, line in enumerate(lines)]
    table.write_text("\n".join([f"{header},shown", *rows]) + "\n")
    model, train = tmp_path / "model.txt", tmp_path / "train.csv"
    judged = [row for row in rows if row.split(",")[2]]
    train.write_text("\n".join([f"{header},shown", *judged]) + "\n")
    dropped = "machine,gain,weight,shown"
    succeed("train", train, "--start", "none", "-m", model, "--drop", dropped, *FEW)
    compared = succeed("compare", scores[0], model, table, "--machine", "machine", "--json")
    assert len(json.loads(compared.stdout)["judges"]) == 3
