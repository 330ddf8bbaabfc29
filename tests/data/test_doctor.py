"""The doctor finds each planted defect, at its line, and nothing else in clean data."""

from __future__ import annotations

import gzip
import itertools
import shlex
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import boostrank
from boostrank.core.errors import FileFormatError, ParameterError
from boostrank.data.dataset import Provenance
from boostrank.data.synthetic import make_ranking_data
from boostrank.diagnosis import Finding, Severity, examine, look_at
from boostrank.diagnosis import profile as facts
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.files.writer import write_libsvm

Lines = list[str]
# Generated data have short lists.
ORDINARY = {"dead-queries", "single-document-queries"}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """Rows of 60 queries; the first query has several documents, of several grades."""
    path = tmp_path_factory.mktemp("clean") / "train.txt"
    write_libsvm(path, make_ranking_data(60, seed=26, mean_length=15).dataset)
    lines = path.read_text().splitlines(keepends=True)
    assert len({line.split()[0] for line in lines[:6]}) > 1
    assert {line.split()[1] for line in lines[:9]} == {"qid:0"}
    return lines


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., dict[str, Finding]]:
    """`ask(lines)`: what is found in them, by the name of the check, but for what is ordinary."""

    def found_in(lines: Lines, *, valid: Lines | None = None, **options: Any) -> dict[str, Finding]:
        (tmp_path / "train.txt").write_text("".join(lines))
        if valid is not None:
            (tmp_path / "valid.txt").write_text("".join(valid))
            options["valid"] = [tmp_path / "valid.txt"]
        findings = boostrank.doctor(tmp_path / "train.txt", threads=1, **options)
        by_check = {f.check: f for f in findings if f.check not in ORDINARY}
        assert len(by_check) == sum(f.check not in ORDINARY for f in findings)
        return by_check

    return found_in


def expect_single(
    findings: dict[str, Finding], check: str, severity: str, line: int, *words: str
) -> Finding:
    """The single finding, which is this one."""
    assert list(findings) == [check]
    assert (findings[check].severity.value, findings[check].line) == (severity, line), findings[
        check
    ]
    for word in words:
        assert (
            word
            in findings[check].message + " / " + findings[check].cost + " / " + findings[check].fix
        ), findings[check]
    return findings[check]


