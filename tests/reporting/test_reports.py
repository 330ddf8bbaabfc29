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
from boostrank.reporting.section import page_beside
from boostrank.reporting.sections import SECTIONS

QUICK = ("verdict", "learning", "queries")


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_ranking_data(90, seed=6, mean_length=8).dataset


@pytest.fixture(scope="module")
def model(data: RankingDataset) -> RankingModel:
    params = {
        "objective": "lambdarank",
        "num_leaves": 7,
        "num_threads": 1,
        "verbosity": -1,
        "min_data_in_leaf": 5,
    }
    return boostrank.train(params, data.take(np.arange(40)), 10)


@pytest.fixture(scope="module")
def full_report(model: RankingModel, data: RankingDataset) -> Report:
    return report(model, data, baseline=model.predict(data, num_iteration=3), threads=1)


def same(actual: Any, expected: Any) -> None:
    """The numbers that do not depend on names."""
    for name in ("ndcg@10", "map"):
        mine, theirs = actual.verdict.model.standings[name], expected.verdict.model.standings[name]
        assert (mine.value, mine.low, mine.high) == pytest.approx(
            (theirs.value, theirs.low, theirs.high), abs=1e-12
        )
    for mine, theirs in zip(actual.verdict.baselines, expected.verdict.baselines, strict=True):
        assert mine.standings["map"].lead == pytest.approx(theirs.standings["map"].lead, abs=1e-12)
    np.testing.assert_allclose(
        actual.learning.prefixes["lost_low"], expected.learning.prefixes["lost_low"], atol=1e-12
    )
    assert [w.qid for w in actual.queries.worst] == [w.qid for w in expected.queries.worst]
    assert [w.documents["document"] for w in actual.queries.worst] == [
        w.documents["document"] for w in expected.queries.worst
    ]


def test_features_in_another_order_give_the_same(
    model: RankingModel, data: RankingDataset, full_report: Report
) -> None:
    order = np.random.default_rng(0).permutation(data.n_features)
    names = tuple(data.feature_names[i] for i in order)
    other = RankingDataset(
        np.ascontiguousarray(data.features[:, order]), data.labels, data.queries, names
    )
    reordered_report = report(
        model, other, baseline=model.predict(other, num_iteration=3), only=QUICK, threads=1
    )
    same(reordered_report, full_report)


def test_sparse_features_give_the_same(
    model: RankingModel, data: RankingDataset, full_report: Report
) -> None:
    other = RankingDataset(
        sparse.csr_matrix(data.features), data.labels, data.queries, data.feature_names
    )
    sparse_report = report(
        model, other, baseline=model.predict(other, num_iteration=3), only=QUICK, threads=1
    )
    same(sparse_report, full_report)


def test_scattered_rows_are_told_by_where_they_stood(
    model: RankingModel, data: RankingDataset, full_report: Report
) -> None:
    """Queries keep their order and rows theirs within a query: only the places in the file are
    others.
    """
    # The first row of every query, then the second ones, and so on.
    ids = np.repeat(np.arange(len(data.queries)), data.queries.sizes)
    position = np.arange(ids.size) - np.repeat(data.queries.ptr[:-1], data.queries.sizes)
    order = np.lexsort((ids, position))
    other = RankingDataset.from_arrays(
        data.features[order],
        data.labels[order],
        qid=ids[order],
        feature_names=data.feature_names,
        sort=True,
    )
    regrouped_report = report(
        model,
        other,
        baseline=model.predict(other, num_iteration=3),
        only=("verdict", "queries"),
        threads=1,
    )
    # The same numbers.
    assert regrouped_report.verdict is not None
    assert full_report.verdict is not None
    assert regrouped_report.queries is not None
    assert regrouped_report.verdict.headline.value == pytest.approx(
        full_report.verdict.headline.value, abs=1e-12
    )
    old = regrouped_report.verdict.baselines[0], full_report.verdict.baselines[0]
    assert old[0].standings["map"].value == pytest.approx(old[1].standings["map"].value, abs=1e-12)
    # Documents are named by their rows in the file.
    documents = regrouped_report.queries.worst[0].documents
    for document, label in zip(documents["document"], documents["label"], strict=True):
        row = int(document.removeprefix("row ")) - 1
        assert str(ids[order][row]) == regrouped_report.queries.worst[0].qid
        assert data.labels[order][row] == label


