"""What people in the field reported: number, kind, and what the user of each case gets.

A case is a function, entered in the table by `@case(number, kind, gets)`; numbers are those of the
reports. It runs in an empty folder. A kind has as many cases as it has inputs that differ.
"""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import boostrank
from boostrank.core.errors import DataError, DataWarning, InputError
from boostrank.data.dataset import RankingDataset
from boostrank.reporting.segments import holm
from tests.cli.conftest import invoke, refuse, succeed

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
    metafunc.parametrize(
        "run", [pytest.param(run, id=f"{number}-{run.__name__}") for number, _, _, run in cases]
    )


def test_reported(run: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run()


def train(*arguments: object, model: str = "m.txt") -> tuple[object, ...]:
    """The command that trains two rounds."""
    return ("train", *arguments, *TRAIN, "--model", model)


def arrays(
    queries: int = 6, size: int = 20, features: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


# Files that are something else
# ------------------------------------------------------------------------------------


@case(15, "a file that is something else", "its name, and the command that gets the data")
def pointer_of_lfs() -> None:
    Path("pointer.txt").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    )
    refuse(*train("pointer.txt"), says=("pointer.txt", "git lfs pull"))


@case(13, "a file that is something else", "its name, and the column to take")
def scores_of_ranklib() -> None:
    write_rows("test.txt")
    Path("scores.txt").write_text("".join(f"{row // 20}\t{row % 20}\t0.5\n" for row in range(120)))
    refuse("evaluate", "scores.txt", "test.txt", says=("scores.txt:1", "RankLib", "third column"))


@case(14, "a file that is something else", "its name, and how to save the model")
def dump_of_xgboost() -> None:
    write_rows("test.txt")
    Path("dump.json").write_text('[{"nodeid": 0, "leaf": 0.1}]')
    refuse("evaluate", "dump.json", "test.txt", says=("dump.json", "save_model"))


@case(8, "a file that is something else", "its name, as data and as a model")
def files_of_other_programs() -> None:
    write_rows("t.txt")
    for text, word in (
        (b'{"qid": 1, "label": 0}\n', "JSON"),
        (b"SQLite format 3\0", "SQLite"),
        (b"%PDF-1.4\n", "PDF"),
        (b"ORC\x0a", "ORC"),
        (b"PK\x03\x04\x14\0", "Excel"),
        (b"x\x9c\x01", "pickle"),
    ):
        Path("other").write_bytes(text)
        refuse(*train("other"), says=("other", word))
        refuse("predict", "other", "t.txt", says=("other", word))


@case(
    8,
    "a file that is something else",
    "scores of pandas and CatBoost: which line or column is too much",
)
def scores_below_a_header() -> None:
    write_rows("t.txt")
    for text, word in (
        ("RawFormulaVal\n" + "0.5\n" * 120, "tail"),
        (",0\n0,0.5\n1,0.5\n", "index=False"),
    ):
        Path("scores.csv").write_text(text)
        refuse("evaluate", "scores.csv", "t.txt", says=("scores.csv", word))


@case(2, "a file that is something else", "the program whose model it is")
def models_of_other_programs() -> None:
    write_rows("t.txt")
    for text, word in (
        ('{\n"features_info": {}}', "CatBoost"),
        ('{"class": "org.apache.solr.ltr.model.LinearModel"}', "Solr"),
        ('{"model": {"name": "m"}}', "JSON"),
    ):
        Path("m.json").write_text(text)
        refuse("evaluate", "m.json", "t.txt", says=("m.json", word))


# Values and names, as tools write them
# ----------------------------------------------------------------------------


def write_frame(path: str, **values: Sequence[object]) -> None:
    """Write the arrays as a table of three features, with more or other columns."""
    X, y, qid = arrays()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(**{"label": y, "qid": qid} | values)
    frame.to_csv(path, index=False)


def feature_names_of(model: str = "m.txt") -> tuple[str, ...]:
    return boostrank.RankingModel.load(model).feature_names


@case(1, "a name that promises a format", "the names of XGBoost's feature map, split by any blanks")
def feature_map_with_blanks() -> None:
    write_rows("t.txt")
    for blank in (" ", "\t", "  "):
        types = ("q", "int", "i")
        Path("map.txt").write_text(
            "".join(f"{i + 1}{blank}x_{i}{blank}{types[i]}\n" for i in range(3))
        )
        succeed(*train("t.txt", "--feature-names", "map.txt"))
        assert feature_names_of() == ("x_0", "x_1", "x_2")


@case(1, "a name that promises a format", "the names, where some end like types of a feature map")
def names_that_end_like_types() -> None:
    write_rows("t.txt")
    Path("names.txt").write_text("1 vitamin c\n2 page rank\n3 word q\n")
    succeed(*train("t.txt", "--feature-names", "names.txt"))
    assert feature_names_of() == ("vitamin c", "page rank", "word q")


@case(4, "groups out of step with the rows", "a refusal that names qid=, unless sizes count from 0")
def sizes_with_keys() -> None:
    X, y, _ = arrays()
    frame = pd.DataFrame({"query": np.repeat(["lamp", "desk", "rug"], [20, 40, 60])})
    for sizes in (
        frame.groupby("query").size(),
        frame["query"].value_counts(),
        frame.groupby("query")["query"].count(),
    ):
        with pytest.raises(DataError, match="qid"):
            RankingDataset.from_arrays(X, y, group=sizes)
        with pytest.raises(DataError, match="qid"):
            boostrank.BoostRanker(n_estimators=2).fit(X, y, group=sizes)
    counted = frame["query"].value_counts()
    for sizes in (
        counted.reset_index(),
        dict(counted),
        counted.to_dict().values(),
        (counted.index, counted),
    ):
        with pytest.raises(DataError, match="qid"):
            RankingDataset.from_arrays(X, y, group=sizes)
    plain = frame.groupby("query", sort=False).size().reset_index(drop=True)
    assert RankingDataset.from_arrays(X, y, group=plain).queries.sizes.tolist() == [20, 40, 60]


@case(
    4,
    "groups out of step with the rows",
    "a refusal that names the argument whose rows stand otherwise",
)
def rows_shuffled_with_their_index() -> None:
    X, y, qid = arrays()
    frame = pd.DataFrame(X).assign(label=y, qid=qid)
    shuffled = frame.sample(frac=1, random_state=0)
    columns = {"X": frame[[0, 1, 2]], "y": frame["label"], "qid": frame["qid"]}
    for name, column in {"X": [0, 1, 2], "y": "label", "qid": "qid"}.items():
        with pytest.raises(DataError, match="loc"):
            RankingDataset.from_arrays(**columns | {name: shuffled[column]})
    with pytest.raises(DataError, match=r"scores=.*loc"):
        boostrank.Metric.parse("ndcg").evaluate(frame["label"], shuffled[0], frame["qid"])
    with pytest.raises(DataError, match=r"groups=.*loc"):
        next(boostrank.QueryKFold(2).split(frame, frame["label"], shuffled["qid"]))
    RankingDataset.from_arrays(
        shuffled[[0, 1, 2]], shuffled["label"], qid=shuffled["qid"], sort=True
    )


@case(16, "groups out of step with the rows", "a refusal of ids as group=, which names qid=")
def ids_as_group() -> None:
    X, y, qid = arrays()
    for ids in (qid - 1, qid, qid.astype(str)):
        with pytest.raises(DataError, match=r"group .*qid"):
            boostrank.BoostRanker(n_estimators=2).fit(X, y, group=ids)


@case(7, "names people type", "the linear gain, by XGBoost's name for it")
def linear_gain_of_xgboost() -> None:
    write_frame("t.csv", label=np.arange(120) % 51)
    command = (
        "--backend",
        "xgboost",
        "--objective",
        "xgboost:rank:ndcg",
        "--quality",
        "plain",
        "--rounds",
        2,
    )
    succeed("train", "t.csv", *command, "--param", "ndcg_exp_gain=false", "--model", "m.json")
    refuse(
        "train",
        "t.csv",
        *command,
        "--param",
        "ndcg_exp_gain=true",
        "--model",
        "m.json",
        says=("t.csv:34",),
    )
    data = RankingDataset.from_arrays(np.eye(4), [0, 40, 2, 3], group=[4])
    model = boostrank.train({"ndcg_exp_gain": False, "verbosity": 0}, data, 2, backend="xgboost")
    assert model.info.conventions["gain"] == "linear"


@case(8, "a value as tools write it", "booleans as 0 and 1, in any column of numbers")
def words_for_booleans() -> None:
    x = np.arange(120) % 3 == 0
    write_frame("t.csv", stock=x, sale=np.where(x, "true", "false"), gap=[None, *x[1:]], label=x)
    data = boostrank.read("t.csv", layout="dense")
    assert np.array_equal(data.features[:, 3], x)
    assert np.array_equal(data.features[:, 4], x)
    assert np.array_equal(data.features[1:, 5], x[1:])
    assert np.isnan(data.features[0, 5])
    assert np.array_equal(data.labels, x)


@case(
    9,
    "a name that promises a format",
    "a refusal that names the file which is not read, and how to go on",
)
def side_files_of_engines() -> None:
    write_rows("t.txt")
    write_frame("t.csv")
    for data in ("t.txt", "t.csv"):
        for suffix in (".init", ".position", ".base_margin"):
            beside = Path(f"{data}{suffix}")
            beside.write_text("0\n" * 120)
            refuse(*train(data), says=(str(beside), "mv "))
            refuse("doctor", data, says=(str(beside), "mv "))
            with pytest.raises(InputError, match="mv "):
                boostrank.read(data)
            beside.unlink()
        succeed(*train(data))


@case(11, "a value as tools write it", "a refusal that names the option which reads it as missing")
def largest_double() -> None:
    Path("t.txt").write_text(
        "1 qid:1 1:1.79769313486231570000e+308 2:1\n0 qid:1 1:-1.797e308 2:2\n"
    )
    write_frame("t.csv", d=[-1.7976931348623157e308, *range(119)])
    for data in ("t.txt", "t.csv"):
        refuse(*train(data), says=(data, "308", "--inf missing"))
    assert np.isnan(boostrank.read("t.txt", inf="missing").features[:, 0]).all()
    assert np.isposinf(-boostrank.read("t.csv", inf="keep").features[0, 3])


@case(12, "a value as tools write it", "scores of a file that counts from 0, by a model of arrays")
def libsvm_from_zero() -> None:
    X, y, qid = arrays()
    model = boostrank.train({"verbosity": -1}, RankingDataset.from_arrays(X, y, qid=qid), 2)
    model.save("arrays.txt")
    write_rows("zero.txt", first=0)
    succeed("predict", "arrays.txt", "zero.txt", "-o", "scores.txt")
    assert np.allclose(np.loadtxt("scores.txt"), model.predict(X))


@case(17, "a value as tools write it", "query ids that were written as floats")
def ids_as_floats() -> None:
    qid = arrays()[2]
    write_frame("t.csv", qid=qid.astype(float))
    write_frame("u.csv", qid=[f"{query}.5" for query in qid])
    assert boostrank.read("t.csv").queries.qid.tolist() == list(range(1, 7))
    refuse(*train("u.csv"), says=("u.csv:2", "'1.5'"))


@case(18, "a value as tools write it", "a folder of parts, read in the order of names")
def folder_of_parts() -> None:
    for kind in ("parts.parquet", "plain"):
        Path(kind).mkdir()
        X, y, qid = arrays()
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=y, qid=qid)
        frame[60:].to_parquet(f"{kind}/part-00001.snappy.parquet")
        frame[:60].to_parquet(f"{kind}/part-00000.snappy.parquet")
        Path(kind, "_SUCCESS").touch()
        Path(kind, ".part-00000.crc").touch()
        succeed(*train(kind))
        succeed("predict", "m.txt", kind, "-o", "scores.txt")
        assert len(Path("scores.txt").read_text().split()) == 120
        assert boostrank.read(kind).labels.tolist() == y.tolist()
    succeed("doctor", kind)


