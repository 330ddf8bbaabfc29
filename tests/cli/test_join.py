"""`boostrank data join`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, refuse, succeed

pytest.importorskip("pyarrow", reason="tables are read by pyarrow")


def test_judgements_and_a_log_become_a_table_that_train_takes(tmp_path: Path) -> None:
    command = ("data", "join")
    queries = range(30)
    judged = tmp_path / "judged.csv"
    log = tmp_path / "log.jsonl"
    table = tmp_path / "table.csv"
    # Six documents a query are judged and six logged, of which five are the same.
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
    # The table is written; what only one of the files has is named with its line.
    result = succeed(*command, judged, log, "-o", table, "--unjudged", "zero")
    assert result.stdout == f"{table}\n"
    assert f"{judged}:2: document 'p0' of query 'q 0'" in result.stderr
    assert f"{log}:6: document 'p6' of query 'q 0'" in result.stderr
    # The table can be trained on and scored.
    trained = succeed(
        "train", table, "-m", tmp_path / "model.txt", "--quality", "plain", "--rounds", 2
    )
    assert "180 rows, 30 queries, 1 feature" in trained.stderr
    scores = tmp_path / "scores.csv"
    succeed("predict", tmp_path / "model.txt", table, "-o", scores)
    assert scores.read_text().startswith("qid,doc_id,score\nq 0,p1,")
    refused = refuse(*command, judged, log, "-o", table, "--unjudged", "stop")
    assert f"{log}:6: document 'p6' of query 'q 0'" in refused.stderr
    piped = refuse(*command, "-", log, "-o", table)
    assert "standard input" in piped.stderr


def both_judges(folder: Path) -> tuple[Path, Path, Path]:
    """Judgements of few queries by people, of all by a machine, and a log."""
    human, machine, log = folder / "human.csv", folder / "machine.csv", folder / "log.csv"
    pairs = [(q, d) for q in range(30) for d in range(6)]
    human.write_text(
        "query,docid,rating\n"
        + "".join(f"q {q},p{d},{(q * d) % 4}\n" for q, d in pairs if q < 12 or d == 5)
    )
    machine.write_text(
        "query,docid,rating\n"
        + "".join(f"q {q},p{d},{min((q * d) % 4 + (q + d) % 2, 3)}\n" for q, d in pairs if d != 5)
    )
    log.write_text(
        "query,docid,bm25,price\n"
        + "".join(f"q {q},p{d},{(q * d) % 4 + d / 10},{(q + 3 * d) % 7}\n" for q, d in pairs)
    )
    return human, machine, log


def test_people_and_a_machine_are_kept_apart_and_train_together(tmp_path: Path) -> None:
    human, machine, log = both_judges(tmp_path)
    table, segments = tmp_path / "table.csv", tmp_path / "segments.csv"
    names = ["head"] * 6 + ["tail"] * 24
    segments.write_text("".join(f"q {q},{name}\n" for q, name in enumerate(names)))
    arguments = ("data", "join", human, log, "--machine", machine, "-o", table)
    result = succeed(*arguments, "--segments", segments)
    assert "60 by both" in result.stderr
    for words in ("kappa", "head", "machine 3", "expected gain"):
        assert words in result.stdout
    lines = [line.replace('"', "").split(",") for line in table.read_text().splitlines()]
    assert lines[0] == ["qid", "doc_id", "label", "machine", "gain", "weight", "bm25", "price"]
    rows = {tuple(line[:2]): line[2:6] for line in lines[1:]}
    assert rows["q 1", "p5"] == ["1", "", "1", "1"]
    assert rows["q 1", "p3"] == ["3", "3", "7", "1"]
    label, by_machine, gain, weight = rows["q 20", "p1"]
    assert (label, by_machine) == ("", "1")
    assert 0 < float(gain) < 3
    assert 1 / 6 < float(weight) < 1  # people judged one of six
    # The suggested command trains on gains, and its record counts the rows without a label.
    command = result.stderr.splitlines()[-1].partition("boostrank ")[2].split()
    command[command.index("TABLE")] = str(table)
    model = tmp_path / "model.txt"
    trained = succeed(*command, "--model", model, "--quality", "plain", "--rounds", 2)
    assert "180 rows, 30 queries, 2 features" in trained.stderr
    record = json.loads(Path(f"{model}.meta.json").read_text())["data"]["reader"]
    assert (record["gain"], record["rows_without_label"]) == ("gain", 90)
    succeed(*arguments, "--weight", 1, "--gain", "linear")
    assert "weight" not in table.read_text().splitlines()[0]


def test_options_and_judgements_that_two_judges_cannot_use_are_refused(tmp_path: Path) -> None:
    human, machine, log = both_judges(tmp_path)
    table = tmp_path / "table.csv"
    join = ("data", "join", human, log, "-o", table)
    refused = invoke(*join, "--machine", machine, "--unjudged", "zero")
    assert (refused.exit_code, "unjudged" in refused.stderr) == (2, True)
    refused = invoke(*join, "--gain", "linear")
    assert (refused.exit_code, "--machine" in refused.stderr) == (2, True)
    other = tmp_path / "other.csv"
    other.write_text("query,docid,rating\nq 29,p0,1\nq 29,p5,1\n")
    refused = invoke(*join, "--machine", other)
    assert (refused.exit_code, "fewer than two queries" in refused.stderr) == (2, True)
    log.write_text(log.read_text().replace("price", "gain"))
    refused = invoke(*join, "--machine", machine)
    assert (refused.exit_code, "'gain'" in refused.stderr) == (2, True)
    assert not table.exists()


def test_chosen_documents_come_back_with_their_chances(tmp_path: Path) -> None:
    human, machine, log = both_judges(tmp_path)
    table, chosen = tmp_path / "table.csv", tmp_path / "next.csv"
    join = ("--machine", machine, "-o", table)
    succeed("data", "join", human, log, *join)
    models = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for model, column in zip(models, (-2, -1), strict=True):
        lines = table.read_text().splitlines()[1:]
        model.write_text("".join(line.split(",")[column].strip() + "\n" for line in lines))
    draw = ("data", "choose", table, *models)
    succeed(*draw, "--queries", 5, "-o", chosen)
    header, *lines = [line.split(",") for line in chosen.read_text().splitlines()]
    assert header == ["qid", "doc_id", "chance", "grade"]
    assert len(lines) == 30  # whole queries, with the grades that people gave before
    assert [grade for *_, name, _, grade in lines if name == "p5"] != [""] * 5
    # People fill in the list and judge again; earlier judgements have the chance 1.
    graded = "".join(f"{q},{d},{chance},2\n" for q, d, chance, _ in lines)
    before = [line.split(",") for line in human.read_text().splitlines()[1:]]
    old = "".join(f"{q},{d},,{grade}\n" for q, d, grade in before if int(q[2:]) < 12)
    human.write_text("qid,doc_id,chance,grade\n" + graded + old)
    succeed("data", "join", human, log, *join)
    header, *rows = [line.replace('"', "").split(",") for line in table.read_text().splitlines()]
    assert header[:5] == ["qid", "doc_id", "label", "machine", "chance"]
    chances = {tuple(row[:2]): row[4] for row in rows}
    assert chances["q 0", "p0"] == "1"
    for q, d, chance, _ in lines:
        assert float(chances[q, d]) == float(chance) < 1
    # So they do if the judgements lost them, also without a machine.
    with_chances = [row[:3] + row[4:5] for row in rows if row[2]]
    human.write_text(
        "qid,doc_id,grade\n" + "".join(f"{q},{d},{g}\n" for q, d, g, _ in with_chances)
    )
    succeed("data", "join", human, log, "--chances", chosen, "-o", table)
    lines_again = [line.replace('"', "").split(",") for line in table.read_text().splitlines()]
    assert lines_again[0][2:4] == ["label", "chance"]
    assert [row[:4] for row in lines_again[1:]] == with_chances
    human.write_text("qid,doc_id,chance,grade\nq 1,p1,0,2\n")
    refused = invoke("data", "join", human, log, *join)
    assert (refused.exit_code, f"{human}:2" in refused.stderr) == (2, True)


def test_a_list_has_the_form_that_is_asked_for(tmp_path: Path) -> None:
    human, machine, log = both_judges(tmp_path)
    table, chosen = tmp_path / "table.csv", tmp_path / "next.json"
    succeed("data", "join", human, log, "--machine", machine, "-o", table)
    scores = tmp_path / "scores.txt", tmp_path / "others.txt"
    for path, sign in zip(scores, (1, -1), strict=True):
        path.write_text("".join(f"{sign * i}\n" for i in range(180)))
    draw = ("data", "choose", table, *scores, "--documents", 7, "-o")
    succeed(*draw, chosen)
    entries = json.loads(chosen.read_text())
    assert len(entries) == 7
    assert all(entry["grade"] is None and 0 < entry["chance"] <= 1 for entry in entries)
    succeed(*draw, tmp_path / "next.quepid.csv")
    lines = (tmp_path / "next.quepid.csv").read_text().splitlines()
    assert lines[0] == "query,docid,rating"
    assert lines[1:] == [f"{entry['qid']},{entry['doc_id']}," for entry in entries]
    misspelt = invoke(*draw, chosen, "--machine", "machin")
    assert (misspelt.exit_code, "'machin'" in misspelt.stderr) == (2, True)
    for paths in (scores[:1], scores[:1] * 2):
        alone = invoke("data", "choose", table, *paths, "--documents", 7, "-o", chosen)
        assert (alone.exit_code, "two or more" in alone.stderr) == (2, True)
