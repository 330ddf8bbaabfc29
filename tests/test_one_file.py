"""One new file is a new objective, metric, format of data or target of export: nothing else has to
know of it.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import DataError, DataWarning, ParameterError
from boostrank.core.params import Registry
from boostrank.export import TARGETS
from boostrank.files.source import FORMATS
from boostrank.metrics.measure import METRICS
from boostrank.objectives import OBJECTIVES
from boostrank.objectives import _template as template
from tests.cli.conftest import FEW, invoke, succeed
from tests.cli.conftest import data as data
from tests.cli.conftest import model as model

METRIC = '''
"""Hits: how many of the first k documents are relevant."""

from boostrank.kernels.metric import MetricSpec, equal_weights, relevance
from boostrank.kernels.metric import cumulated

SPEC = MetricSpec(
    name="hits", aliases=("found",), kernel=cumulated, grades=relevance, weights=equal_weights,
    upper=None,
)
'''

READER = '''
"""Comma-separated values: label, query and features, with a heading."""

import csv

import numpy as np

from boostrank.data.feature_space import FeatureSpace
from boostrank.files.blocks import Block
from boostrank.files.chunks import open_text
from boostrank.files.source import Format, Source


class ToySource(Source):
    header_lines = 1
    has_qid = True
    unused = ("label", "qid", "weight", "drop", "categorical", "feature_names")

    def open_file(self, one):
        file = open_text(one)
        heading = file.head.split(b"\\n")[0]
        self.names = tuple(heading.decode().split(",")[2:])
        file.head = file.head[len(heading) + 1 :]
        return file

    def parse(self, file, text):
        rows = list(csv.reader(bytes(text.buffer[: text.size]).decode().splitlines()))
        cells = np.array([[np.nan if cell in self.reading.missing_tokens else float(cell) for cell in r] for r in rows])
        features, lines = cells[:, 2:].astype(np.float32), np.arange(1, len(rows) + 1)
        return Block.from_rows(cells[:, 0], features, cells[:, 1].astype(np.int64), lines)

    def schema(self, totals):
        return FeatureSpace(None, len(self.names), self.names)

    def numbered_names(self, base=0):
        return dict(enumerate(self.names))


SPEC = Format("toy", ToySource, endings=(".toy",), aliases=("comma",), is_table=True)
'''

TARGET = '''"""pickled-trees: a toy."""

import pickle

from boostrank.engines.served.rules import Rules, scores
from boostrank.export.target import TargetSpec


def read(body, feature_names):
    trees = pickle.loads(body)
    return lambda rows: scores(trees, rows, Rules.of_engine(trees))


SPEC = TargetSpec(
    name="pickled-trees", title="Python", write=lambda model: pickle.dumps(model.trees), read=read, proved_by="itself",
    how="{file} {model}", exact=("lightgbm", "xgboost"),
)
'''


@pytest.fixture
def add(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Registry[Any], str, str, str], None]]:
    """Puts a file into a folder that is a part of a package from then on."""
    added: list[tuple[Registry[Any], str]] = []

    def add_file(registry: Registry[Any], package: str, name: str, source: str) -> None:
        folder = tmp_path / package
        folder.mkdir()
        (folder / f"{name}.py").write_text(source)
        monkeypatch.setattr(
            importlib.import_module(package),
            "__path__",
            [*sys.modules[package].__path__, str(folder)],
        )
        added.append((registry, f"{package}.{name}"))
        vars(registry).pop("_specs_by_name", None)

    yield add_file
    for registry, module in added:
        vars(registry).pop("_specs_by_name", None)
        sys.modules.pop(module, None)


def test_one_new_file_is_a_new_metric(add: Callable[..., None], data: Path, model: Path) -> None:
    with pytest.raises(ParameterError, match="unknown metric 'hits'"):
        boostrank.Metric.parse("hits@3")
    add(METRICS, "boostrank.metrics", "hits", METRIC)
    assert "hits" in METRICS.names()
    assert str(boostrank.Metric.parse("found@3")) == "hits@3"
    result = invoke(
        "evaluate",
        model,
        data / "test.txt",
        "--metric",
        "hits@3",
        "--metric",
        "precision@3",
        "--json",
    )
    values = json.loads(result.stdout)
    assert values["hits@3"]["mean"] == pytest.approx(3 * values["precision@3"]["mean"])
    assert "hits" in invoke("evaluate", model, data / "test.txt", "--metric", "hit").stderr


def test_one_new_file_is_a_new_objective(
    add: Callable[..., None], data: Path, tmp_path: Path
) -> None:
    source = (
        Path(template.__file__)
        .read_text()
        .replace(f'name="{template.SPEC.name}"', 'name="toy-objective"')
    )
    add(OBJECTIVES, "boostrank.objectives", "toy", source)
    assert "toy-objective" in OBJECTIVES.names()
    assert "toy-objective" in invoke("objectives").stdout
    assert "toy-objective: " in invoke("objectives", "toy-objective").stdout
    succeed(
        "train", data / "train.txt", "--objective", "toy-objective", "-m", tmp_path / "m.txt", *FEW
    )
    assert (
        boostrank.RankingModel.load(str(tmp_path / "m.txt")).info["objective"]["name"]
        == "toy-objective"
    )


def test_a_new_target_of_export(add: Callable[..., None], model: Path, tmp_path: Path) -> None:
    add(TARGETS, "boostrank.export.targets", "pickled_trees", TARGET)
    assert "pickled-trees" in invoke("export", "--help").stdout
    result = succeed("export", model, "--to", "pickled-trees", "-o", tmp_path / "trees")
    _, checked, *how = result.stdout.splitlines()
    assert checked.startswith("checked by itself: ")
    assert checked.endswith(": the same bits")
    assert how == ["trees trees"]


def test_a_new_format_of_data(
    add: Callable[..., None], data: Path, model: Path, tmp_path: Path
) -> None:
    # The test set in the toy format, which is unknown at first.
    test = boostrank.read(str(data / "test.txt"))
    ids = np.repeat(np.arange(len(test.queries)), test.queries.sizes)
    rows = np.column_stack([test.labels, ids, np.asarray(test.features, np.float64)])
    file = tmp_path / "test.toy"
    heading = ",".join(["label", "query", *test.feature_names])
    file.write_text(
        "\n".join([heading, *(",".join(map(repr, row)) for row in rows.tolist())]) + "\n"
    )
    with pytest.raises(ParameterError, match="comma"):
        boostrank.read(str(file), format="comma")

    # Once it is there, every command takes it.
    add(FORMATS, "boostrank.files.formats", "toy", READER)
    again = boostrank.read(str(file))
    assert again.feature_names == test.feature_names
    assert again.fingerprint == test.fingerprint
    assert boostrank.read(str(file), format="comma").fingerprint == test.fingerprint
    assert (
        invoke("predict", model, file).stdout == invoke("predict", model, data / "test.txt").stdout
    )
    values = [
        json.loads(invoke("evaluate", model, path, "--json").stdout)
        for path in (file, data / "test.txt")
    ]
    assert values[0] == values[1]
    succeed("train", file, "--valid", file, "--model", tmp_path / "m.txt", "--start", "none", *FEW)
    succeed(
        "train", file, "--model", tmp_path / "s.txt", "--route", "bins", "--start", "none", *FEW
    )
    assert ": error: " not in invoke("doctor", file).stdout


def test_a_format_refuses_what_it_cannot_do(
    add: Callable[..., None], model: Path, tmp_path: Path
) -> None:
    add(FORMATS, "boostrank.files.formats", "toy", READER)
    file = tmp_path / "a.toy"
    file.write_text("label,query,f1\n1,1,NULL\n0,1,2\n")
    with pytest.warns(DataWarning, match="1 missing values"):
        dataset = boostrank.read(str(file), missing_tokens=["NULL"])
    assert np.isnan(dataset.features[0, 0])
    with pytest.raises(ParameterError, match="label='rel'"):
        boostrank.read(str(file), label="rel")
    with pytest.raises(TypeError, match="regrup"):
        boostrank.read(str(file), regrup=True)
    with pytest.raises(ParameterError, match=r"several formats \(libsvm, toy\)"):
        boostrank.read([str(file), "more.txt"])
    with pytest.raises(ParameterError, match=r"unknown format .*'tables'"):
        boostrank.read(str(file), format="tables")
    file.write_text("label,query,f1\n-1,1,1\n0,1,2\n")
    with pytest.raises(DataError, match=r"a\.toy:2: query 1: label -1 "):
        boostrank.train({"objective": "lambdarank"}, boostrank.read(str(file)), 1)