@case(
    26,
    "a value as tools write it",
    "the first or the last value of a feature given twice, or a refusal",
)
def feature_given_twice() -> None:
    Path("t.txt").write_text("1 qid:1 1:5 2:6 1:7\n0 qid:1 1:1 1:2 2:3\n2 qid:1 3:1 2:4 2:8 1:0\n")
    refuse(*train("t.txt"), says=("t.txt:1:", "--repeated"))
    for which, values in {
        "first": [[5, 6, 0], [1, 3, 0], [0, 4, 1]],
        "last": [[7, 6, 0], [2, 3, 0], [0, 8, 1]],
    }.items():
        with pytest.warns(DataWarning, match=f"3 values .*{which}"):
            assert (
                boostrank.read("t.txt", repeated=which, layout="dense").features.tolist() == values
            )


@case(27, "a value as tools write it", "rows with names are refused, and belong to a table")
def names_in_rows() -> None:
    Path("named.txt").write_text("# rows\n1 qid:1 bm25:0.3 ctr:1 # d1\n0 qid:1 bm25:0.5\n")
    refuse(*train("named.txt"), says=("named.txt:2", "bm25", "table"))


@case(
    28,
    "a value as tools write it",
    "training without the index that pandas wrote, and a line about it",
)
def index_without_a_name() -> None:
    X, y, qid = arrays()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=y, qid=qid)
    frame.to_csv("index.csv")
    assert "left out" in succeed(*train("index.csv")).stderr
    assert feature_names_of() == ("a", "b", "c")
    succeed("predict", "m.txt", "index.csv", "-o", "scores.txt")


