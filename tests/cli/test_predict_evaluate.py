"""`boostrank predict` and `boostrank evaluate`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import boostrank
from boostrank.metrics import Conventions, evaluate
from tests.cli.conftest import COMMAND, FEW, invoke, refuse, succeed

# The generated data have missing values, which the reader mentions.
pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


@pytest.fixture(scope="session")
def other(data: Path) -> Path:
    """A second model, with nothing in its name that says so."""
    path = data / "scores-or-so"
    succeed("train", data / "train.txt", "-m", path, "--objective", "regression", *FEW)
    return path


def test_scores_are_one_a_line_in_input_order_and_read_back_exactly(
    data: Path, model: Path
) -> None:
    result = invoke("predict", model, data / "test.txt")
    expected = boostrank.RankingModel.load(model).predict(boostrank.read(data / "test.txt"))
    assert result.stdout.splitlines() == [repr(float(score)) for score in expected]


def test_scores_of_scattered_queries_keep_the_order_of_the_file(
    data: Path, model: Path, tmp_path: Path
) -> None:
    lines = (data / "test.txt").read_text().splitlines(keepends=True)
    scattered = [*lines[::2], *lines[1::2]]
    (tmp_path / "t.txt").write_text("".join(scattered))
    straight = invoke("predict", model, data / "test.txt").stdout.splitlines()
    result = invoke("predict", model, tmp_path / "t.txt", "--regroup")
    assert result.stdout.splitlines() == [*straight[::2], *straight[1::2]]
    (tmp_path / "s.txt").write_text(result.stdout)
    printed = json.loads(
        invoke(
            "evaluate", model, tmp_path / "s.txt", tmp_path / "t.txt", "--regroup", "--json"
        ).stdout
    )
    first, second = printed.values()
    assert second["ndcg@10"]["difference"] == 0.0
    assert (
        first["ndcg@10"]["mean"]
        == json.loads(invoke("evaluate", model, data / "test.txt", "--json").stdout)["ndcg@10"][
            "mean"
        ]
    )


def test_fewer_rounds_can_be_used(data: Path, model: Path) -> None:
    result = invoke("predict", model, data / "test.txt", "--num-iteration", 1)
    test_set = boostrank.read(data / "test.txt")
    expected = boostrank.RankingModel.load(model).predict(test_set, num_iteration=1)
    assert [float(line) for line in result.stdout.splitlines()] == expected.tolist()


def test_average_writes_one_model_with_the_mean_of_the_scores(
    data: Path, model: Path, other: Path, tmp_path: Path
) -> None:
    averaged = tmp_path / "one.txt"
    result = invoke("study", "average", model, other, "-m", averaged)
    assert result.stdout == f"{averaged}: 2 models, 8 rounds\n"
    scores = [
        [float(line) for line in invoke("predict", m, data / "test.txt").stdout.split()]
        for m in (model, other, averaged)
    ]
    assert scores[2] == pytest.approx(
        [(a + b) / 2 for a, b in zip(*scores[:2], strict=True)], abs=1e-6
    )
    refuse("study", "average", model, other, "-m", other)


def test_a_reader_that_has_enough_ends_it_quietly(data: Path, model: Path, tmp_path: Path) -> None:
    # More than a pipe holds, so that the writer is still writing when the pipe closes.
    row = (data / "test.txt").read_text().splitlines()[0].split(" ", 2)[2]
    (tmp_path / "long.txt").write_text("".join(f"0 qid:{i} {row}\n" for i in range(20_000)))
    process = subprocess.Popen(
        [*COMMAND, "predict", str(model), str(tmp_path / "long.txt")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert b"Broken" not in process.stderr.read()
    assert process.wait() == 0


def test_a_model_that_another_program_wrote_is_taken_with_a_warning_about_feature_numbers(
    data: Path, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "bare.txt").write_bytes(model.read_bytes())
    result = invoke("predict", tmp_path / "bare.txt", data / "test.txt")
    assert result.stdout == invoke("predict", model, data / "test.txt").stdout
    assert "--zero-based" in result.stderr
    predicted = invoke("predict", tmp_path / "bare.txt", data / "test.txt", "--zero-based", "false")
    assert "--zero-based" not in predicted.stderr


def test_json_of_one_ranker_is_metric_to_numbers(data: Path, model: Path) -> None:
    printed = json.loads(
        invoke(
            "evaluate", model, data / "test.txt", "--json", "--metric", "ndcg@5", "--metric", "map"
        ).stdout
    )
    test_set = boostrank.read(data / "test.txt")
    scores = boostrank.RankingModel.load(model).predict(test_set)
    expected = evaluate(["ndcg@5", "map"], test_set.labels, scores, test_set.queries)
    assert printed == {
        name: {
            "mean": r.mean,
            "low": r.low,
            "high": r.high,
            "queries": r.queries,
            "left_out": r.empty,
        }
        for name, r in expected.items()
    }


def test_several_rankers_are_compared_with_the_first(data: Path, model: Path, other: Path) -> None:
    printed = json.loads(
        invoke("evaluate", model, other, data / "test.txt", "--json", "--metric", "ndcg@10").stdout
    )
    first, second = printed[str(model)]["ndcg@10"], printed[str(other)]["ndcg@10"]
    assert set(first) == {"mean", "low", "high", "queries", "left_out"}
    assert set(second) - set(first) == {"difference", "difference_low", "difference_high", "p"}
    assert second["difference"] == pytest.approx(second["mean"] - first["mean"])


def test_the_table_says_what_was_left_out_and_by_which_conventions(
    data: Path, model: Path, other: Path
) -> None:
    result = invoke("evaluate", model, other, data / "test.txt")
    lines = result.stdout.splitlines()
    assert lines[0] == str(model)
    assert lines[1].split() == ["metric", "mean", "95%", "interval", "queries", "left", "out"]
    assert [line.split()[0] for line in lines[2:6]] == ["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10"]
    assert lines[7] == f"{other}, and its query-by-query difference to {model}"
    assert " ".join(result.stdout.rsplit("\n\n", 1)[1].split()) == Conventions().describe()


def test_conventions_and_gain_change_the_measure(data: Path, model: Path) -> None:
    def mean(*options: str) -> float:
        value: float = json.loads(
            invoke("evaluate", model, data / "test.txt", "--json", *options).stdout
        )["ndcg@10"]["mean"]
        return value

    assert len({mean(), mean("--gain", "linear"), mean("--conventions", "lightgbm")}) == 3


def test_ties_by_document_name_take_the_name_from_the_comment(tmp_path: Path) -> None:
    rows = ["1 qid:1 1:1 # docid = b x", "0 qid:1 1:1 # docid = a y"]
    (tmp_path / "t.txt").write_text("\n".join(rows) + "\n")
    (tmp_path / "s.txt").write_text("0.5\n0.5\n")
    evaluate_it = (
        "evaluate",
        tmp_path / "s.txt",
        tmp_path / "t.txt",
        "--json",
        "--metric",
        "ndcg@1",
    )
    printed = json.loads(invoke(*evaluate_it, "--conventions", "trec").stdout)
    assert printed["ndcg@1"]["mean"] == 1.0  # trec_eval puts the larger name first
    (tmp_path / "t.txt").write_text("1 qid:1 1:1\n0 qid:1 1:1\n")
    refused = refuse(*evaluate_it, "--conventions", "trec")
    assert "t.txt:1: query 1" in refused.stderr


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ("0.5\n", "1 scores, but the data has 2 rows"),
        ("0.5\nx\n", ":2: 'x'"),
        ("0.5\n1_000\n", ":2: '1_000'"),
        ("0.5\n1e999\n", ":2: '1e999'"),
        ("0.5\n\n1\n", ":2: "),
        ("", "empty"),
    ],
)
def test_scores_that_do_not_fit_are_refused(scores: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("1 qid:1 1:1\n0 qid:1 1:1\n")
    (tmp_path / "s.txt").write_text(scores)
    result = refuse("evaluate", tmp_path / "s.txt", tmp_path / "t.txt")
    assert message in result.stderr


@pytest.mark.parametrize(
    "text", ["\ufeff0.5\n.25\n", "0.5\r\n2.5e-1\r\n\r\n", "+0.5\n0.25\n\n \n", "0.5\n0.25"]
)
def test_scores_may_have_a_mark_in_front_blank_lines_behind_and_any_line_ends(
    text: str, tmp_path: Path
) -> None:
    (tmp_path / "t.txt").write_text("1 qid:1 1:1\n0 qid:1 1:1\n")
    (tmp_path / "s.txt").write_bytes(text.encode())
    printed = json.loads(
        invoke(
            "evaluate", tmp_path / "s.txt", tmp_path / "t.txt", "--json", "--metric", "mrr"
        ).stdout
    )
    assert printed["mrr"]["mean"] == 1.0


def piped(file: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run with a file's content on standard input, from a pipe."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=file.read_text(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_standard_input_is_read_once_for_models_and_scores_alike(
    data: Path, model: Path, tmp_path: Path
) -> None:
    scores = tmp_path / "scores.txt"
    scores.write_text(invoke("predict", model, data / "test.txt").stdout)
    done = piped(data / "test.txt", "evaluate", scores, model, "-", "--json", "--metric", "ndcg@10")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[str(model)]["ndcg@10"]["difference"] == 0.0


def test_standard_input_for_models_that_count_features_differently_is_refused(
    data: Path, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "few.txt").write_text(
        "".join(f"{i % 3} qid:{i // 9} 0:{i % 5} 1:{i % 3}\n" for i in range(90))
    )
    small = tmp_path / "small"
    succeed("train", tmp_path / "few.txt", "-m", small, "--param", "min_data_in_leaf=1", *FEW)
    done = piped(data / "test.txt", "evaluate", model, small, "-")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{model} and {small} " in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_file_of_standard_output_is_not_replaced(
    data: Path, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("kept\n")
    with (tmp_path / "out").open("a") as out:
        done = subprocess.run(
            [*COMMAND, "predict", str(model), str(data / "test.txt"), "-o", "/dev/stdout"],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "/dev/stdout: cannot be written: it is not an ordinary file" in done.stderr
    assert (tmp_path / "out").read_text() == "kept\n"


@pytest.mark.parametrize("qids", [("1", "2"), ("", "")], ids=["with qids", "without"])
def test_a_file_of_weights_beside_the_data_is_used_and_named(
    qids: tuple[str, str], tmp_path: Path
) -> None:
    rows = ["1 {} 1:1", "0 {} 1:2", "0 {} 1:1", "1 {} 1:2"]
    ids = [f"qid:{q}" if q else "" for q in qids]
    (tmp_path / "t.txt").write_text(
        "".join(row.format(ids[i // 2]) + "\n" for i, row in enumerate(rows))
    )
    if not qids[0]:
        (tmp_path / "t.txt.query").write_text("2\n2\n")
    (tmp_path / "t.txt.weight").write_text("3\n1\n")
    (tmp_path / "s.txt").write_text("2\n1\n2\n1\n")  # right in the first query, wrong in the second
    result = invoke(
        "evaluate", tmp_path / "s.txt", tmp_path / "t.txt", "--json", "--metric", "precision@1"
    )
    assert json.loads(result.stdout)["precision@1"]["mean"] == 0.75
    assert f"weights from {tmp_path / 't.txt.weight'}, read in" in result.stderr
    (tmp_path / "t.txt.weight").write_text("3\n1\n0\n1\n")
    result = invoke(
        "evaluate", tmp_path / "s.txt", tmp_path / "t.txt", "--json", "--metric", "precision@1"
    )
    assert (
        json.loads(result.stdout)["precision@1"]["mean"] == 0.5
    )  # metrics do not know those of documents
    assert (
        f"document weights (not used by metrics) from {tmp_path / 't.txt.weight'}, read in"
        in result.stderr
    )


def test_the_same_file_twice_is_refused(data: Path, model: Path) -> None:
    assert "given twice" in invoke("evaluate", model, model, data / "test.txt").stderr
