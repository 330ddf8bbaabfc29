"""One new file is a new objective, metric, format of data or target of export: nothing else has to know of it."""

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
from boostrank.core.errors import ParameterError
from boostrank.core.registry import Registry
from boostrank.data.readers import READERS
from boostrank.export import TARGETS
from boostrank.metrics import METRICS
from boostrank.objectives import OBJECTIVES
from boostrank.objectives import _template as template
from tests.cli.conftest import FEW, invoke
from tests.cli.conftest import data as data
from tests.cli.conftest import model as model

METRIC = '''
"""Hits: how many of the first k documents are relevant."""

from boostrank.kernels.metric.contract import MetricSpec, equal_weights, no_divisors, relevance
from boostrank.kernels.metric.cumulated import cumulated

SPEC = MetricSpec(
    name="hits", aliases=("found",), summary="relevant documents among the first k",
    equation="sum_{r <= k} relevant_r", kernel=cumulated, grades=relevance, weights=equal_weights,
    divisors=no_divisors, reference="a test", upper=None,
)
'''

READER = '''
"""Comma-separated values: label, query and features, with a heading."""

import csv

import numpy as np

from boostrank.data.dataset import RankingDataset
from boostrank.data.readers import ReaderSpec


def read(source, *, like=None, threads=None, progress=None, missing_tokens=()):
    with open(source if isinstance(source, str) else source[0]) as file:
        heading, *rows = csv.reader(file)
    cells = np.array([[np.nan if cell in missing_tokens else float(cell) for cell in row] for row in rows])
    data = RankingDataset.from_arrays(cells[:, 2:], cells[:, 0], qid=cells[:, 1], feature_names=heading[2:])
    return data if like is None else data.with_features(like.feature_names, whose="the model")


SPEC = ReaderSpec("toy", read, endings=(".toy",), aliases=("comma",))
'''

TARGET = '''"""pickled-trees: a toy."""

import pickle

from boostrank.export.reading import Rules, scores
from boostrank.export.target import TargetSpec


def read(body, feature_names):
    trees = pickle.loads(body)
    return lambda rows: scores(trees, rows, Rules.of(trees))


SPEC = TargetSpec(
    name="pickled-trees", title="Python", write=lambda model: pickle.dumps(model.trees), read=read, proved_by="itself",
    how=("{file}", "{model}", "nothing"), exact=("lightgbm", "xgboost"),
)
'''


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Registry[Any], str, str, str], None]]:
    """Puts a file into a folder that is a part of a package from then on."""
    added: list[tuple[Registry[Any], str]] = []

    def add_file(registry: Registry[Any], package: str, name: str, source: str) -> None:
        folder = tmp_path / package
        folder.mkdir()
        (folder / f"{name}.py").write_text(source)
        monkeypatch.setattr(importlib.import_module(package), "__path__", [*sys.modules[package].__path__, str(folder)])
        added.append((registry, f"{package}.{name}"))
        vars(registry).pop("_found", None)

    yield add_file
    for registry, module in added:
        vars(registry).pop("_found", None)
        sys.modules.pop(module, None)


def test_a_new_metric(add: Callable[..., None], data: Path, model: Path) -> None:
    with pytest.raises(ParameterError, match="unknown metric 'hits'"):
        boostrank.Metric.parse("hits@3")
    add(METRICS, "boostrank.metrics", "hits", METRIC)
    assert "hits" in METRICS.names()
    assert str(boostrank.Metric.parse("found@3")) == "hits@3"
    found = invoke("evaluate", model, data / "test.txt", "--metric", "hits@3", "--metric", "precision@3", "--json")
    values = json.loads(found.stdout)
    assert values["hits@3"]["mean"] == pytest.approx(3 * values["precision@3"]["mean"])
    assert "hits" in invoke("evaluate", model, data / "test.txt", "--metric", "hit").stderr