@case(
    29,
    "a value as tools write it",
    "the label map for the labels at hand, in the words of the place",
)
def labels_below_zero() -> None:
    y = np.arange(120) % 5 - 2
    write_frame("t.csv", label=y)
    refuse(*train("t.csv"), says=("t.csv:2", "label -2", "--label-map=-2=0,-1=1,0=2,1=3,2=4"))
    succeed(*train("t.csv", "--label-map=-2=0,-1=1,0=2,1=3,2=4"))
    write_frame("t.csv", label=np.maximum(y, -1))
    refuse(*train("t.csv"), says=("label -1", "--label-map=-1=0 "))
    with pytest.raises(DataError, match="label_map='-2=0,-1=1,0=2,1=3,2=4'"):
        boostrank.BoostRanker(n_estimators=2).fit(arrays()[0], y, qid=arrays()[2])


@case(
    0,
    "names people type",
    "the label and the query, by the names people give them, without ids of documents",
)
def names_of_columns() -> None:
    X, y, qid = arrays()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for label, query in (("rating", "query"), ("grade", "query_id"), ("label", "qid")):
        frame.assign(**{label: y, query: qid, "docno": [f"d{i}" for i in range(120)]}).to_csv(
            "t.csv", index=False
        )
        assert "docno" in succeed(*train("t.csv")).stderr
        assert feature_names_of() == ("a", "b", "c")
    frame.assign(label=y, qid=qid, rating=X[:, 0]).to_csv("t.csv", index=False)
    succeed(*train("t.csv"))
    assert feature_names_of() == ("a", "b", "c", "rating")


