"""`boostrank compare --machine` and `boostrank study queries`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, refuse, succeed

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