def test_a_new_objective(add: Callable[..., None], data: Path, tmp_path: Path) -> None:
    source = Path(template.__file__).read_text().replace(f'name="{template.SPEC.name}"', 'name="toy-objective"')
    add(OBJECTIVES, "boostrank.objectives", "toy", source)
    assert "toy-objective" in OBJECTIVES.names()
    assert "toy-objective" in invoke("objectives").stdout
    assert json.loads(invoke("objectives", "toy-objective", "--json").stdout)["name"] == "toy-objective"
    trained = invoke("train", data / "train.txt", "--objective", "toy-objective", "-m", tmp_path / "m.txt", *FEW)
    assert trained.exit_code == 0, trained.stderr
    assert boostrank.RankingModel.load(str(tmp_path / "m.txt")).info["objective"]["name"] == "toy-objective"


def test_a_new_target_of_export(add: Callable[..., None], model: Path, tmp_path: Path) -> None:
    add(TARGETS, "boostrank.export.targets", "pickled_trees", TARGET)
    assert "pickled-trees" in invoke("export", "--help").stdout
    result = invoke("export", model, "--to", "pickled-trees", "-o", tmp_path / "trees", "--how")
    assert result.exit_code == 0, result.stderr
    _, proved, *how = result.stdout.splitlines()
    assert proved.startswith("proved by itself: ")
    assert proved.endswith(": the same bits")
    assert how == ["trees", "trees", "nothing"]


def test_a_new_format_of_data(add: Callable[..., None], data: Path, model: Path, tmp_path: Path) -> None:
    test = boostrank.RankingDataset.from_libsvm(str(data / "test.txt"))
    ids = np.repeat(np.arange(len(test.queries)), test.queries.sizes)
    rows = np.column_stack([test.labels, ids, np.asarray(test.features, np.float64)])
    file = tmp_path / "test.toy"
    heading = ",".join(["label", "query", *test.feature_names])
    file.write_text("\n".join([heading, *(",".join(map(repr, row)) for row in rows.tolist())]) + "\n")
    assert invoke("predict", model, file).exit_code != 0

    add(READERS, "boostrank.data.readers", "toy", READER)
    again = boostrank.RankingDataset.read(str(file))
    assert again.feature_names == test.feature_names
    assert again.fingerprint == test.fingerprint
    assert boostrank.RankingDataset.read(str(file), format="comma").fingerprint == test.fingerprint
    assert invoke("predict", model, file).stdout == invoke("predict", model, data / "test.txt").stdout
    values = [json.loads(invoke("evaluate", model, one, "--json").stdout) for one in (file, data / "test.txt")]
    assert values[0] == values[1]
    trained = invoke("train", file, "--valid", file, "--model", tmp_path / "m.txt", "--start", "none", *FEW)
    assert trained.exit_code == 0, trained.stderr
    refused = invoke("train", file, "--model", tmp_path / "m.txt", "--route", "bins", *FEW)
    assert "toy files are read into memory alone" in refused.stderr


def test_a_format_refuses_what_it_cannot_do(add: Callable[..., None], model: Path, tmp_path: Path) -> None:
    add(READERS, "boostrank.data.readers", "toy", READER)
    file = tmp_path / "a.toy"
    file.write_text("label,query,f1\n1,1,NULL\n0,1,2\n")
    assert np.isnan(boostrank.RankingDataset.read(str(file), missing_tokens=["NULL"]).features[0, 0])
    with pytest.raises(ParameterError, match="toy files are read without regroup"):
        boostrank.RankingDataset.read(str(file), regroup=True)
    with pytest.raises(ParameterError, match="toy files are read into memory alone"):
        boostrank.RankingDataset.stream(str(file))
    with pytest.raises(ParameterError, match=r"files of several formats \(libsvm, toy\)"):
        boostrank.RankingDataset.read([str(file), "more.txt"])
    with pytest.raises(ParameterError, match="unknown format of data 'tables'"):
        boostrank.RankingDataset.read(str(file), format="tables")
    assert "toy files are read without strict" in invoke("predict", model, file, "--strict").stderr