def test_a_part_that_cannot_be_had_leaves_the_others(
    model: RankingModel, data: RankingDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ModelError("the trees are away")

    monkeypatch.setattr("boostrank.reporting.section.Context.make_walker", refuse)
    partial_report = report(model, data, only=QUICK, threads=1)
    assert partial_report.missing == {"learning": "the trees are away"}
    assert partial_report.verdict is not None
    assert "Not available: the trees are away." in partial_report.to_html()
    assert partial_report.to_dict()["learning"] is None
    monkeypatch.setattr("boostrank.reporting.section.BoundMetrics", refuse)
    with pytest.raises(ModelError, match="the trees are away"):
        report(model, data, only=QUICK, threads=1)


def test_frames_tables_and_sections_have_their_names(full_report: Report) -> None:
    names = ["verdict", "importance", "shapes", "learning", "queries"]
    assert [section.name for section in full_report.sections] == names
    assert sorted([*names, "calibration", "clicks"]) == SECTIONS.modules() == SECTIONS.names()
    assert {"verdict", "importance", "prefixes", "queries", "parts"} <= set(full_report.frames)
    body = "".join(section.body for section in full_report.sections)
    assert all(
        f'<div class="table" id="{name}"' in body for name in ("metrics", "worst", "prefixes")
    )
    assert {"shape-1", "queries-values"} <= set(full_report.charts)
    assert full_report.to_dict()["missing"] == {}


def test_what_exceeds_training_noise_is_what_a_loss_must_exceed(
    model: RankingModel, data: RankingDataset
) -> None:
    small, large = [
        report(model, data, matters={"ndcg@10": matters}, only=["importance", "learning"])
        for matters in (0.02, 0.9)
    ]
    assert small.learning.negligible == small.importance.negligible == 0.02
    assert large.learning.negligible == large.importance.negligible == 0.9
    assert "unclear" in small.importance.verdicts
    assert "unclear" not in large.importance.verdicts


def test_unknown_sections_and_no_metrics_are_refused(
    model: RankingModel, data: RankingDataset
) -> None:
    with pytest.raises(ParameterError, match=r"'verdicts'.* 'verdict'"):
        report(model, data, only=("verdicts",))
    with pytest.raises(ParameterError, match="metrics"):
        report(model, data, ())


def test_names_that_order_tied_documents_are_asked_for_where_they_matter(
    model: RankingModel, data: RankingDataset, full_report: Report
) -> None:
    names = [f"D{i}" for i in range(data.n_documents)]
    named_data = replace(data, document_names=names)
    trec_report = report(model, named_data, "ndcg@10", conventions="trec", only=QUICK, threads=1)
    assert trec_report.missing == {}
    assert trec_report.verdict is not None
    assert trec_report.verdict.conventions.ties == "docno"
    assert trec_report.learning is not None
    with pytest.raises(ParameterError, match="pass docnos"):
        report(model, data, "ndcg@10", conventions="trec", only=QUICK, threads=1)


def test_features_on_disk_give_the_same(
    model: RankingModel, data: RankingDataset, full_report: Report, tmp_path: Path
) -> None:
    write_libsvm(tmp_path / "data.txt", data)
    stored = boostrank.stream(tmp_path / "data.txt", cache=tmp_path / "cache")
    assert stored.on_disk
    disk_report = report(model, stored, "ndcg@10", only=QUICK, threads=1)
    assert full_report.learning is not None
    assert disk_report.learning is not None
    np.testing.assert_allclose(
        disk_report.learning.prefixes["value"], full_report.learning.prefixes["value"], atol=1e-6
    )
    assert disk_report.queries is not None
    assert full_report.queries is not None
    assert len(disk_report.queries.worst) == len(full_report.queries.worst)


HALVES = '''
"""Halves: a section in one file."""

from boostrank.reporting.result import Result
from boostrank.reporting.section import Section
from boostrank.reporting.table import Column, Table


class Halves(Result):
    first: float

    def tables(self):
        return [Table("halves-table", {"first": [self.first]}, [Column("first", "half of it", "")])]


def variables(result):
    return {"table": result.table()}


def run(context):
    return Halves(context.results["verdict"].headline.value / 2.0)


SPEC = Section(
    "halves", "Halves", run, variables, position=15, after=("verdict",),
)
'''


@pytest.fixture
def halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new section: one file on the path of the package, and nothing else."""
    (tmp_path / "halves.py").write_text(HALVES)
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(tmp_path)])
    SECTIONS.__dict__.pop("_specs_by_name", None)
    yield tmp_path
    SECTIONS.__dict__.pop("_specs_by_name", None)
    sys.modules.pop("boostrank.reporting.sections.halves", None)


def test_a_new_section_is_one_new_file(
    model: RankingModel, data: RankingDataset, halves: Path
) -> None:
    full_report = report(model, data, only=("halves", "verdict"), threads=1)
    value = full_report.verdict.headline.value / 2.0
    assert full_report.halves.first == value
    assert full_report.to_dict()["halves"] == {"first": value, "halves-table": [{"first": value}]}
    assert full_report.frames["halves-table"]["first"].tolist() == [value]
    assert '<div class="table" id="halves-table"' in full_report.sections[1].body
    assert [section.name for section in full_report.sections] == ["verdict", "halves"]
    html = full_report.to_html()
    assert ">Halves</h2>" in html
    assert f'data-value="{value:.12g}"' in html
    assert report(model, data, only=("verdict",), threads=1).halves is None
    with pytest.raises(AttributeError, match=r"'Report' .*'clicked'"):
        _ = full_report.clicked


def test_the_command_line_offers_a_new_section(halves: Path) -> None:
    code = (
        "import sys, boostrank.reporting.sections as sections\n"
        f"sections.__path__.append({str(halves)!r})\n"
        "from boostrank.cli import main\n"
        "main(['report', '--help'])"
    )
    help_text = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "clicks|halves|importance" in "".join(help_text.split())


def test_a_report_can_be_copied(full_report: Report) -> None:
    assert copy.copy(full_report).verdict is full_report.verdict


def test_a_booster_without_names_and_data_that_number_theirs(
    data: RankingDataset, tmp_path: Path
) -> None:
    train = data.take(np.arange(40))
    params = {"objective": "lambdarank", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
    booster = lgb.train(
        params, lgb.Dataset(train.features, train.labels, group=train.queries.sizes), 3
    )
    booster.save_model(tmp_path / "plain.txt")
    numbered = replace(data, feature_names=tuple(f"f{i + 1}" for i in range(data.n_features)))
    numbered_report = report(
        tmp_path / "plain.txt", numbered, only=("importance", "shapes"), threads=1
    )
    assert numbered_report.missing == {}
    assert {curve.feature for curve in numbered_report.shapes.curves} <= set(numbered.feature_names)


def test_a_folder_is_no_page_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "model-report.html").mkdir()
    assert page_beside(str(tmp_path / "model.txt")) == str(tmp_path / "model-report.html")
