"""What people in the field reported: number, kind, and what the user of each case gets.

A case is a function, entered in the table by `@case(number, kind, gets)`; numbers are those of the reports. It runs
in an empty folder. A kind has as many cases as it has inputs that differ.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

import boostrank
from boostrank.core.errors import DataError
from boostrank.data.dataset import RankingDataset
from boostrank.report.result import csv_bytes
from boostrank.report.segments import holm
from tests.cli.conftest import invoke

Case = Callable[[], None]
CASES: list[tuple[int, str, str, Case]] = []
TRAIN = ("--quality", "plain", "--rounds", 2, "--objective", "lambdarank", "--threads", 1)


def case(number: int, kind: str, gets: str) -> Callable[[Case], Case]:
    """Enter a case in the table."""

    def entered(function: Case) -> Case:
        CASES.append((number, kind, gets, function))
        return function

    return entered


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the table, whose rows stand below."""
    cases = sorted(CASES, key=lambda row: row[0])
    metafunc.parametrize("run", [pytest.param(run, id=f"{number}-{run.__name__}") for number, _, _, run in cases])


def test_reported(run: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run()


def accepted(*command: object) -> Result:
    """Run a command, which must end well."""
    result = invoke(*command)
    assert result.exit_code == 0, result.stderr
    return result


def refused(*command: object, says: tuple[str, ...]) -> None:
    """Run a command, which must refuse its input and say these places, tokens and options."""
    result = invoke(*command)
    assert result.exit_code == 2, result.stderr
    assert [word for word in says if word not in result.stderr] == [], result.stderr


def train(*arguments: object, model: str = "m.txt") -> tuple[object, ...]:
    """The command that trains two rounds."""
    return ("train", *arguments, *TRAIN, "--model", model)


def arrays(queries: int = 6, size: int = 20, features: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels that the first of them decides, and query ids."""
    X = np.random.default_rng(0).random((queries * size, features)).round(3)
    return X, (3 * X[:, 0]).astype(int), np.repeat(np.arange(1, queries + 1), size)


def write_rows(path: str, first: int = 1) -> None:
    """Write the same as libsvm text, whose features count from `first`."""
    rows = (
        f"{label} qid:{query} " + " ".join(f"{j}:{value}" for j, value in enumerate(row, first))
        for row, label, query in zip(*arrays(), strict=True)
    )
    Path(path).write_text("\n".join(rows) + "\n")


# Files that are something else ------------------------------------------------------------------------------------


@case(15, "a file that is something else", "its name, and the command that gets the data")
def pointer_of_lfs() -> None:
    Path("pointer.txt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    refused(*train("pointer.txt"), says=("pointer.txt", "git lfs pull"))


@case(13, "a file that is something else", "its name, and the column to take")
def scores_of_ranklib() -> None:
    write_rows("test.txt")
    Path("scores.txt").write_text("".join(f"{row // 20}\t{row % 20}\t0.5\n" for row in range(120)))
    refused("evaluate", "scores.txt", "test.txt", says=("scores.txt:1", "RankLib", "third column"))


@case(14, "a file that is something else", "its name, and how to save the model")
def dump_of_xgboost() -> None:
    write_rows("test.txt")
    Path("dump.json").write_text('[{"nodeid": 0, "leaf": 0.1}]')
    refused("evaluate", "dump.json", "test.txt", says=("dump.json", "save_model"))


# Values and names, as tools write them ----------------------------------------------------------------------------


# Habits of the engines' rankers, and objects people hold; 0 where newcomers met it --------------------------------


@case(10, "a value as tools write it", "the file, with any name of a feature")
def names_beyond_ascii() -> None:
    pytest.importorskip("treelite", reason="the extra treelite is not installed")
    X, y, qid = arrays(features=2)
    data = RankingDataset.from_arrays(X, y, qid=qid, feature_names=["prix_été", "цена"])
    model = boostrank.train({"objective": "lambdarank", "verbosity": 0}, data, 2, backend="xgboost")
    boostrank.export_model(model, "names.tl", "treelite")
    assert Path("names.tl").stat().st_size


@case(20, "names people type", "the training, with LGBMRanker's spelling of an objective")
def objective_that_takes_groups() -> None:
    X, y, qid = arrays()
    seen = []

    def objective(y_true: np.ndarray, y_pred: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen.append(list(group))
        return y_pred - y_true, np.ones_like(y_pred)

    boostrank.BoostRanker(objective=objective, n_estimators=2, verbosity=-1).fit(X, y, qid=qid)
    assert seen[0] == [20] * 6


@case(21, "names people type", "the engine's alias of a metric")
def alias_of_a_metric() -> None:
    X, y, qid = arrays()
    data = RankingDataset.from_arrays(X, y, qid=qid)
    params = {"objective": "lambdarank", "metric": "lambdarank", "eval_at": 3, "verbosity": -1}
    assert "ndcg@3" in boostrank.train(params, data, 2, valid_sets=[data]).evals_result["training"]


@case(22, "names people type", "an argument, wherever it is given")
def argument_inside_params() -> None:
    X, y, qid = arrays()
    params = {"objective": "lambdarank", "quality": "quick", "verbosity": -1}
    boostrank.train(params, RankingDataset.from_arrays(X, y, qid=qid), 2)


@case(23, "names people type", "the module, without an import")
def tracking_is_an_attribute() -> None:
    shown = "import boostrank; print(boostrank.tracking.JsonLines.__name__, 'Any' in dir(boostrank.tracking))"
    assert subprocess.check_output([sys.executable, "-c", shown], text=True).split() == ["JsonLines", "False"]
    assert {"train", "BoostRanker", "tracking", "report"} <= set(dir(boostrank))
    assert not {"Any", "annotations", "import_module"} & set(dir(boostrank))


@case(31, "names people type", "the objectives that optimise the metric")
def metric_as_an_objective() -> None:
    write_rows("t.txt")
    refused("train", "t.txt", "--objective", "ndcg", "--model", "m.txt", says=("ndcg", "lambdarank", "auto"))


@case(0, "names people type", "the command that is near, also that of a group")
def unknown_command() -> None:
    refused("trian", says=("'trian'", "'train'"))
    refused("split", says=("'split'", "'data split'"))
    assert "mean" not in invoke("xyzzy").stderr


@case(0, "names people type", "an option that is near, and no other")
def unknown_option() -> None:
    refused("train", "t.txt", "--round", "3", says=("--rounds",))
    assert "mean" not in invoke("report", "m.txt", "t.txt", "--against", "x").stderr


@case(0, "safe in a spreadsheet", "CSV that runs no formula")
def names_that_are_formulas() -> None:
    names = ["=1+1", "+A1", "-A1", "@sum", "\tx", "\rx", "-0.5", "+1e-3", "a=b"]
    frame = pd.DataFrame({"feature": names, "=value": range(-4, 5)})
    rows = list(csv.DictReader(io.StringIO(csv_bytes(frame).decode(), newline="")))
    assert [row["feature"] for row in rows] == [*(f"'{name}" for name in names[:5]), "' x", *names[6:]]
    assert [int(row["'=value"]) for row in rows] == list(range(-4, 5))


@case(19, "what people hold", "the explanation of its booster, and the same numbers without shap")
def explained_by_shap() -> None:
    shap = pytest.importorskip("shap", reason="shap is not installed")
    X, y, qid = arrays()
    ranker = boostrank.BoostRanker("lambdarank", n_estimators=2, verbosity=-1).fit(X, y, qid=qid)
    values = shap.TreeExplainer(ranker.booster_).shap_values(X)
    np.testing.assert_allclose(ranker.predict(X, pred_contrib=True)[:, :-1], values, atol=1e-9)


@case(0, "names people type", "the training, with the arguments of LGBMRanker's and XGBRanker's fit")
def arguments_of_other_fits() -> None:
    X, y, qid = arrays()
    sizes = [20] * 6

    def trained(**given: Any) -> Any:
        return boostrank.BoostRanker("lambdarank", n_estimators=3, eval_at=3, verbosity=-1).fit(X, y, qid=qid, **given)

    pair = (X[:40, ::-1], y[:40])
    watched = {"eval_set": [pair], "eval_group": [sizes[:2]]}
    expected = trained(**watched).evals_result_
    assert list(expected) == ["valid_0"]
    assert trained(eval_X=pair[0], eval_y=pair[1], eval_group=[sizes[:2]]).evals_result_ == expected
    assert trained(eval_X=pair[:1], eval_y=pair[1:], eval_qid=[qid[:40]], verbose=False).evals_result_ == expected
    weighted = trained(**watched, sample_weight_eval_set=[[1, 3]]).evals_result_
    assert weighted == trained(**watched, eval_sample_weight=[[1, 3]]).evals_result_ != expected
    assert trained(**watched, eval_metric="map", early_stopping_rounds=1).best_iteration_ < 3
    for name, says in {
        "init_score": "start=",
        "base_margin": "init_model=",
        "eval_st": "'eval_set'",
    }.items():
        with pytest.raises(boostrank.ParameterError, match=f"{name}.*{says}"):
            trained(**{name: y})
    with pytest.raises(boostrank.ParameterError, match=r"verbose.*lightgbm\.log_evaluation"):
        trained(verbose=True)
    with pytest.raises(boostrank.ParameterError, match=r"eval_set.*twice.*eval_X"):
        trained(**watched, eval_X=X, eval_y=y)


@case(0, "names people type", "a metric of one's own, spelled as LGBMRanker wants it")
def metrics_of_ones_own() -> None:
    X, y, qid = arrays()
    seen: dict[str, Any] = {}

    def two(labels: Any, scores: Any) -> tuple[str, float, bool]:
        seen["two"] = labels
        return "two", float(np.mean(scores)), True

    def four(y_true: Any, y_pred: Any, weight: Any, group: Any) -> list[tuple[str, float, bool]]:
        seen["four"] = weight, group
        return [("four", float(y_pred.size), True)]

    ranker = boostrank.BoostRanker("lambdarank", n_estimators=2, eval_at=3, verbosity=-1)
    ranker.fit(X, y, qid=qid, eval_set=[(X[:40], y[:40])], eval_qid=[qid[:40]], eval_metric=["ndcg", two, four])
    found = ranker.evals_result_["valid_0"]
    assert list(found) == ["ndcg@3", "two", "four"]
    assert found["two"][-1] == pytest.approx(ranker.predict(X[:40]).mean())
    assert found["four"] == [40, 40]
    np.testing.assert_array_equal(seen["two"], y[:40])
    assert seen["four"][0] is None
    assert list(seen["four"][1]) == [20, 20]


@case(0, "names people type", "the predictions, with the arguments of LGBMRanker's and XGBRanker's predict")
def arguments_of_other_predicts() -> None:
    X, y, qid = arrays()
    ranker = boostrank.BoostRanker("lambdarank", n_estimators=4, verbosity=-1).fit(X, y, qid=qid)
    own = ranker.booster_.predict
    for theirs in ({}, {"num_iteration": 2}, {"pred_leaf": True}, {"pred_contrib": True}):
        np.testing.assert_allclose(ranker.predict(X, raw_score=True, **theirs), own(X, **theirs), atol=1e-9)
    of_range = ranker.predict(X, output_margin=True, iteration_range=(1, 3))
    np.testing.assert_allclose(of_range, own(X, start_iteration=1, num_iteration=2), atol=1e-9)
    np.testing.assert_array_equal(ranker.predict(X, iteration_range=(0, 0)), ranker.predict(X))
    with pytest.raises(boostrank.ParameterError, match=r"num_iteratin.*'num_iteration'"):
        ranker.predict(X, num_iteratin=3)


@case(0, "names people type", "the fitted attributes of LGBMRanker")
def fitted_attributes() -> None:
    X, y, qid = arrays()
    ranker = boostrank.BoostRanker("lambdarank", n_estimators=2, verbosity=-1)
    assert not hasattr(ranker, "n_features_")
    ranker.fit(pd.DataFrame(X, columns=["a", "b", "c"]), y, qid=qid)
    assert (ranker.n_features_, ranker.n_features_in_, ranker.objective_, ranker.best_iteration_) == (
        3,
        3,
        "lambdarank",
        2,
    )
    assert ranker.feature_name_ == list(ranker.feature_names_in_) == ["a", "b", "c"]
    assert (ranker.best_score_, ranker.evals_result_) == ({}, {})
    assert len(ranker.feature_importances_) == 3


# The doctor, and rankers with other features ----------------------------------------------------------------------


def write_table(path: str, names: tuple[str, ...] = ("a", "b", "c"), scores: object = None) -> None:
    """Write some of the features as CSV, with the labels or with scores."""
    X, y, qid = arrays()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])[list(names)].assign(qid=qid)
    frame.assign(**({"label": y} if scores is None else {"logged": scores})).to_csv(path, index=False)


def found_by_doctor(*command: object) -> list[dict[str, Any]]:
    """Errors that the doctor finds."""
    told = invoke("doctor", *command, "--json")
    assert told.exit_code == 2
    return [finding for finding in json.loads(told.stdout) if finding["severity"] == "error"]


@case(6, "doctor and train agree", "one error: the judged file has no features")
def judged_without_features() -> None:
    Path("t.txt").write_text("".join(f"{i % 3} qid:{i // 4} # {i} title\n" for i in range(12)))
    assert [finding["check"] for finding in found_by_doctor("t.txt")] == ["no-features"]
    refused(*train("t.txt"), says=("no features",))


@case(5, "doctor and train agree", "one error where no feature can be split")
def features_that_nothing_splits() -> None:
    Path("t.txt").write_text("".join(f"{i % 3} qid:{i // 4} 1:{int(i == 5)}\n" for i in range(500)))
    assert [finding["check"] for finding in found_by_doctor("t.txt")] == ["refused-data"]
    refused("train", "t.txt", "--model", "m.txt", says=("split",))


@case(0, "doctor and train agree", "all columns of text in one run, each with its option")
def columns_of_text() -> None:
    X, y, qid = arrays()
    text = {"brand": ["red", "blue", "green"] * 40, "sku": [f"p{i}" for i in range(120)]}
    pd.DataFrame({"label": y, "qid": qid, "x": X[:, 0]} | text).to_csv("t.csv", index=False)
    (found,) = found_by_doctor("t.csv")
    assert found["options"] == "--drop sku --categorical brand"
    refused(*train("t.csv"), says=("t.csv:2", "'sku'", "'brand'", found["options"]))
    accepted("doctor", "t.csv", *found["options"].split())


@case(26, "doctor and train agree", "one finding, and no advice that leaves out most rows")
def rows_that_name_a_feature_twice() -> None:
    Path("t.txt").write_text("".join(f"{i % 3} qid:{i // 4} 1:{i} 1:2\n" for i in range(24)))
    (found,) = found_by_doctor("t.txt")
    assert (found["count"], found["line"], found["options"]) == (24, 1, "")
    assert "skip" not in found["fix"]


@case(0, "any ranker anywhere", "a comparison: each model takes its own columns")
def model_with_one_more_feature() -> None:
    for name, features in (("old", ("c", "a")), ("new", ("a", "b", "c"))):
        write_table(f"{name}.csv", features)
        accepted(*train(f"{name}.csv", model=f"{name}.txt"))
    old, new = (boostrank.RankingModel.load(f"{name}.txt") for name in ("old", "new"))
    data = RankingDataset.read("new.csv")
    expected = boostrank.compare(old.predict(RankingDataset.read("old.csv")), new, data).metrics["ndcg@10"].mean
    assert boostrank.compare(old, new, data).metrics["ndcg@10"].mean == expected
    found = json.loads(accepted("compare", "old.txt", "new.txt", "new.csv", "--json").stdout)
    assert found["metrics"]["ndcg@10"]["mean"] == expected
    measured = json.loads(accepted("evaluate", "old.txt", "new.txt", "new.csv", "--json").stdout)
    assert measured["new.txt"]["ndcg@10"]["difference"]["mean"] == expected
    accepted("report", "new.txt", "new.csv", "--baseline", "old.txt", "--only", "verdict", "-o", "r.html")


@case(0, "any ranker anywhere", "a verification by the features alone, and by a column of the table")
def logged_scores_in_the_table() -> None:
    write_table("t.csv")
    accepted(*train("t.csv"))
    scores = boostrank.RankingModel.load("m.txt").predict(RankingDataset.read("t.csv"))
    write_table("log.csv", scores=scores)
    assert (
        json.loads(accepted("verify", "m.txt", "log.csv", "--against", "logged", "--json").stdout)["level"] == "equal"
    )
    Path("s.txt").write_text("".join(f"{score!r}\n" for score in scores.tolist()))
    accepted("verify", "m.txt", "log.csv", "--drop", "logged", "--against", "s.txt")
    refused("verify", "m.txt", "log.csv", "--against", "loged", says=("'loged'", "log.csv", "'logged'"))


@case(0, "numbers that are true", "p-values adjusted where several rankers are compared with one")
def several_rankers() -> None:
    write_table("t.csv")
    rng, files = np.random.default_rng(3), [f"s{i}.txt" for i in range(4)]
    for file in files:
        Path(file).write_text("".join(f"{score!r}\n" for score in rng.normal(size=120).tolist()))

    def p_of(*rankers: str) -> list[float]:
        found = json.loads(accepted("evaluate", *rankers, "t.csv", "--metric", "ndcg@5", "--json").stdout)
        return [found[one]["ndcg@5"]["difference"]["p"] for one in rankers[1:]]

    alone = [p_of(files[0], file)[0] for file in files[1:]]
    np.testing.assert_allclose(p_of(*files), holm(alone))
    assert (holm(alone) > alone).any()


@case(0, "groups out of step with the rows", "a refusal where more than a thousand rows have no queries")
def search_without_queries() -> None:
    X, y, _ = arrays(60)
    with pytest.raises(DataError, match="qid"):
        boostrank.BoostRanker("lambdarank", n_estimators=2).fit(X, y)


@case(0, "names people type", "the same quality with --log and checkpoints as without")
def log_of_a_nightly_job() -> None:
    Path("t.txt").write_text("".join(f"{i % 3} qid:{i // 8} 1:{i * 7 % 11} 2:{i % 5}\n" for i in range(96)))
    found = accepted(
        "train", "t.txt", "--rounds", 1, "--log", "l.jsonl", "--checkpoint-every", 1, "--model", "m", "--json"
    )
    assert json.loads(found.stdout)["quality"] == "good"
    model = boostrank.RankingModel.load("m")
    assert f"{model.num_trees()} trees" in repr(model)
