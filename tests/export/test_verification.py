"""Scores that another program logged: the level to which they agree, and the first document that
differs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import DataError, ParameterError
from boostrank.export.proof import verify
from boostrank.files.writer import write_libsvm
from tests.cli.conftest import invoke, refuse

D = 12


def table(rows: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(-8, 9, (rows, D)).astype(np.float32) / 10


def ranking(rows: np.ndarray) -> boostrank.RankingDataset:
    labels = np.digitize(rows[:, 0] + 4.0 * rows[:, 1] - rows[:, 2] * rows[:, 3], [-1.0, 1.0])
    return boostrank.RankingDataset.from_arrays(rows, labels, group=[25] * (len(rows) // 25))


@pytest.fixture(scope="module")
def data() -> boostrank.RankingDataset:
    return ranking(table(500, 2))


@pytest.fixture(scope="module")
def model() -> boostrank.RankingModel:
    params = {
        "objective": "auto",
        "num_leaves": 15,
        "min_data_in_leaf": 5,
        "verbosity": -1,
        "num_threads": 1,
    }
    return boostrank.train(params, ranking(table(1500)), 14)


def test_the_models_own_scores_are_equal(model: Any, data: Any) -> None:
    expected = model.predict(data)
    verification = verify(model, data, expected)
    assert (verification.level, verification.different, verification.moved, verification.first) == (
        "equal",
        0,
        0,
        None,
    )
    assert verification.equal("equal")


def test_rounded_scores_are_not_equal(model: Any, data: Any) -> None:
    logged = np.round(model.predict(data), 3)
    verification = verify(model, data, logged)
    assert not verification.equal()
    assert 0.0004 < verification.largest <= 0.0005


def test_rounding_to_float32_is_told(model: Any, data: Any) -> None:
    expected = model.predict(data)
    verification = verify(model, data, expected + 1e-7)
    assert verification.level == "float32"
    assert verification.equal()
    assert not verification.equal("equal")


def test_another_function_of_the_scores_has_the_same_ranking(model: Any, data: Any) -> None:
    expected = model.predict(data)
    verification = verify(model, data, 2.0 * expected - 3.0)
    assert (verification.level, verification.moved) == ("ranking", 0)
    assert verification.equal("ranking")
    assert not verification.equal()
    assert verification.first[0] == 0
    assert verification.first[2:] == (expected[0], 2.0 * expected[0] - 3.0)


def test_the_first_document_that_differs_is_named(model: Any, data: Any) -> None:
    logged = model.predict(data)
    logged[[77, 130]] += 5.0
    verification = verify(model, data, logged)
    assert (verification.level, verification.different, verification.first[0]) == (
        "different",
        2,
        77,
    )
    assert verification.first[1] == str(data.queries.qid[3])
    assert verification.moved > 0
    assert verification.largest == pytest.approx(5.0)


def test_scores_that_do_not_fit_are_refused(model: Any, data: Any) -> None:
    with pytest.raises(DataError, match="3 scores for 500 documents"):
        verify(model, data, [1.0, 2.0, 3.0])
    with pytest.raises(DataError, match=r"score 3 .*finite"):
        verify(model, data, [0.0, 0.0, np.nan] + [0.0] * 497)
    with pytest.raises(ParameterError, match=r"equal, float32, ranking.*'exact'"):
        verify(model, data, np.zeros(500)).equal("exact")


@pytest.mark.parametrize("form", ["lines", "json", "csv"])
def test_the_command_reads_what_was_logged(model: Any, tmp_path: Path, form: str) -> None:
    rows = table(100, 4)
    write_libsvm(tmp_path / "d.txt", ranking(rows))
    text = "# a comment\n\n" + (tmp_path / "d.txt").read_text().replace("\n", " # D7\n")
    (tmp_path / "d.txt").write_text(text)
    model.save(tmp_path / "m.txt")
    expected = boostrank.RankingModel.load(tmp_path / "m.txt").predict(ranking(rows))

    def run(scores: np.ndarray, *more: str) -> Any:
        lines = {
            "lines": [f"{s:.9g}" for s in scores],
            "json": [
                json.dumps({"id": i, "score": float(f"{s:.9g}")}) for i, s in enumerate(scores)
            ],
            "csv": [
                "query,_score,rank",
                *(f"{i // 25},{np.float32(s)!s},7" for i, s in enumerate(scores)),
            ],
        }[form]
        (tmp_path / "s.txt").write_text("\n".join(lines) + "\n")
        options = ("--zero-based", "false", *more)
        return invoke(
            "verify",
            tmp_path / "m.txt",
            "--against",
            tmp_path / "s.txt",
            tmp_path / "d.txt",
            *options,
        )

    # Equal scores, in the digits of float32.
    same = run(expected)
    assert (same.exit_code, "equal up to rounding to float32" in same.stdout) == (0, True), (
        same.stdout + same.stderr
    )
    # Others from row 31 on, of which the first is shown; then a shift, which keeps the ranking.
    other = expected + 0.5
    other[:30] = expected[:30]
    result = run(other)
    assert result.exit_code == 1
    assert f"D7 ({tmp_path / 'd.txt'}:33), query 1: " in result.stdout
    printed = json.loads(run(other, "--json").stdout)
    assert (printed["different"], printed["equal"]) == (70, False)
    assert run(expected + 0.25).exit_code == 1
    assert run(expected + 0.25, "--tolerance", "ranking").exit_code == 0


def test_other_files_than_scores_are_refused(model: Any, tmp_path: Path) -> None:
    write_libsvm(tmp_path / "d.txt", ranking(table(25, 4)))
    model.save(tmp_path / "m.txt")
    for lines, words in (
        ("1\n2\n", "2 scores, but the data has 25 rows"),
        ("1\nx\n", "s.txt:2: 'x'"),
        ('{"id": 3}\n', "s.txt:1: "),
    ):
        (tmp_path / "s.txt").write_text(lines)
        result = refuse(
            "verify", tmp_path / "m.txt", "--against", tmp_path / "s.txt", tmp_path / "d.txt"
        )
        assert words in result.stderr


def test_models_without_trees_are_compared_too(data: Any) -> None:
    linear = boostrank.train({"objective": "approx-ndcg"}, ranking(table(500)), 3, backend="linear")
    expected = linear.predict(data)
    assert verify(linear, data, expected).level == "equal"
    assert verify(linear, data, expected + 1.0).level == "ranking"