@case(
    1,
    "a name that promises a format",
    "the names in a JSON list, a feature store, or a table of numbers and names",
)
def names_in_other_files() -> None:
    write_rows("t.txt")
    store = {"features": [{"name": name, "class": "solr"} for name in ("bm25", "ctr", "age")]}
    for text in (json.dumps(["bm25", "ctr", "age"]), json.dumps(store), "1,bm25\n2,ctr\n3,age\n"):
        Path("names.txt").write_text(text)
        succeed(*train("t.txt", "--feature-names", "names.txt"))
        assert feature_names_of() == ("bm25", "ctr", "age")


@case(
    1,
    "a name that promises a format",
    "a refusal of tables of names, whose header would shift them",
)
def names_below_a_header() -> None:
    write_rows("t.txt")
    for text in (
        ",0\n0,a\n1,b\n2,c\n",
        "0\na\nb\nc\n",
        '"x"\n"a"\n"b"\n"c"\n',
        "feature_name\na\nb\nc\n",
        "0\tLabel\n1\tGroupId\n2\tNum\ta\n",
    ):
        Path("names.txt").write_text(text)
        refuse(*train("t.txt", "--feature-names", "names.txt"), says=("names.txt:1",))


@case(
    7,
    "a value as tools write it",
    "a refusal of ids that are missing or that a spreadsheet rounded",
)
def ids_that_are_none() -> None:
    qid = arrays()[2]
    for word in ("nan", "<NA>", "None"):
        qid_cells = [word if query == 3 else f"{query}.0" for query in qid]
        write_frame("t.csv", qid=qid_cells)
        refuse(*train("t.csv"), says=("t.csv:42", "'qid'"))
    write_frame("t.csv", qid=np.where(qid < 4, "1.23457E+15", "2.34568E+15"))
    refuse(*train("t.csv"), says=("t.csv:2", "'1.23457E+15'"))
    write_frame("t.csv", qid=np.where(qid < 4, "nan", "naan"))
    assert boostrank.read("t.csv").queries.qid.tolist() == ["nan", "naan"]


@case(
    7,
    "a value as tools write it",
    "a word for a missing value, with the option as a shell takes it",
)
def words_for_missing_values() -> None:
    X = arrays()[0]
    for word in ("\\N", "<NA>", "NaT", "#DIV/0!", "."):
        write_frame("t.csv", a=[word, *X[1:, 0]])
        printed = invoke(*train("t.csv")).stderr
        assert shlex.split(printed[printed.index("--missing-token") :])[:2] == [
            "--missing-token",
            word,
        ]
        printed = invoke("doctor", "t.csv").stdout
        assert shlex.split(printed[printed.index("--missing-token") :].partition("\n")[0])[:2] == [
            "--missing-token",
            word,
        ]


@case(
    7,
    "a value as tools write it",
    "numbers with a unit: the place, and no advice to leave the column out",
)
def numbers_with_units() -> None:
    for form in ("{}%", "${}", "1,{:03.0f}.5"):
        write_frame("t.csv", a=[form.format(i) for i in range(120)])
        for command in (train("t.csv"), ("doctor", "t.csv")):
            result = refuse(*command)
            assert "t.csv:2" in result.output
            assert repr(form.format(0)) in result.output
            assert "--drop" not in result.output


@case(7, "a value as tools write it", "columns by names in any case, without an index of any name")
def names_in_any_case() -> None:
    X, y, qid = arrays()
    frame = pd.DataFrame(X, columns=["a", "b", "level_1"]).assign(**{"Label": y, "Query ID": qid})
    frame.reset_index().to_csv("t.csv")
    succeed(*train("t.csv"))
    assert feature_names_of() == ("a", "b", "level_1")
    pd.read_csv("t.csv").to_csv("u.csv")
    succeed(*train("u.csv"))
    assert feature_names_of() == ("a", "b", "level_1")


