"""The doctor refuses what train refuses, and nothing else: over files that are damaged in many
ways.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, refuse, succeed

Rows = list[list[str]]
JUNK = (
    "x",
    "",
    "NULL",
    "1e999",
    "-",
    "qid:",
    "1:",
    "::",
    "1:2:3",
    "\u00e9",
    "0x10",
    "-5:1",
    "0:1",
    "1e39",
    '"',
    "#",
)


def rows(queries: int = 12, size: int = 8) -> Rows:
    """Cells of libsvm text."""
    draw = random.Random(0)
    return [
        [str(draw.randint(0, 3)), f"qid:{q}", *(f"{j}:{draw.random():.3f}" for j in range(1, 5))]
        for q in range(1, queries + 1)
        for _ in range(size)
    ]


def table() -> Rows:
    """Cells of a CSV file."""
    head = ["label", "qid", "a", "b", "c", "d"]
    return [head, *([re.sub(r"^(qid|\d):", "", cell) for cell in row] for row in rows())]


def with_cell(cells: Rows, seed: int) -> Rows:
    """One cell is something else."""
    draw = random.Random(seed)
    row = draw.choice(cells)
    row[draw.randrange(len(row))] = draw.choice(JUNK)
    return cells


def with_column(column: int, value: Callable[[int], str], first: int = 1) -> Rows:
    """A table with other values in a column."""
    cells = table()
    for i, row in enumerate(cells[first:]):
        row[column] = value(i)
    return cells


def shuffled(cells: Rows, first: int = 0) -> Rows:
    """Rows in another order."""
    return cells[:first] + random.Random(1).sample(cells[first:], len(cells) - first)


def with_label(label: str) -> Rows:
    """Libsvm rows, of which the eighth has this label."""
    changed = [list(row) for row in rows()]
    changed[7][0] = label
    return changed


NULLS = ["9:1", "9:NULL", "9:NULL", "9:NULL", "9:NULL"]
TEXTS: dict[str, Rows] = {
    "clean": rows(),
    "empty": [],
    "comments": [["# a"]],
    "shuffled": shuffled(rows()),
    "no-features": [row[:2] for row in rows()],
    "constant": [[*row[:2], "1:3", "2:4"] for row in rows()],
    "zeros": [[*row[:2], "1:0"] for row in rows()],
    "one-value": [[*row[:2], *["1:1"] * (i == 5)] for i, row in enumerate(rows())],
    "rare-value": [[*row[:2], *["1:1"] * (i < 3)] for i, row in enumerate(rows(100))],
    "missing": [[*row[:2], "1:nan"] for row in rows()],
    "half-missing": [[*row[:2], "1:nan" if i % 2 else "1:3"] for i, row in enumerate(rows())],
    "one-label": [["1", *row[1:]] for row in rows()],
    "one-live-query": [[str(int(i == 3)), *row[1:]] for i, row in enumerate(rows())],
    "one-document": [[str(i % 3), f"qid:{i}", f"1:{i}"] for i in range(50)],
    "negative": with_label("-1"),
    "label-40": with_label("40"),
    "label-31": with_label("31"),
    "fraction": with_label("1.5"),
    "no-qid": [[row[0], *row[2:]] for row in rows()],
    "from-zero": [
        [*row[:2], *(f"{j}:{cell[2:]}" for j, cell in enumerate(row[2:]))] for row in rows()
    ],
    "three-rows": rows()[:3],
    "one-row": rows()[:1],
    "two-queries": rows()[:16],
    "few-rows": [[str(i % 3), f"qid:{i // 4}", f"1:{i % 5}"] for i in range(8)],
    "text": [[*row, "9:red"] for row in rows()],
    "null": [[*row, NULLS[i % 5]] for i, row in enumerate(rows())],
    "large-number": [[*row, *["99999999999:1"] * (i == 3)] for i, row in enumerate(rows())],
    **{f"cell-{seed}": with_cell(rows(), seed) for seed in range(16)},
}
TABLES: dict[str, Rows] = {
    "clean": table(),
    "header": table()[:1],
    "no-features": [row[:2] for row in table()],
    "shuffled": shuffled(table(), 1),
    "text": with_column(2, lambda i: "xyz"[i % 3]),
    "ids": with_column(2, lambda i: f"p{i}"),
    "late-text": with_column(2, lambda i: "x", 60),
    "half-text": with_column(2, lambda i: "1x"[i % 2]),
    "text-labels": with_column(0, lambda i: "good"),
    "text-queries": with_column(1, lambda i: f"q{i // 8}"),
    "missing-query": with_column(1, lambda i: {5: ""}.get(i, f"q{i // 8}")),
    "missing-label": with_column(0, lambda i: {5: ""}.get(i, str(i % 2))),
    "absent": with_column(2, lambda i: (str(i), "n/a", "n/a", "n/a")[i % 4]),
    "commas": with_column(2, lambda i: f'"{i},5"'),
    "blank": with_column(2, lambda i: ""),
    "constant": [table()[0], *([*row[:2], "1", "2", "3", "4"] for row in table()[1:])],
    "no-label": [["grades", *table()[0][1:]], *table()[1:]],
    "twice": [["label", "qid", "a", "a", "c", "d"], *table()[1:]],
    "short": [*table()[:-1], table()[-1][:-1]],
    "large": with_column(2, lambda i: str(10**9 + i)),
    **{f"cell-{seed}": with_cell(table(), seed) for seed in range(12)},
}
FILES = {f"{name}.txt": " ".join for name in TEXTS} | {f"{name}.csv": ",".join for name in TABLES}
REPORTS = (
    "bool.csv",
    "float-ids.csv",
    "index.csv",
    "init.txt",
    "judged-24-rows.txt",
    "judged-no-features.txt",
    "labels-50.txt",
    "labels-minus2.txt",
    "largest-double.txt",
    "named.txt",
    "pointer.txt",
    "repeated-feature.txt",
    "scores-ranklib.txt",
    "xgb-dump.json",
)
SKIP = ("--on-bad-line", "skip", "--max-bad-share", 1)


def check(path: Path | str, *options: object) -> None:
    """Both refuse the file, or neither does."""
    checked = invoke("doctor", path, *options)
    done = invoke(
        "train",
        path,
        *options,
        "--rounds",
        1,
        "--threads",
        1,
        "--model",
        Path(path).name + ".model",
    )
    assert {checked.exit_code, done.exit_code} in ({0}, {2}), (checked.stdout, done.stderr)


@pytest.mark.parametrize("name", FILES)
def test_the_exit_status_of_the_doctor_is_that_of_train(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stem, _, ending = name.partition(".")
    files = TEXTS if ending == "txt" else TABLES
    lines = map(FILES[name], files[stem])
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    check(name)
    if stem == "shuffled":
        check(name, "--regroup")
    if "text" in stem:
        check(name, *SKIP)


@pytest.mark.parametrize("name", REPORTS)
def test_files_that_were_reported(
    name: str, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = data_root / "reports" / name
    if not path.exists():
        pytest.skip("the reports' inputs are not here")
    check(path)


def test_all_text_columns_are_one_finding_with_the_options_to_paste(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = with_column(2, lambda i: f"p{i}")
    for i, row in enumerate(cells[1:]):
        row[3], row[4] = "xyz"[i % 3], "NULL" if i % 9 == 0 else row[4]
    Path("t.csv").write_text("".join(f"{','.join(row)}\n" for row in cells))
    checked = refuse("doctor", "t.csv")
    errors = [line for line in checked.stdout.splitlines() if ": error: " in line]
    assert [line.rpartition(" ")[2] for line in errors] == ["[unreadable-row]", "[text-columns]"]
    options = "--missing-token NULL --drop a --categorical b"
    assert checked.stdout.splitlines()[-1].endswith(f": {options}")
    succeed("doctor", "t.csv", *options.split())
    check("t.csv", *options.split())
    for word in ("'a'", "'b'", "--drop a --categorical b"):
        assert word in invoke("train", "t.csv", "--model", "m").stderr