@pytest.mark.parametrize("ending", ["txt", "csv", "csv.gz", "parquet"])
def test_duplicates_have_their_lines(tmp_path: Path, ending: str) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rng, n = np.random.default_rng(0), 600
    frame = pd.DataFrame(
        {"label": rng.integers(0, 3, n), "qid": np.arange(n) // 10, "a": rng.random(n), "b": 1.0}
    )
    frame["sku"] = [f"s{i}" for i in range(n)]
    frame.loc[[503, 507], ["a", "label"]] = [[0.5, 1], [0.5, 2]]
    path = tmp_path / f"data.{ending}"
    if ending == "txt":
        path.write_text(
            "".join(
                f"{r.label} qid:{r.qid} 1:{r.a} 2:{r.b} # {r.sku} x\n" for r in frame.itertuples()
            )
        )
    elif ending == "parquet":
        frame.to_parquet(path, row_group_size=100)
    else:
        frame.to_csv(path, index=False)
    findings = {finding.check: finding for finding in boostrank.doctor(path, threads=1)}
    line = {"txt": "line 508", "parquet": "row 508"}.get(ending, "line 509")
    assert findings["contradicting-duplicates"].message.endswith(line)


def changed(lines: Lines, number: int, change: Callable[[str], str]) -> Lines:
    """The lines with another one at the 1-based number."""
    return [change(line) if i == number else line for i, line in enumerate(lines, start=1)]


def with_label(line: str, label: object) -> str:
    return f"{label} {line.split(' ', 1)[1]}"


def with_feature(lines: Lines, value: Callable[[str, int], object], number: int = 39) -> Lines:
    """Every row with one more feature."""
    return [f"{line.rstrip()} {number}:{value(line, i)}\n" for i, line in enumerate(lines)]


def label_of(line: str) -> float:
    return float(line.split(" ", 1)[0])


def test_clean_data_have_notes_on_what_they_are_made_to_have(
    ask: Any, clean: Lines, tmp_path: Path
) -> None:
    assert ask(clean) == {}
    findings = boostrank.doctor(tmp_path / "train.txt")
    assert {f.check for f in findings} == ORDINARY
    assert {f.severity for f in findings} == {Severity.NOTE}


def test_the_three_files_of_make_data_share_nothing(tmp_path: Path) -> None:
    parts = make_ranking_data(200, seed=2).split()._asdict()
    for name, part in parts.items():
        write_libsvm(tmp_path / name, part.dataset)
    findings = boostrank.doctor(
        tmp_path / "train", valid=[tmp_path / "valid"], test=[tmp_path / "test"]
    )
    assert {f.check for f in findings} <= ORDINARY


# Rows and words
# ------------------------------------------------------------------------------------------------------


def test_rows_that_cannot_be_read_are_told_in_the_readers_words(ask: Any, clean: Lines) -> None:
    lines = changed(clean, 7, lambda line: line.replace(" 2:", " 2:x", 1))
    finding = expect_single(
        ask(lines), "unreadable-row", "error", 7, "is not a number", "--on-bad-line skip"
    )
    assert finding.column == lines[6].index("2:x") + 1


def test_many_such_rows_are_one_finding(ask: Any, clean: Lines) -> None:
    lines = [
        line.replace(" 2:", " 2:0x", 1) if i % 6 == 0 else line for i, line in enumerate(clean)
    ]
    finding = expect_single(ask(lines), "unreadable-row", "error", 1)
    assert finding.count == sum("0x" in line for line in lines)
    assert finding.options == "--on-bad-line skip --max-bad-share 0.167"


def test_each_cause_is_one_finding_and_no_advice_leaves_out_most_rows(
    clean: Lines, tmp_path: Path
) -> None:
    lines = [f"{line.rstrip()} {'99:z' if i % 2 else 'q'}\n" for i, line in enumerate(clean)]
    (tmp_path / "bad").write_text("".join(lines))
    findings = boostrank.doctor(tmp_path / "bad")
    assert [(f.check, f.line) for f in findings] == [("unreadable-row", 1), ("unreadable-row", 2)]
    assert not any(f.options or "skip" in f.fix for f in findings)


def test_rows_that_training_would_skip_are_a_warning(ask: Any, clean: Lines) -> None:
    lines = changed(clean, 7, lambda line: line.replace(" 2:", " 2:x", 1))
    expect_single(
        ask(lines, on_bad_line="skip", max_bad_share=0.1),
        "unreadable-row",
        "warning",
        7,
        "feature 2",
    )


def test_values_beyond_float32_are_rows_that_cannot_be_read(ask: Any, clean: Lines) -> None:
    expect_single(
        ask(changed(clean, 5, lambda line: line.rstrip() + " 90:1e39\n")),
        "unreadable-row",
        "error",
        5,
        "float32",
    )


def test_words_for_missing_values_are_findings_with_their_options(ask: Any, clean: Lines) -> None:
    lines = [
        f"{line.rstrip()} 39:{'NULL' if i > 2 and i % 2 else i % 7}\n"
        for i, line in enumerate(clean)
    ]
    finding = ask(lines)["unreadable-row"]
    assert (finding.line, finding.options) == (4, "--missing-token NULL")
    assert "'NULL'" in finding.message
    assert finding.count == sum("NULL" in line for line in lines)
    assert lines[3][finding.column - 1 :].startswith("39:NULL")
    assert ask(lines, missing_tokens="NULL") == {}


def test_words_for_missing_values_beside_another_fault_keep_their_option(
    tmp_path: Path, clean: Lines
) -> None:
    lines = [f"{line.rstrip()} 39:NULL\n" for line in clean]
    lines[6] = f"{clean[6].rstrip()} 39:x\n"
    path = tmp_path / "train.txt"
    path.write_text("".join(lines))
    first, other = [f for f in boostrank.doctor(path, threads=1) if f.check == "unreadable-row"]
    assert (first.line, other.line) == (1, 7)
    assert (first.options, other.options) == ("--missing-token NULL", "")
    assert first.fix == "mend the rows: --missing-token NULL"


def test_damaged_and_empty_files_are_findings(tmp_path: Path, clean: Lines) -> None:
    packed = gzip.compress("".join(clean).encode())
    (tmp_path / "cut.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "utf16").write_bytes("".join(clean).encode("utf-16"))
    for name, words in (
        ("cut.gz", "truncated"),
        ("empty", "no rows"),
        ("utf16", "UTF-16"),
        ("absent", "No such file"),
    ):
        findings = boostrank.doctor(tmp_path / name, valid=[tmp_path / "empty"])
        assert findings[0].check == "unreadable-file"
        assert words in findings[0].message
        assert findings[0].file == str(tmp_path / name)


def test_a_last_line_without_newline(ask: Any, clean: Lines) -> None:
    expect_single(ask([*clean[:-1], clean[-1].rstrip()]), "no-final-newline", "warning", 0)


def test_lines_are_right_where_comments_blank_lines_and_bad_rows_are_between(
    ask: Any, clean: Lines
) -> None:
    lines = ["# head\n", "\n", *clean[:3], "# 1 qid:0 1:2\n", "bad row\n", *clean[3:]]
    other_label = 0 if label_of(lines[8]) else 1
    lines[9] = with_label(lines[8], other_label)
    findings = ask(lines)
    assert findings["unreadable-row"].line == 7
    assert findings["contradicting-duplicates"].line == 9
    assert "line 10" in findings["contradicting-duplicates"].message


# Queries
# -------------------------------------------------------------------------------------------------------------


def test_a_query_that_comes_back(ask: Any, clean: Lines) -> None:
    lines = [*clean[1:], clean[0]]
    expect_single(
        ask(lines),
        "split-queries",
        "error",
        len(lines),
        "qid 0 reappears",
        "line 1;",
        "boostrank data sort",
        "--regroup",
    )
    assert ask(lines, regroup=True) == {}


def test_the_remedy_names_files_as_a_shell_reads_them(tmp_path: Path, clean: Lines) -> None:
    (tmp_path / "my data.txt").write_text("".join([*clean[1:], clean[0]]))
    fixes = {f.check: f.fix for f in boostrank.doctor(tmp_path / "my data.txt")}
    assert str(tmp_path / "my data.txt") in shlex.split(fixes["split-queries"])
    # A data frame has no file to sort.
    rows = [(i % 2, i % 3, float(i)) for i in range(12)]
    frame = pd.DataFrame(rows, columns=["label", "qid", "x"])
    fixes = {f.check: f.fix for f in boostrank.doctor(frame)}
    assert "data sort" not in fixes["split-queries"]
    assert "--regroup" in fixes["split-queries"]


def test_with_regroup_data_are_judged_as_regrouped(ask: Any, clean: Lines) -> None:
    whole = ask(clean)
    shuffled = [clean[i] for i in np.random.default_rng(1).permutation(len(clean))]
    findings = ask(shuffled, regroup=True)
    assert set(findings) == set(whole)


def test_a_query_that_goes_on_in_the_next_file(tmp_path: Path, clean: Lines) -> None:
    (tmp_path / "a").write_text("".join(clean[:3]))
    (tmp_path / "b").write_text("".join(clean[3:]))
    (finding,) = [
        f for f in boostrank.doctor([tmp_path / "a", tmp_path / "b"]) if f.check not in ORDINARY
    ]
    assert (finding.check, finding.file, finding.line) == ("split-queries", str(tmp_path / "b"), 1)
    assert "previous file" in finding.message


def test_dead_and_single_queries_are_counted_apart(tmp_path: Path) -> None:
    rows = [(0, 1), (1, 1), (0, 2), (0, 2), (1, 3), (2, 4), (2, 4), (1, 5), (0, 5)]
    path = tmp_path / "t"
    path.write_text("".join(f"{label} qid:{q} 1:{i}.5\n" for i, (label, q) in enumerate(rows)))
    findings = {f.check: f for f in boostrank.doctor(path)}
    assert set(findings) == {"dead-queries", "single-document-queries"}
    assert (findings["dead-queries"].line, findings["dead-queries"].count) == (3, 2)
    assert "2 of 5 queries (40.0%)" in findings["dead-queries"].message
    assert findings["dead-queries"].severity is Severity.WARNING
    assert (
        findings["single-document-queries"].line,
        findings["single-document-queries"].count,
    ) == (5, 1)


def test_nothing_to_learn_is_an_error(ask: Any, clean: Lines) -> None:
    expect_single(ask([with_label(line, 1) for line in clean]), "nothing-to-learn", "error", 0)
    lines = [line.replace(line.split()[1], f"qid:{i}") for i, line in enumerate(clean)]
    expect_single(ask(lines), "nothing-to-learn", "error", 0, "every query has one document")


# Labels
# --------------------------------------------------------------------------------------------------------------


def test_labels_that_look_like_something_else(ask: Any, clean: Lines) -> None:
    expect_single(
        ask(changed(clean, 3, lambda line: with_label(line, -1))),
        "refused-labels",
        "error",
        3,
        "--label-map=-1=0",
    )
    assert ask(changed(clean, 3, lambda line: with_label(line, -1)), label_map="-1=0") == {}
    broken = changed(clean, 3, lambda line: with_label(line, 1.5))
    expect_single(ask(broken), "broken-labels", "warning", 3, "--gain linear")
    assert ask(broken, gain="linear") == {}
    expect_single(
        ask(changed(clean, 5, lambda line: with_label(line, 12))),
        "steep-gains",
        "warning",
        5,
        "4,095 times",
        "--gain",
    )
    assert ask(changed(clean, 5, lambda line: with_label(line, 12)), gain="linear") == {}


def test_gains_that_overflow_are_an_error(ask: Any, clean: Lines) -> None:
    lines = changed(clean, 5, lambda line: with_label(line, 40))
    findings = ask(lines)
    expect_single(findings, "refused-labels", "error", 5, "--gain linear")
    assert ask(lines, gain="linear") == {}


def test_labels_that_start_above_zero(ask: Any, clean: Lines) -> None:
    lines = [with_label(line, int(label_of(line)) + 1) for line in clean]
    expect_single(ask(lines), "no-label-zero", "warning", 0, "--label-map=1=0,2=1,3=2,4=3,5=4")


# Features
# ------------------------------------------------------------------------------------------------------------


def test_a_feature_that_is_the_label(ask: Any, clean: Lines) -> None:
    expect_single(
        ask(with_feature(clean, lambda line, i: line.split()[0], 39)),
        "label-copy",
        "warning",
        0,
        "feature 39 ranks",
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_a_feature_that_orders_each_query_as_the_label_does(
    ask: Any, clean: Lines, sign: int
) -> None:
    def copy(line: str, i: int) -> float:
        shift = int(line.split()[1][4:]) * 10  # another scale in each query
        return round(sign * (label_of(line) + 0.9 * (i % 7) / 7) + shift, 3)

    direction = "falling" if sign < 0 else "rising"
    expect_single(
        ask(with_feature(clean, copy, 39)), "label-copy", "warning", 0, direction, "100.0%"
    )


def test_a_good_feature_is_not_a_copy(ask: Any, clean: Lines) -> None:
    rng = np.random.default_rng(0)
    assert (
        ask(with_feature(clean, lambda line, i: round(label_of(line) + rng.normal(0, 0.5), 4), 39))
        == {}
    )


def test_few_queries_do_not_prove_a_copy(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(
        "".join(f"{i % 2} qid:{i // 2} 1:{i % 2 + 0.1 * i + 0.1:.1f}\n" for i in range(8))
    )
    assert boostrank.doctor(tmp_path / "t") == []


def test_missing_features(ask: Any, clean: Lines) -> None:
    expect_single(
        ask(with_feature(clean, lambda line, i: "nan", 39)),
        "missing-features",
        "warning",
        0,
        "missing in every row: feature 39",
    )


def test_of_very_many_features_the_first_are_looked_at(
    ask: Any, clean: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(with_feature(clean, lambda line, i: "nan", 50)).keys() == {"missing-features"}
    monkeypatch.setattr(facts, "MOST_FEATURES", 39)
    assert ask(with_feature(clean, lambda line, i: "nan", 50)) == {}


# Documents
# -----------------------------------------------------------------------------------------------------------


def test_duplicates_with_other_labels_and_with_the_same(ask: Any, clean: Lines) -> None:
    other_label = 0 if label_of(clean[2]) else 1
    twin = with_label(clean[2], other_label)
    finding = expect_single(
        ask([*clean[:5], twin, *clean[5:]]),
        "contradicting-duplicates",
        "warning",
        3,
        "like line 6",
        "1 query",
    )
    assert finding.count == 2
    assert (
        expect_single(
            ask([*clean[:5], clean[2], *clean[5:]]), "duplicates", "note", 3, "like line 6"
        ).count
        == 2
    )


# Between sets
# --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """Rows of other queries."""
    path = tmp_path_factory.mktemp("later") / "valid.txt"
    write_libsvm(path, make_ranking_data(30, seed=5, mean_length=15).dataset)
    return [line.replace("qid:", "qid:7000") for line in path.read_text().splitlines(keepends=True)]


def test_queries_in_both_sets(ask: Any, clean: Lines, later: Lines) -> None:
    assert ask(clean, valid=later) == {}
    first = [line for line in clean if " qid:0 " in line]
    expect_single(
        ask(clean, valid=[*first, *later]),
        "leaked-queries",
        "warning",
        1,
        "1 of 31 queries",
        "qid 0",
    )
    renamed = [line.replace("qid:0 ", "qid:800000 ") for line in reversed(first[1:])]
    finding = expect_single(
        ask(clean, valid=[*later, *renamed]),
        "leaked-documents",
        "warning",
        len(later) + 1,
        "qid 800000",
    )
    assert "train.txt:1" in finding.message
    others = [line.replace("qid:70000 ", "qid:1 ") for line in later]
    expect_single(ask(clean, valid=others), "shared-ids", "warning", 1, "other documents")


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("in_memory", [(True, False), (False, True), (True, True)])
def test_data_sets_and_files_share_queries(
    tmp_path: Path, clean: Lines, in_memory: tuple[bool, bool], base: int
) -> None:
    path = tmp_path / "train.txt"
    path.write_text("".join(clean if base else from_zero(clean)))
    train, valid = [boostrank.read(path) if is_read else path for is_read in in_memory]
    checks = {f.check: f.count for f in boostrank.doctor(train, valid=valid)}
    assert checks.keys() - ORDINARY == {"leaked-queries"}
    assert checks["leaked-queries"] == 60
    if in_memory[0]:  # arrays have no numbers, and are matched by name
        source = replace(boostrank.read(path), provenance=Provenance())
        checks = {f.check: f.count for f in boostrank.doctor(train, valid=source)}
        assert checks["leaked-queries"] == 60


def test_rows_of_a_sorted_data_set_are_those_of_its_input() -> None:
    labels = np.arange(40) % 2 * 1.0
    labels[5] = 40.0
    features = np.random.default_rng(0).normal(size=(40, 3))
    data = boostrank.RankingDataset.from_arrays(features, labels, qid=np.arange(40) % 4, sort=True)
    places = {f.check: f.where for f in boostrank.doctor(data)}
    assert places["refused-labels"].endswith("row 6")


def from_zero(lines: Lines) -> Lines:
    """The rows with features that count from 0."""

    def less(cell: str) -> str:
        number, value = cell.split(":")
        return f"{int(number) - 1}:{value}"

    return [" ".join([*line.split()[:2], *map(less, line.split()[2:])]) + "\n" for line in lines]


def test_sets_that_count_features_differently(ask: Any, clean: Lines, later: Lines) -> None:
    expect_single(
        ask(clean, valid=from_zero(later)),
        "numbering",
        "error",
        1,
        "feature 0 occurs",
        "--zero-based true",
    )
    clean = [f"{line.rstrip()} 60:1.{i}\n" for i, line in enumerate(clean)]
    later = [f"{line.rstrip()} 60:1.{i}\n" for i, line in enumerate(later)]
    findings = ask(from_zero(clean), valid=later)
    assert (findings["numbering"].severity, findings["numbering"].line) == (Severity.ERROR, 1)
    assert "feature 60" in findings["numbering"].message
    shorter = [line.rsplit(maxsplit=1)[0] + "\n" for line in later]
    assert ask(from_zero(clean), valid=shorter)["numbering"].severity is Severity.WARNING
    assert "numbering" not in ask(from_zero(clean), valid=shorter, zero_based="true")
    assert ask(from_zero(clean), valid=from_zero(later)) == {}


def test_files_of_a_set_that_count_features_differently(
    tmp_path: Path, clean: Lines, later: Lines
) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    files[0].write_text("".join(from_zero(clean)))
    files[1].write_text("".join(later))
    findings = {f.check: f for f in boostrank.doctor(files)}
    assert (findings["numbering"].file, findings["numbering"].severity) == (
        str(files[1]),
        Severity.WARNING,
    )
    assert "numbering" not in {f.check for f in boostrank.doctor(files, zero_based="true")}


# How it reads
# --------------------------------------------------------------------------------------------------------


def test_findings_do_not_depend_on_chunks_threads_and_packing(
    tmp_path: Path, clean: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["# head\n", *clean[:40], "\n", "x\n", clean[39], *clean[40:], clean[0]]
    (tmp_path / "a").write_text("".join(lines))
    whole = boostrank.doctor(tmp_path / "a", threads=1)
    assert {f.check for f in whole} == {"unreadable-row", "split-queries"}
    for size, threads in ((50, 1), (700, 2), (5000, 2)):
        monkeypatch.setattr(facts, "CHUNK_BYTES", size)
        assert boostrank.doctor(tmp_path / "a", threads=threads) == whole
    (tmp_path / "a").write_bytes(gzip.compress("".join(lines).encode()))
    assert boostrank.doctor(tmp_path / "a") == whole


def test_counts_are_those_of_comparing_everything_with_everything(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = []
    for q in range(80):
        for _ in range(rng.integers(1, 9)):
            cells = [
                f"{j}:{v}" for j in range(1, 5) if (v := rng.integers(0, 3)) or rng.random() < 0.2
            ]
            last = "nan" if q % 2 else 4
            lines.append(f"{rng.integers(0, 3)} qid:{q} {' '.join(cells)} 7:{q % 3} 8:{last}\n")
    (tmp_path / "t").write_text("".join(lines))
    data = read_libsvm(tmp_path / "t", layout="dense")
    same, contradicting, queries_of = set(), set(), data.queries.ptr
    rows = [row.tobytes() for row in data.features]
    for a, b in itertools.pairwise(queries_of.tolist()):
        for row in set(rows[a:b]):
            alike = [i for i in range(a, b) if rows[i] == row]
            if len(alike) > 1:
                (same if len({data.labels[i] for i in alike}) == 1 else contradicting).update(alike)
    findings = {f.check: f for f in boostrank.doctor(tmp_path / "t")}
    assert findings["duplicates"].count == len(same)
    assert findings["duplicates"].line == min(same) + 1
    assert findings["contradicting-duplicates"].count == len(contradicting)
    assert findings["contradicting-duplicates"].line == min(contradicting) + 1


def test_queries_of_a_file_beside(data_root: Path) -> None:
    by_size = boostrank.doctor(data_root / "lambdarank-example" / "rank.train")
    by_id = boostrank.doctor(data_root / "lambdarank-example" / "train.txt")
    assert [(f.check, f.line, f.count) for f in by_size] == [
        (f.check, f.line, f.count) for f in by_id
    ]


def test_sizes_that_do_not_fit_are_told(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("".join(f"{i % 3} 1:{i + 1}\n" for i in range(12)))
    for sizes in ("2\n2\n", "2\n", "x\n12\n", "0\n12\n"):
        (tmp_path / "t.query").write_text(sizes)
        assert "unreadable-file" in {f.check for f in boostrank.doctor(tmp_path / "t")}
    (tmp_path / "t.query").write_text("12\n")
    assert boostrank.doctor(tmp_path / "t") == []
    (tmp_path / "t.weight").write_text("1\n2\n")
    (finding,) = boostrank.doctor(tmp_path / "t")
    assert finding.file == str(tmp_path / "t.weight")
    # Training does not read a test set.
    (tmp_path / "train").write_text("".join(f"{i % 3} qid:{i // 4} 1:{i}\n" for i in range(12)))
    (finding,) = boostrank.doctor(tmp_path / "train", test=tmp_path / "t")
    assert finding.file == str(tmp_path / "t.weight")


def test_the_real_file_with_null(data_root: Path) -> None:
    findings = boostrank.doctor(data_root / "ohsumed-null" / "testset.txt")
    assert (findings[0].check, findings[0].line, findings[0].count) == ("unreadable-row", 2, 1386)
    assert findings[0].options == "--missing-token NULL"


def test_what_the_reader_refuses_is_an_error_and_nothing_else_is(
    tmp_path: Path, clean: Lines
) -> None:
    rng, path, refusals = np.random.default_rng(11), tmp_path / "t", 0
    bits = [
        " ",
        ":",
        "#",
        "\n",
        "\r",
        "\0",
        "nan",
        "NULL",
        "inf",
        "1e400",
        "-",
        "qid:",
        "0:1 ",
        "1:1 ",
        "?",
        ".",
        "e5",
    ]
    # Rows out of order, and up to two odd words somewhere in the text.
    for _ in range(150):
        lines = clean[: rng.integers(2, 40)]
        lines.insert(int(rng.integers(len(lines))), lines.pop(int(rng.integers(len(lines)))))
        if rng.random() >= 0.2:
            lines.sort(key=lambda line: int(line.split()[1][4:]))
        text = "".join(lines)
        for _ in range(rng.integers(0, 3)):
            at = int(rng.integers(len(text)))
            text = text[:at] + str(rng.choice(bits)) + text[at + int(rng.integers(0, 9)) :]
        path.write_text(text, newline="")
        # The line where the reader stops, and the errors of the doctor.
        where = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read_libsvm(path, threads=1)
            except FileFormatError as error:
                where, refusals = error.line, refusals + 1
        reading = ("unreadable-file", "unreadable-row", "split-queries")
        errors = [
            f.line
            for f in examine([look_at(path)])
            if f.check in reading and f.severity is Severity.ERROR
        ]
        assert (where is not None) == bool(errors), text
        assert where is None or where in errors, text
    assert 40 < refusals < 130


def test_options_that_contradict_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError):
        boostrank.doctor(tmp_path, gain="steep")
    with pytest.raises(ParameterError):
        boostrank.doctor(tmp_path, inf="maybe")