@case(18, "a value as tools write it", "a refusal of folders whose files are not one data set")
def folder_that_is_no_data_set() -> None:
    for folder, files in (
        ("Fold1", ("train.txt", "vali.txt", "test.txt")),
        ("delta", ("_delta_log/0.json", "p.txt")),
    ):
        for file in files:
            path = Path(folder, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_rows(str(path))
        refuse(*train(folder), says=(folder,))
        refuse("doctor", folder)


# Habits of the engines' rankers, and objects people hold; 0 where newcomers met it
# --------------------------------


@case(10, "a value as tools write it", "the file, with any name of a feature")
def names_beyond_ascii() -> None:
    X, y, qid = arrays(features=2)
    data = RankingDataset.from_arrays(X, y, qid=qid, feature_names=["prix_été", "цена"])
    model = boostrank.train({"objective": "lambdarank", "verbosity": 0}, data, 2, backend="xgboost")
    boostrank.export_model(model, "names.json", "xgboost")
    assert Path("names.json").stat().st_size


@case(20, "names people type", "the training, with LGBMRanker's spelling of an objective")
def objective_that_takes_groups() -> None:
    X, y, qid = arrays()
    seen = []

    def objective(
        y_true: np.ndarray, y_pred: np.ndarray, group: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
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
    params = {"objective": "lambdarank", "eval_metric": "NDCG:top=4,P_2", "verbosity": -1}
    assert set(boostrank.train(params, data, 1, valid_sets=[data]).evals_result["training"]) == {
        "ndcg@4",
        "precision@2",
    }


@case(22, "names people type", "an argument, wherever it is given")
def argument_inside_params() -> None:
    X, y, qid = arrays()
    params = {"objective": "lambdarank", "quality": "quick", "verbosity": -1}
    boostrank.train(params, RankingDataset.from_arrays(X, y, qid=qid), 2)


@case(23, "names people type", "the module, without an import")
def tracking_is_an_attribute() -> None:
    program = (
        "import boostrank; print(boostrank.tracking.JsonLines.__name__, 'Any' in"
        " dir(boostrank.tracking))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == [
        "JsonLines",
        "False",
    ]
    assert {"train", "BoostRanker", "tracking", "report"} <= set(dir(boostrank))
    assert not {"Any", "annotations", "import_module"} & set(dir(boostrank))


@case(31, "names people type", "the objectives that optimise the metric")
def metric_as_an_objective() -> None:
    write_rows("t.txt")
    refuse(
        "train",
        "t.txt",
        "--objective",
        "ndcg",
        "--model",
        "m.txt",
        says=("ndcg", "lambdarank", "auto"),
    )


@case(6, "names people type", "an engine's parameter given as an option: where it goes")
def parameters_as_options() -> None:
    for option, remedy in {
        "--n-estimators": "--rounds",
        "--iterations": "--rounds",
        "--eval-metric": "--metric",
        "--n_jobs": "--threads",
        "--max-depth": "--param max_depth=",
        "--tree-method": "--param tree_method=",
    }.items():
        refuse("train", "t.txt", option, "3", says=(option, remedy))
    assert "--rounds" not in invoke("report", "m.txt", "t.txt", "--n-estimators", "3").stderr


@case(6, "names people type", "a parameter of the other engine: whose it is")
def parameters_of_the_other_engine() -> None:
    X, y, qid = arrays()
    for name, mine, theirs in (
        ("tree_method", "lightgbm", "xgboost"),
        ("path_smooth", "xgboost", "lightgbm"),
    ):
        with pytest.raises(boostrank.ParameterError, match=f"{name}.*backend='{theirs}'"):
            boostrank.train({name: 1}, RankingDataset.from_arrays(X, y, qid=qid), 1, backend=mine)


@case(0, "names people type", "the command that is near, also that of a group")
def unknown_command() -> None:
    refuse("trian", says=("'trian'", "'train'"))
    refuse("splt", says=("'splt'", "'data split'"))
    assert "mean" not in invoke("xyzzy").stderr


@case(0, "names people type", "an option that is near, and no other")
def unknown_option() -> None:
    refuse("train", "t.txt", "--round", "3", says=("--rounds",))
    assert "mean" not in invoke("report", "m.txt", "t.txt", "--against", "x").stderr


@case(19, "what people hold", "the explanation of its booster, and the same numbers without shap")
def explained_by_shap() -> None:
    shap = pytest.importorskip("shap", reason="shap is not installed")
    X, y, qid = arrays()
    ranker = boostrank.BoostRanker("lambdarank", n_estimators=2, verbosity=-1).fit(X, y, qid=qid)
    values = shap.TreeExplainer(ranker.booster_).shap_values(X)
    np.testing.assert_allclose(ranker.predict(X, pred_contrib=True)[:, :-1], values, atol=1e-9)


@case(
    0, "names people type", "the training, with the arguments of LGBMRanker's and XGBRanker's fit"
)
def arguments_of_other_fits() -> None:
    X, y, qid = arrays()
    sizes = [20] * 6

    def trained(**options: Any) -> Any:
        return boostrank.BoostRanker("lambdarank", n_estimators=3, eval_at=3, verbosity=-1).fit(
            X, y, qid=qid, **options
        )

    # The names that LightGBM and XGBoost have for validation sets give the same.
    pair = (X[:40, ::-1], y[:40])
    watched = {"eval_set": [pair], "eval_group": [sizes[:2]]}
    expected = trained(**watched).evals_result_
    assert list(expected) == ["valid_0"]
    assert trained(eval_X=pair[0], eval_y=pair[1], eval_group=[sizes[:2]]).evals_result_ == expected
    assert (
        trained(eval_X=pair[:1], eval_y=pair[1:], eval_qid=[qid[:40]], verbose=False).evals_result_
        == expected
    )
    # Weights, metrics and stopping.
    weighted = trained(**watched, sample_weight_eval_set=[[1, 3]]).evals_result_
    assert weighted == trained(**watched, eval_sample_weight=[[1, 3]]).evals_result_ != expected
    assert trained(**watched, eval_metric="map", early_stopping_rounds=1).best_iteration_ < 3
    # What is not taken is refused with the name that is.
    for name, says in {
        "init_score": "init_model",
        "base_margin": "init_model",
        "eval_st": "'eval_set'",
    }.items():
        with pytest.raises(boostrank.ParameterError, match=f"{name}.*{says}"):
            trained(**{name: y})
    trained(**watched, verbose=2)
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
    ranker.fit(
        X,
        y,
        qid=qid,
        eval_set=[(X[:40], y[:40])],
        eval_qid=[qid[:40]],
        eval_metric=["ndcg", two, four],
    )
    history = ranker.evals_result_["valid_0"]
    assert list(history) == ["ndcg@3", "two", "four"]
    assert history["two"][-1] == pytest.approx(ranker.predict(X[:40]).mean())
    assert history["four"] == [40, 40]
    np.testing.assert_array_equal(seen["two"], y[:40])
    assert seen["four"][0] is None
    assert list(seen["four"][1]) == [20, 20]


@case(
    0,
    "names people type",
    "the predictions, with the arguments of LGBMRanker's and XGBRanker's predict",
)
def arguments_of_other_predicts() -> None:
    X, y, qid = arrays()
    ranker = boostrank.BoostRanker("lambdarank", n_estimators=4, verbosity=-1).fit(X, y, qid=qid)
    predict = ranker.booster_.predict
    for theirs in ({}, {"num_iteration": 2}, {"pred_leaf": True}, {"pred_contrib": True}):
        np.testing.assert_allclose(
            ranker.predict(X, raw_score=True, **theirs), predict(X, **theirs), atol=1e-9
        )
    of_range = ranker.predict(X, output_margin=True, iteration_range=(1, 3))
    np.testing.assert_allclose(of_range, predict(X, start_iteration=1, num_iteration=2), atol=1e-9)
    np.testing.assert_array_equal(ranker.predict(X, iteration_range=(0, 0)), ranker.predict(X))
    with pytest.raises(boostrank.ParameterError, match=r"num_iteratin.*'num_iteration'"):
        ranker.predict(X, num_iteratin=3)


@case(0, "names people type", "the fitted attributes of LGBMRanker")
def fitted_attributes() -> None:
    X, y, qid = arrays()
    ranker = boostrank.BoostRanker("lambdarank", n_estimators=2, verbosity=-1)
    assert not hasattr(ranker, "n_features_")
    ranker.fit(pd.DataFrame(X, columns=["a", "b", "c"]), y, qid=qid)
    assert (
        ranker.n_features_,
        ranker.n_features_in_,
        ranker.objective_,
        ranker.best_iteration_,
    ) == (
        3,
        3,
        "lambdarank",
        2,
    )
    assert ranker.feature_name_ == list(ranker.feature_names_in_) == ["a", "b", "c"]
    assert (ranker.best_score_, ranker.evals_result_) == ({}, {})
    assert len(ranker.feature_importances_) == 3


@case(10, "what people hold", "a refusal of rankers of other libraries, whose scores are taken")
def rankers_of_other_libraries() -> None:
    X, y, qid = arrays()
    data = RankingDataset.from_arrays(X, y, qid=qid)
    other = type("CatBoostRanker", (), {"predict": lambda self, X: X[:, 0]})()
    with pytest.raises(boostrank.ParameterError, match=r"CatBoostRanker.*predict"):
        boostrank.compare(y, other, data)
    boostrank.compare(y, other.predict(X), data)


@case(10, "what people hold", "a training that continues a fitted ranker of any library")
def ranker_to_continue() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y, qid = arrays()
    data = RankingDataset.from_arrays(X, y, qid=qid)
    theirs = lightgbm.LGBMRanker(n_estimators=2, verbose=-1).fit(X, y, group=[20] * 6)
    for ranker in (
        theirs,
        boostrank.BoostRanker("lambdarank", n_estimators=2, verbosity=-1).fit(X, y, qid=qid),
    ):
        model = boostrank.train(
            {"objective": "lambdarank", "verbosity": -1}, data, 1, init_model=ranker
        )
        assert model.num_trees() == 3


@case(
    2, "what people hold", "the rounds that an early-stopped XGBRanker uses; a refusal of missing=0"
)
def xgboost_rankers_to_the_letter() -> None:
    xgboost = pytest.importorskip("xgboost")
    X, y, qid = arrays()
    data = RankingDataset.from_arrays(X, y, qid=qid)
    fit = {"eval_set": [(X, y)], "eval_qid": [qid], "verbose": False}
    theirs = xgboost.XGBRanker(n_estimators=30, early_stopping_rounds=2, learning_rate=1.0).fit(
        X, y, qid=qid, **fit
    )
    best = theirs.best_iteration + 1
    assert best < theirs.get_booster().num_boosted_rounds()
    params = {"objective": "lambdarank", "verbosity": 0}
    assert (
        boostrank.train(params, data, 1, init_model=theirs, backend="xgboost").num_trees()
        == best + 1
    )
    zero = xgboost.XGBRanker(n_estimators=2, missing=0.0).fit(X, y, qid=qid)
    with pytest.raises(boostrank.ModelError, match="missing=0"):
        boostrank.compare(y, zero, data)


@case(6, "names people type", "the metric, by the names of trec_eval, ir_measures and scikit-learn")
def metrics_by_other_names() -> None:
    for name, ours in {"ndcg_cut.10": "ndcg@10", "ndcg:10": "ndcg@10", "R@10": "recall@10"}.items():
        assert str(boostrank.Metric.parse(name)) == ours
    assert str(boostrank.Metric.parse("average_precision")) == "map"


# The doctor, and rankers with other features
# ----------------------------------------------------------------------


def write_table(path: str, names: tuple[str, ...] = ("a", "b", "c"), scores: object = None) -> None:
    """Write some of the features as CSV, with the labels or with scores."""
    X, y, qid = arrays()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])[list(names)].assign(qid=qid)
    column = {"label": y} if scores is None else {"logged": scores}
    frame.assign(**column).to_csv(path, index=False)


