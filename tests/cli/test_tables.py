"""Tables on the command line: the models, scores and findings of libsvm text with the same numbers
and names.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import ParameterError
from boostrank.diagnosis.training import doctor
from boostrank.files.source import FORMATS
from boostrank.routes import survey
from tests.cli.conftest import FEW, invoke, messages, refuse, sidecar, succeed

pa = pytest.importorskip("pyarrow", reason="tables are read by pyarrow")
csv = pytest.importorskip("pyarrow.csv")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")
COLUMNS = ("--label", "rel", "--qid", "query", "--drop", "url,no")


@pytest.fixture(scope="module")
def folder(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train and test in every format, names.txt, and models of csv, parquet and txt."""
    folder = tmp_path_factory.mktemp("tables")
    for name in ("train", "test"):
        rows = boostrank.read(data / f"{name}.txt", layout="dense")
        features = {f"bm{i}": rows.features[:, i] for i in range(rows.n_features)}
        other_columns = {
            "rel": rows.labels,
            "query": rows.queries.row_ids(),
            "url": ["http"] * rows.n_documents,
            "no": np.arange(rows.n_documents),
        }
        columns: dict[str, Any] = (
            {**other_columns, **features}
            if name == "train"
            else {**dict(reversed(features.items())), **other_columns}
        )
        table = pa.table(columns)
        csv.write_csv(table, folder / f"{name}.csv")
        parquet.write_table(table, folder / f"{name}.parquet", row_group_size=100)
        feather.write_feather(table, str(folder / f"{name}.feather"))
        (folder / f"{name}.txt").write_bytes((data / f"{name}.txt").read_bytes())
    (folder / "names.txt").write_text("\n".join(features) + "\n")
    for ending in ("csv", "parquet"):
        train(folder, f"train.{ending}", f"{ending}.model", *COLUMNS)
    train(folder, "train.txt", "txt.model", "--feature-names", folder / "names.txt")
    return folder


def train(folder: Path, name: str, model: str, *options: Any) -> str:
    result = succeed("train", folder / name, "-m", folder / model, *FEW, *options)
    return str(result.stderr)


def scores(*arguments: Any) -> str:
    result = succeed("predict", *arguments)
    return str(result.stdout)


def test_the_same_table_trains_the_same_bytes(folder: Path) -> None:
    models = [(folder / f"{ending}.model").read_bytes() for ending in ("csv", "parquet", "txt")]
    assert models[0] == models[1] == models[2]
    records = [sidecar(folder / f"{ending}.model") for ending in ("csv", "parquet", "txt")]
    for record in records:
        record.pop("file")
        record["data"] = {
            k: v for k, v in record["data"].items() if k not in ("files", "reader", "index_base")
        }  # type: ignore[attr-defined]
    assert records[0] == records[1] == records[2]
    train_log = train(
        folder, "train.feather", "streamed.model", *COLUMNS, "--route", "bins", "--cache", "none"
    )
    assert "labels from column 'rel', queries from column 'query', " in train_log
    assert (folder / "streamed.model").read_bytes() == models[0]


def test_later_files_need_no_options_and_no_order_and_to_be_scored_no_labels(folder: Path) -> None:
    expected = scores(folder / "csv.model", folder / "test.csv")
    assert expected == scores(folder / "csv.model", folder / "test.parquet")
    assert expected == scores(folder / "txt.model", folder / "test.txt")
    bare = parquet.read_table(folder / "test.parquet").drop_columns(["rel", "query", "url", "no"])
    feather.write_feather(bare, str(folder / "bare.dat"))  # whose first bytes say what it is
    assert expected == scores(folder / "parquet.model", folder / "bare.dat")
    outputs = {
        invoke("evaluate", folder / "csv.model", folder / f"test.{e}").stdout
        for e in ("csv", "feather")
    }
    assert len(outputs) == 1
    assert "ndcg" in outputs.pop().lower()
    refused = refuse("predict", folder / "txt.model", folder / "test.csv")
    assert "has 'rel', 'url', 'no'" in refused.stderr
    assert "--drop rel,url,no " in refused.stderr
    assert expected == scores(
        folder / "txt.model", folder / "test.csv", "--drop", "rel,query,url,no"
    )


def test_names_are_shown_where_features_are(folder: Path) -> None:
    result = succeed("importance", folder / "txt.model", folder / "test.txt", "--json")
    assert '"bm' in result.stdout
    assert '"f1"' not in result.stdout
    text = succeed(
        "why",
        folder / "csv.model",
        folder / "test.csv",
        boostrank.read(folder / "test.txt").queries.qid[0],
        "@1",
        "@2",
    )
    assert "bm" in text.stdout
    position = invoke("predict", folder / "csv.model", folder / "test.txt")
    assert "first feature" in position.stderr
    with_names = scores(
        folder / "csv.model", folder / "test.txt", "--feature-names", folder / "names.txt"
    )
    assert with_names == position.stdout


