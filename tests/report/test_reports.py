"""The whole report: the same numbers however the data come."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from scipy import sparse

import boostrank
from boostrank.core.errors import ModelError, ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.files.writer import write_libsvm
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting import Report, report, sections
from boostrank.reporting.sections import SECTIONS

QUICK = ("verdict", "learning", "queries")


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_ranking_data(90, seed=6, mean_length=8).dataset


@pytest.fixture(scope="module")
def model(data: RankingDataset) -> RankingModel:
    params = {"objective": "lambdarank", "num_leaves": 7, "num_threads": 1, "verbosity": -1, "min_data_in_leaf": 5}
    return boostrank.train(params, data.take(np.arange(40)), 10)


@pytest.fixture(scope="module")
def found(model: RankingModel, data: RankingDataset) -> Report:
    return report(model, data, baseline=model.predict(data, num_iteration=3), threads=1)


def same(told: Any, other: Any) -> None:
    """The numbers that do not depend on names."""
    for name in ("ndcg@10", "map"):
        mine, theirs = told.verdict.model.standings[name], other.verdict.model.standings[name]
        assert (mine.value, mine.low, mine.high) == pytest.approx((theirs.value, theirs.low, theirs.high), abs=1e-12)
    for mine, theirs in zip(told.verdict.baselines, other.verdict.baselines, strict=True):
        assert mine.standings["map"].lead == pytest.approx(theirs.standings["map"].lead, abs=1e-12)
    np.testing.assert_allclose(told.learning.prefixes["lost_low"], other.learning.prefixes["lost_low"], atol=1e-12)
    assert [w.qid for w in told.queries.worst] == [w.qid for w in other.queries.worst]
    assert [w.documents["document"] for w in told.queries.worst] == [
        w.documents["document"] for w in other.queries.worst
    ]


def test_features_in_another_order_give_the_same(model: RankingModel, data: RankingDataset, found: Report) -> None:
    order = np.random.default_rng(0).permutation(data.n_features)
    names = tuple(data.feature_names[i] for i in order)
    other = RankingDataset(np.ascontiguousarray(data.features[:, order]), data.labels, data.queries, names)
    told = report(model, other, baseline=model.predict(other, num_iteration=3), only=QUICK, threads=1)
    same(told, found)


def test_sparse_features_give_the_same(model: RankingModel, data: RankingDataset, found: Report) -> None:
    other = RankingDataset(sparse.csr_matrix(data.features), data.labels, data.queries, data.feature_names)
    told = report(model, other, baseline=model.predict(other, num_iteration=3), only=QUICK, threads=1)
    same(told, found)


def test_scattered_rows_are_told_by_where_they_stood(model: RankingModel, data: RankingDataset, found: Report) -> None:
    """Queries keep their order and rows theirs within a query: only the places in the file are others."""
    ids = np.repeat(np.arange(len(data.queries)), data.queries.sizes)
    place = np.arange(ids.size) - np.repeat(data.queries.ptr[:-1], data.queries.sizes)
    order = np.lexsort((ids, place))
    other = RankingDataset.from_arrays(
        data.features[order], data.labels[order], qid=ids[order], feature_names=data.feature_names, sort=True
    )
    told = report(model, other, baseline=model.predict(other, num_iteration=3), only=("verdict", "queries"), threads=1)
    assert told.verdict is not None
    assert found.verdict is not None
    assert told.queries is not None
    assert told.verdict.headline.value == pytest.approx(found.verdict.headline.value, abs=1e-12)
    old = told.verdict.baselines[0], found.verdict.baselines[0]
    assert old[0].standings["map"].value == pytest.approx(old[1].standings["map"].value, abs=1e-12)
    documents = told.queries.worst[0].documents
    for document, label in zip(documents["document"], documents["label"], strict=True):
        row = int(document.removeprefix("row ")) - 1
        assert str(ids[order][row]) == told.queries.worst[0].qid
        assert data.labels[order][row] == label


def test_a_part_that_cannot_be_had_leaves_the_others(
    model: RankingModel, data: RankingDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ModelError("the trees are away")

    monkeypatch.setattr("boostrank.reporting.sections.learning.walker_of", refuse)
    told = report(model, data, only=QUICK, threads=1)
    assert told.missing == {"learning": "the trees are away"}
    assert told.verdict is not None
    assert "Not available: the trees are away." in told.to_html()
    assert told.to_dict()["learning"] is None
    monkeypatch.setattr("boostrank.reporting.section.BoundMetrics", refuse)
    with pytest.raises(ModelError, match="the trees are away"):
        report(model, data, only=QUICK, threads=1)


def test_frames_tables_and_sections_have_their_names(found: Report) -> None:
    names = ["verdict", "ranking", "importance", "shapes", "learning", "queries"]
    assert [section.name for section in found.sections] == names
    assert sorted([*names, "calibration", "clicks"]) == SECTIONS.modules() == SECTIONS.names()
    assert {"verdict", "depth", "grades", "importance", "prefixes", "queries", "parts"} <= set(found.frames)
    assert {"metrics", "worst", "prefixes"} <= {part.name for one in found.sections for part in one.drawn}
    assert found.to_dict()["missing"] == {}


def test_what_is_not_there_is_refused(model: RankingModel, data: RankingDataset) -> None:
    with pytest.raises(ParameterError, match=r"unknown section 'verdicts'\. Did you mean 'verdict'"):
        report(model, data, only=("verdicts",))
    with pytest.raises(ParameterError, match="metrics"):
        report(model, data, ())


def test_names_that_order_tied_documents_are_asked_for_where_they_matter(
    model: RankingModel, data: RankingDataset, found: Report
) -> None:
    names = [f"D{i}" for i in range(data.n_documents)]
    named = replace(data, document_names=names)
    told = report(model, named, "ndcg@10", conventions="trec", only=QUICK, threads=1)
    assert told.missing == {}
    assert told.verdict is not None
    assert told.verdict.conventions.ties == "docno"
    assert told.learning is not None
    with pytest.raises(ParameterError, match="pass docnos"):
        report(model, data, "ndcg@10", conventions="trec", only=QUICK, threads=1)


def test_features_on_disk_give_the_same(
    model: RankingModel, data: RankingDataset, found: Report, tmp_path: Path
) -> None:
    write_libsvm(tmp_path / "data.txt", data)
    stored = boostrank.stream(tmp_path / "data.txt", cache=tmp_path / "cache")
    assert stored.on_disk
    told = report(model, stored, "ndcg@10", only=QUICK, threads=1)
    assert found.learning is not None
    assert told.learning is not None
    np.testing.assert_allclose(told.learning.prefixes["value"], found.learning.prefixes["value"], atol=1e-6)
    assert told.queries is not None
    assert found.queries is not None
    assert len(told.queries.worst) == len(found.queries.worst)


HALVES = '''
"""Halves: a section in one file."""

from dataclasses import dataclass

from boostrank.reporting.result import Result
from boostrank.reporting.section import Section
from boostrank.reporting.table import Column, Table


@dataclass(frozen=True)
class Halves(Result):
    first: float

    def tables(self):
        return [Table("halves-table", {"first": [self.first]}, [Column("first", "half of it", "")])]


def parts(found):
    return {"table": found.table()}


def run(context):
    return Halves(context.results["verdict"].headline.value / 2.0)


SPEC = Section(
    "halves", "Halves", run, parts, position=15, after=("verdict",),
)
'''


@pytest.fixture
def halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new section: one file on the path of the package, and nothing else."""
    (tmp_path / "halves.py").write_text(HALVES)
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(tmp_path)])
    SECTIONS.__dict__.pop("_found", None)
    yield tmp_path
    SECTIONS.__dict__.pop("_found", None)
    sys.modules.pop("boostrank.reporting.sections.halves", None)