def found_by_doctor(*command: object) -> list[dict[str, Any]]:
    """Errors that the doctor finds."""
    result = refuse("doctor", *command, "--json")
    return [finding for finding in json.loads(result.stdout) if finding["severity"] == "error"]


@case(6, "doctor and train agree", "one error: the judged file has no features")
def judged_without_features() -> None:
    Path("t.txt").write_text("".join(f"{i % 3} qid:{i // 4} # {i} title\n" for i in range(12)))
    assert [finding["check"] for finding in found_by_doctor("t.txt")] == ["no-features"]
    refuse(*train("t.txt"), says=("no features",))


@case(5, "doctor and train agree", "one error where no feature can be split")
def features_that_nothing_splits() -> None:
    Path("t.txt").write_text("".join(f"{i % 3} qid:{i // 4} 1:{int(i == 5)}\n" for i in range(500)))
    assert [finding["check"] for finding in found_by_doctor("t.txt")] == ["refused-data"]
    refuse("train", "t.txt", "--model", "m.txt", says=("split",))


@case(4, "doctor and train agree", "infinite values read as missing, with no row left out")
def infinite_values() -> None:
    write_frame("t.csv", a=[np.inf, *arrays()[0][1:, 0]])
    (finding,) = found_by_doctor("t.csv")
    assert finding["options"] == "--inf missing"
    succeed("doctor", "t.csv", *finding["options"].split())
    succeed(*train("t.csv", *finding["options"].split()))


