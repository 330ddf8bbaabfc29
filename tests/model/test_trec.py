"""Run files and qrels: written, read, measured as trec_eval does, and recognised where they do not
belong.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import (
    DataError,
    FileFormatError,
    InputError,
)
from boostrank.files.assemble import Named
from boostrank.files.judgements import values_by_query
from boostrank.metrics import Conventions
from boostrank.model.trec import evaluate_run, run_text
from boostrank.reporting.comparison import compare_runs
from tests.cli.conftest import FEW, invoke, messages, refuse, succeed
from tests.model.trec_golden import NAMES, Values, by_trec_eval, draw


def check(run: Values, qrels: Values, values: dict[str, dict[str, float]]) -> None:
    """Ours are theirs, query by query and to the last printed digit."""
    results = evaluate_run(list(NAMES), run, qrels)
    assert results.keys() == values.keys()
    for name, theirs in values.items():
        ours = dict(zip(qrels, results[name].per_query.tolist(), strict=True))
        assert {qid: value for qid, value in ours.items() if value == value} == pytest.approx(
            theirs, abs=1e-12
        )
        assert f"{results[name].mean:.4f}" == f"{sum(theirs.values()) / len(theirs):.4f}"
        assert results[name].queries == len(theirs)


def test_trec_eval_gives_these_values() -> None:
    golden = json.loads((Path(__file__).parent / "trec_golden.json").read_text())
    assert golden["run"].keys() - golden["qrels"].keys()
    assert golden["qrels"].keys() - golden["run"].keys()
    check(golden["run"], golden["qrels"], golden["values"])


@pytest.mark.parametrize("seed", range(20))
def test_trec_eval_gives_our_values_of_any_run(seed: int) -> None:
    pytest.importorskip("pytrec_eval")
    run, qrels = draw(60, seed)
    check(run, qrels, by_trec_eval(run, qrels))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, data with names, its qrels and its run."""
    folder = tmp_path_factory.mktemp("trec")
    rng = np.random.default_rng(0)
    rows = [(q, d, int(rng.integers(0, 3)), rng.random()) for q in range(30) for d in range(8)]
    (folder / "data.txt").write_text(
        "".join(f"{g} qid:{q} 1:{x + g:.6f} # docid = D{d}-{q}\n" for q, d, g, x in rows)
    )
    cells = "".join(f"{q},D{d}-{q},{g},{x + g}\n" for q, d, g, x in rows)
    (folder / "table.csv").write_text("qid,sku,label,f1\n" + cells)
    (folder / "qrels").write_text("".join(f"{q} 0 D{d}-{q} {g}\n" for q, d, g, _ in rows))
    succeed("train", folder / "data.txt", "-m", folder / "m.txt", *FEW)
    succeed("predict", folder / "m.txt", folder / "data.txt", "--run", "mine", "-o", folder / "run")
    return folder


def test_a_run_ranks_as_trec_eval_does_and_gives_the_model_s_metrics(files: Path) -> None:
    lines = [line.split() for line in (files / "run").read_text().splitlines()]
    assert {(line[1], line[5]) for line in lines} == {("Q0", "mine")}
    for query in {line[0] for line in lines}:
        of_query = [
            (int(rank), float(score), name)
            for qid, _, name, rank, score, _ in lines
            if qid == query
        ]
        assert [rank for rank, _, _ in of_query] == list(range(1, 9))
        assert of_query == sorted(
            of_query, key=lambda row: (np.float32(row[1]), row[2].encode()), reverse=True
        )
    options = ("--metric", "ndcg@5", "--metric", "map", "--json")
    ours = invoke(
        "evaluate", files / "m.txt", files / "data.txt", "--conventions", "trec", *options
    )
    theirs = invoke("evaluate", files / "run", "--qrels", files / "qrels", *options)
    assert json.loads(ours.stdout) == json.loads(theirs.stdout)


def test_names_come_from_a_column_and_the_run_goes_to_standard_output(files: Path) -> None:
    done = invoke("predict", files / "m.txt", files / "table.csv", "--id", "sku", "--run", "mine")
    names = {tuple(line.split()[:3]) for line in (files / "run").read_text().splitlines()}
    assert {tuple(line.split()[:3]) for line in done.stdout.splitlines()} == names


def test_runs_are_compared_and_queries_that_are_left_out_are_said(files: Path) -> None:
    lines = (files / "run").read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith(("1 ", "2 ")))
    (files / "worse").write_text(kept + "99 Q0 x 1 2 t\n")
    done = succeed(
        "evaluate", files / "run", files / "worse", "--qrels", files / "qrels", "--metric", "P_5"
    )
    (message,) = messages(done)
    assert message.startswith(f"{files / 'worse'}: ")
    for words in ("2 judged", "-c: 1)", "1 without", "(99)"):
        assert words in message
    assert "difference" in done.stdout
    # So they are where a gate compares the runs.
    compared = succeed(
        *("compare", files / "run", files / "worse", files / "qrels", "--metric", "P_5", "--json")
    )
    assert json.loads(compared.stdout)["notes"] == [message]