def test_a_new_section_is_one_new_file(model: RankingModel, data: RankingDataset, halves: Path) -> None:
    found = report(model, data, only=("halves", "verdict"), threads=1)
    value = found.verdict.headline.value / 2.0
    assert found.halves.first == value
    assert found.to_dict()["halves"] == {"first": value, "halves-table": [{"first": value}]}
    assert found.frames["halves-table"]["first"].tolist() == [value]
    assert found.sections[1].drawn[0].rows() == [{"first": value}]
    assert [section.name for section in found.sections] == ["verdict", "halves"]
    html = found.to_html()
    assert ">Halves</h2>" in html
    assert f'data-value="{value:.8g}"' in html
    assert report(model, data, only=("verdict",), threads=1).halves is None
    with pytest.raises(AttributeError, match="'Report' object has no attribute 'clicked'"):
        _ = found.clicked


def test_the_command_line_offers_a_new_section(halves: Path) -> None:
    code = (
        "import sys, boostrank.reporting.sections as sections\n"
        f"sections.__path__.append({str(halves)!r})\n"
        "from boostrank.cli import main\n"
        "main(['report', '--help'])"
    )
    help_text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "clicks|halves|importance" in "".join(help_text.split())


def test_a_report_can_be_copied(found: Report) -> None:
    assert copy.copy(found).verdict is found.verdict


def test_a_booster_without_names_and_data_that_number_theirs(data: RankingDataset, tmp_path: Path) -> None:
    train = data.take(np.arange(40))
    params = {"objective": "lambdarank", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
    booster = lgb.train(params, lgb.Dataset(train.features, train.labels, group=train.queries.sizes), 3)
    booster.save_model(tmp_path / "plain.txt")
    numbered = replace(data, feature_names=tuple(f"f{i + 1}" for i in range(data.n_features)))
    told = report(tmp_path / "plain.txt", numbered, only=("importance", "shapes"), threads=1)
    assert told.missing == {}
    assert set(told.shapes.top) <= set(numbered.feature_names)