@case(0, "doctor and train agree", "all columns of text in one run, each with its option")
def columns_of_text() -> None:
    X, y, qid = arrays()
    text = {"brand": ["red", "blue", "green"] * 40, "code": [f"p{i}" for i in range(120)]}
    pd.DataFrame({"label": y, "qid": qid, "x": X[:, 0]} | text).to_csv("t.csv", index=False)
    (finding,) = found_by_doctor("t.csv")
    assert finding["options"] == "--drop code --categorical brand"
    refuse(*train("t.csv"), says=("t.csv:2", "'code'", "'brand'", finding["options"]))
    succeed("doctor", "t.csv", *finding["options"].split())


@case(26, "doctor and train agree", "one finding, and no advice that leaves out most rows")
def rows_that_name_a_feature_twice() -> None:
    Path("t.txt").write_text("".join(f"{i % 3} qid:{i // 4} 1:{i} 1:2\n" for i in range(24)))
    (finding,) = found_by_doctor("t.txt")
    assert (finding["count"], finding["line"], finding["options"]) == (24, 1, "")
    assert "skip" not in finding["fix"]


@case(0, "any ranker anywhere", "a comparison: each model takes its own columns")
def model_with_one_more_feature() -> None:
    for name, features in (("old", ("c", "a")), ("new", ("a", "b", "c"))):
        write_table(f"{name}.csv", features)
        succeed(*train(f"{name}.csv", model=f"{name}.txt"))
    old, new = boostrank.RankingModel.load("old.txt"), boostrank.RankingModel.load("new.txt")
    data = boostrank.read("new.csv")
    expected = (
        boostrank.compare(old.predict(boostrank.read("old.csv")), new, data).metrics["ndcg@10"].mean
    )
    assert boostrank.compare(old, new, data).metrics["ndcg@10"].mean == expected
    comparison = json.loads(succeed("compare", "old.txt", "new.txt", "new.csv", "--json").stdout)
    assert comparison["metrics"]["ndcg@10"]["mean"] == expected
    measured = json.loads(succeed("evaluate", "old.txt", "new.txt", "new.csv", "--json").stdout)
    assert measured["new.txt"]["ndcg@10"]["difference"] == expected
    rows = [
        f"{row[4]} qid:{row[3]} 1:{row[0]} 2:{row[1]} 3:{row[2]}\n"
        for row in csv.reader(Path("new.csv").read_text().splitlines())
    ]
    Path("named.svm").write_text("".join(["# f1: a\n# f2: b\n# f3: c\n", *rows[1:]]))
    printed = succeed(
        "evaluate", "old.txt", "new.txt", "named.svm", "--zero-based", "false", "--json"
    )
    assert json.loads(printed.stdout) == measured
    succeed(
        "report", "new.txt", "new.csv", "--baseline", "old.txt", "--only", "verdict", "-o", "r.html"
    )