def test_two_runs_compare_as_each_is_evaluated() -> None:
    """Also where a run lacks documents that the other lists or that are judged."""
    (old, qrels), (new, _) = draw(40), draw(40, 1)
    metrics = [*NAMES, "err", longest]
    compared = compare_runs(old, new, qrels, metrics)
    assert len(compared.qids) == len(qrels.keys() & old.keys() & new.keys())
    at = [list(qrels).index(qid) for qid in compared.qids]
    rules = Conventions.of("trec").with_best_grade(np.array([4.0]))
    for side, run in enumerate((old, new)):
        expected = evaluate_run(metrics, run, qrels, rules)
        for name, values in compared.per_query.items():
            np.testing.assert_allclose(values[:, side], expected[name].per_query[at], atol=1e-12)
    assert [note.partition(":")[0] for note in compared.notes] == ["old", "new"]
    with pytest.raises(DataError, match=r" x, the qrels"):
        compare_runs(old, {"x": {"d": 1.0}}, qrels)
    with pytest.raises(DataError, match="in all runs"):
        compare_runs({"q": {"d": 1.0}}, {"r": {"d": 1.0}}, {"q": {"d": 1.0}, "r": {"d": 1.0}})
    with pytest.raises(DataError, match="inf"):
        compare_runs(old, {qid: {**new[qid], "d": -np.inf} for qid in new}, qrels)


@pytest.mark.parametrize(("option", "value"), [("--gain", "2 * label"), ("--missing-token", "NA")])
def test_options_that_runs_cannot_follow_are_refused(files: Path, option: str, value: str) -> None:
    run, qrels = files / "run", files / "qrels"
    (files / "copy").write_bytes(run.read_bytes())
    for command in (("evaluate", run, "--qrels", qrels), ("compare", run, files / "copy", qrels)):
        assert option in refuse(*command, option, value).stderr


def test_documents_that_a_run_does_not_list_have_no_rank() -> None:
    others = {f"x{i}": 0.0 for i in range(12)}
    compared = compare_runs(
        {"q": {"a": 3.0, "b": 2.0}},
        {"q": {"c": 3.0, "b": 2.0}},
        {"q": {"a": 1.0, "b": 0.0, **others}},
    )
    moves = [(move.document, move.old, move.new) for move in compared.regressions[0].moves]
    assert moves == [("a", 1, None), ("c", None, 1)]
    assert (compared.churn.queries, compared.churn.changed) == (1, 0.1)


def longest(labels: np.ndarray, scores: np.ndarray) -> float:
    """The number of documents that a metric of one's own is given."""
    return float(labels.size)


@pytest.mark.parametrize(
    ("body", "run", "line"),
    [
        ("1 Q0 a 1 2\n", True, 1),
        ("1 Q0 a 1 2 t\n1 Q0 b 1 x t\n", True, 2),
        ("1 Q0 a 1 nan t\n", True, 1),
        ("1 Q0 a 1 2 t\n\n1 Q0 a 2 1 t\n", True, 3),
        ("1 0 a\n", False, 1),
        ("1 0 a 1\n1 0 a 1\n", False, 2),
        ("", False, 0),
    ],
)
def test_a_line_of_another_form_is_refused_with_its_place(
    body: str, run: bool, line: int, tmp_path: Path
) -> None:
    (tmp_path / "f").write_text(body)
    with pytest.raises(FileFormatError) as caught:
        values_by_query(str(tmp_path / "f"), run=run)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "f"), line)


def test_a_run_of_other_queries_is_refused() -> None:
    with pytest.raises(DataError, match=r"q1.*q2"):
        evaluate_run(["map"], {"q1": {"a": 1.0}}, {"q2": {"a": 1}})


def test_rows_without_names_make_no_run(files: Path) -> None:
    done = refuse("predict", files / "m.txt", files / "table.csv", "--drop", "sku", "--run", "mine")
    assert "--id" in done.stderr
    for name in ("", "a b"):
        with pytest.raises(InputError, match="names"):
            list(run_text([Named(np.ones(1), np.array([1]), np.array([name], object))], "t"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "m.txt", "run"),
        ("evaluate", "run", "data.txt"),
        ("compare", "m.txt", "run", "data.txt"),
        ("train", "run", "-m", "new.txt"),
        ("evaluate", "m.txt", "qrels"),
    ],
)
def test_files_of_trec_are_recognised_in_other_places(
    arguments: tuple[str, ...], files: Path
) -> None:
    in_folder = {
        argument for argument in arguments if (files / argument).exists() or argument == "new.txt"
    }
    paths = [files / argument if argument in in_folder else argument for argument in arguments]
    done = refuse(*paths)
    assert "TREC" in done.stderr
    assert "--qrels" in done.stderr


@pytest.mark.parametrize("fold", [1, 2, 3, 4, 5])
def test_trec_eval_gives_our_values_on_ohsumed(fold: int, data_root: Path) -> None:
    pytest.importorskip("pytrec_eval")
    data = boostrank.read(data_root / f"ohsumed/Fold{fold}/test.txt", keep_names=True)
    run: Values = {}
    qrels: Values = {}
    rows = zip(
        data.queries.row_ids(),
        data.document_names,
        data.labels,
        data.features[:, 0].round(1),
        strict=True,
    )
    for i, (qid, name, label, score) in enumerate(
        rows
    ):  # ties, and documents that are judged or ranked alone
        if i % 5:
            qrels.setdefault(str(qid), {})[name] = int(label)
        if i % 7:
            run.setdefault(str(qid), {})[name] = float(score)
    check(run, qrels, by_trec_eval(run, qrels))