def test_the_plan_and_the_doctor_know_tables(folder: Path) -> None:
    # The survey and the doctor say of a table what they say of the text.
    whole = survey(folder / "train.txt")
    for ending in ("csv", "parquet", "feather"):
        surveyed = survey(folder / f"train.{ending}", label="rel", qid="query", drop="url,no")
        for name in ("rows", "features", "exact", "refused_rows"):
            assert getattr(surveyed, name) == getattr(whole, name), name
    columns: dict[str, Any] = {"label": "rel", "qid": "query", "drop": "url,no"}
    text = doctor(
        folder / "train.txt", test=str(folder / "test.txt"), feature_names=str(folder / "names.txt")
    )
    for ending in ("csv", "parquet"):
        findings = doctor(
            folder / f"train.{ending}", test=str(folder / f"test.{ending}"), **columns
        )
        assert [(f.check, f.count, f.message) for f in findings] == [
            (f.check, f.count, f.message) for f in text
        ]
    # Faults are told with line and column.
    (folder / "bad.csv").write_text("rel,query,a,b\n1,1,2,7\n1,1,x,7\n0,2,3,7\n2,1,3,7\n")
    checked = refuse("doctor", folder / "bad.csv", "--label", "rel", "--qid", "query")
    assert "bad.csv:3: error: value 'x' of column 'a' is not a number" in checked.stdout
    assert (
        "bad.csv:5: error: qid 1 reappears after another query; it was first seen on line 2"
        in checked.stdout
    )
    assert "boostrank data sort" in checked.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("train.csv",),
            (
                "no column is called label or relevance or grade or rating; pass its name,"
                " --label COLUMN"
            ),
        ),
        (
            ("train.csv", "--label", "rell"),
            "no column is called 'rell' (--label). Did you mean 'rel'?",
        ),
        (("train.csv", "--format", "libsvm"), "--format csv"),
        (("train.parquet", "--format", "csv"), "a Parquet file"),
        (("train.txt", "--format", "csv"), "separated by ',': '0 qid:0"),
        (("train.txt", "--label", "rel"), "is not supported by this data format"),
        (("train.csv", *COLUMNS[:4], "--drop", "no"), "text in column 'url'"),
    ],
)
def test_wrong_columns_of_a_table_are_refused(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    result = refuse(
        "train", folder / arguments[0], *arguments[1:], "-m", folder / "none.model", *FEW
    )
    assert any(words in line for line in messages(result)), result.stderr
    assert not (folder / "none.model").exists()


def test_help_names_the_registered_formats_and_others_are_refused(folder: Path) -> None:
    words = invoke("predict", "--help").stdout
    assert all(spec.name in words for spec in FORMATS)
    refused = invoke("predict", folder / "csv.model", folder / "test.csv", "--format", "cvs")
    assert "Did you mean 'csv'" in refused.stderr


def test_columns_with_commas_are_named_in_quotes_or_one_by_one(tmp_path: Path) -> None:
    rows = [
        f"{i % 3},{i // 6},http,{i},{'red' if i % 2 else 'green'},{(i * 7) % 5}" for i in range(60)
    ]
    text = '"rel","query","a ""url"", long","row, no","colour, text",x\n' + "\n".join(rows) + "\n"
    (tmp_path / "t.csv").write_text(text)
    columns = ("--label", "rel", "--qid", "query")
    together = ("--drop", '"a ""url"", long","row, no"', "--categorical", '"colour, text"')
    apart = (
        "--drop",
        '"a ""url"", long"',
        "--drop",
        '"row, no"',
        "--categorical",
        '"colour, text"',
    )
    for number, options in enumerate((together, apart)):
        train(tmp_path, "t.csv", f"m{number}", *columns, *options)
    assert (tmp_path / "m0").read_bytes() == (tmp_path / "m1").read_bytes()

    refused = invoke("train", tmp_path / "t.csv", "-m", tmp_path / "m", *FEW, *columns)
    words = re.search(r"--drop ('.*?') --categorical", refused.stderr)
    assert words is not None, refused.stderr
    assert shlex.split(words[1]) == [
        '"a ""url"", long"'
    ]  # what the message says works as it is typed
    bad = refuse(
        "train", tmp_path / "t.csv", "-m", tmp_path / "m", *FEW, *columns, "--drop", "a,,b"
    )
    assert "has an empty name" in bad.stderr
    with pytest.raises(ParameterError, match="double quotes"):
        boostrank.read(tmp_path / "t.csv", label="rel", qid="query", drop='"a')


def test_categories_of_libsvm_text_are_refused_by_name(folder: Path, tmp_path: Path) -> None:
    result = refuse(
        "train", folder / "train.txt", "-m", tmp_path / "m", *FEW, "--categorical", "f1"
    )
    assert "categorical=('f1',) " in result.stderr