@case(
    0, "any ranker anywhere", "a verification by the features alone, and by a column of the table"
)
def logged_scores_in_the_table() -> None:
    write_table("t.csv")
    succeed(*train("t.csv"))
    scores = boostrank.RankingModel.load("m.txt").predict(boostrank.read("t.csv"))
    write_table("log.csv", scores=scores)
    assert (
        json.loads(succeed("verify", "m.txt", "log.csv", "--against", "logged", "--json").stdout)[
            "level"
        ]
        == "equal"
    )
    Path("s.txt").write_text("".join(f"{score!r}\n" for score in scores.tolist()))
    succeed("verify", "m.txt", "log.csv", "--drop", "logged", "--against", "s.txt")
    refuse(
        "verify", "m.txt", "log.csv", "--against", "loged", says=("'loged'", "log.csv", "'logged'")
    )


@case(0, "numbers that are true", "p-values adjusted where several rankers are compared with one")
def several_rankers() -> None:
    write_table("t.csv")
    rng, files = np.random.default_rng(3), [f"s{i}.txt" for i in range(4)]
    for file in files:
        Path(file).write_text("".join(f"{score!r}\n" for score in rng.normal(size=120).tolist()))

    def p_of(*rankers: str) -> list[float]:
        results = json.loads(
            succeed("evaluate", *rankers, "t.csv", "--metric", "ndcg@5", "--json").stdout
        )
        return [results[ranker]["ndcg@5"]["p"] for ranker in rankers[1:]]

    alone = [p_of(files[0], file)[0] for file in files[1:]]
    np.testing.assert_allclose(p_of(*files), holm(alone))
    assert (holm(alone) > alone).any()


@case(
    0,
    "groups out of step with the rows",
    "a refusal where more than a thousand rows have no queries",
)
def search_without_queries() -> None:
    X, y, _ = arrays(60)
    with pytest.raises(DataError, match="qid"):
        boostrank.BoostRanker("lambdarank", n_estimators=2).fit(X, y)


@case(0, "names people type", "the same quality with --log and checkpoints as without")
def log_of_a_nightly_job() -> None:
    Path("t.txt").write_text(
        "".join(f"{i % 3} qid:{i // 8} 1:{i * 7 % 11} 2:{i % 5}\n" for i in range(96))
    )
    result = succeed(
        "train",
        "t.txt",
        "--rounds",
        1,
        "--log",
        "l.jsonl",
        "--checkpoint-every",
        1,
        "--model",
        "m",
        "--json",
    )
    assert json.loads(result.stdout)["quality"] == "good"
    model = boostrank.RankingModel.load("m")
    assert f"{model.num_trees()} trees" in repr(model)


# Wide sparse data, and few rows
# -----------------------------------------------------------------------------------


@case(
    30,
    "wide sparse data",
    "a plan and a model for the features that some row names, on either engine",
)
def hashed_features() -> None:
    rng = np.random.default_rng(0)
    with open("wide.txt", "w") as file:
        for row in range(500):
            value, hashed = rng.random(), np.sort(rng.integers(2, 200_001, 10))
            others = " ".join(f"{i}:{rng.random():.3f}" for i in np.unique(hashed))
            file.write(f"{int(3 * value)} qid:{row // 10} 1:{value:.3f} {others}\n")
    for backend, model in (("lightgbm", "m.txt"), ("xgboost", "m.json")):
        succeed(*train("wide.txt", "--backend", backend, "--memory-limit", "1GB", model=model))
        succeed("predict", model, "wide.txt", "-o", "scores.txt")
        assert np.unique(np.loadtxt("scores.txt")).size > 2


@case(5, "small data", "a model, on either engine, with a preset and without")
def two_dozen_rows() -> None:
    X, labels, queries = arrays(queries=3, size=8)
    rows = (f"{y} qid:{q} 1:{x[0]} 2:{x[1]}\n" for x, y, q in zip(X, labels, queries, strict=True))
    Path("few.txt").write_text("".join(rows))
    succeed("doctor", "few.txt")
    for backend in ("lightgbm", "xgboost"):
        for quality in ("plain", "quick", "good"):
            succeed(
                "train",
                "few.txt",
                "--backend",
                backend,
                "--quality",
                quality,
                "--rounds",
                2,
                "--model",
                "m.json",
            )
