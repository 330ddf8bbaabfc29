"""Model cards: the fields that Hugging Face reads, the report's numbers, and hostile names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import boostrank
from boostrank.core.errors import ParameterError
from boostrank.data.synthetic import make_ranking_data
from boostrank.files.writer import write_libsvm
from tests.cli.conftest import refuse, succeed

PARAMS = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}


def test_a_card_holds_the_record_and_the_metrics(tmp_path: Path) -> None:
    data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
    model = boostrank.train(PARAMS, data, 3)
    report = boostrank.report(
        model, data, ["ndcg@5", "map"], only=["verdict"], threads=1, name="a|b\n# c`<b>"
    )
    card = report.card("mit")
    content = json.loads(json.dumps(card.content))
    assert content == card.content
    assert content["license"] == "mit"
    assert content["objective"]["name"] == "listnet"
    assert content["data"]["rows"] == data.n_documents
    assert content["features"] == list(model.feature_names)
    ndcg = report.verdict.model.standings["ndcg@5"]
    measured = {row["metric"]: row for row in content["metrics"]}
    assert (measured["ndcg@5"]["low"], measured["ndcg@5"]["high"]) == (ndcg.low, ndcg.high)
    # As Markdown with a header; the name of the data breaks neither.
    card.save(tmp_path / "card.md")
    _, header, body = (tmp_path / "card.md").read_text().split("---\n", 2)
    fields = yaml.safe_load(header)
    assert (fields["license"], fields["library_name"]) == ("mit", "boostrank")
    (result,) = fields["model-index"][0]["results"]
    assert {"type": "ndcg@5", "value": ndcg.value, "name": "ndcg@5"} in result["metrics"]
    assert f"| ndcg@5 | {ndcg.value:.4f} | {ndcg.low:.4f} | {ndcg.high:.4f} |" in body
    assert "<b>" not in body
    assert [line for line in body.splitlines() if line.startswith("# ")] == [
        line for line in body.splitlines() if line.startswith("# a")
    ]


@pytest.mark.parametrize("name", ["\N{GRINNING FACE} \u00fc.txt", "a\u2028b\x7f", "C:\\m'.txt"])
def test_any_name_is_read_from_the_header(name: str) -> None:
    data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
    model = boostrank.train(PARAMS, data, 3)
    report = boostrank.report(model, data, only=["verdict"], threads=1, name=name)
    header = report.card(name).to_markdown().split("---\n")[1]
    fields = yaml.safe_load(header)
    assert (fields["license"], fields["model-index"][0]["name"]) == (
        name,
        report.card().content["name"],
    )


def test_a_card_needs_metrics_and_an_ending(tmp_path: Path) -> None:
    data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
    report = boostrank.report(boostrank.train(PARAMS, data, 3), data, only=["queries"], threads=1)
    with pytest.raises(ParameterError):
        report.card()
    card = boostrank.report(
        boostrank.train(PARAMS, data, 3), data, only=["verdict"], threads=1
    ).card()
    with pytest.raises(ParameterError):
        card.save(tmp_path / "card.json")


def test_the_command_writes_a_card(tmp_path: Path) -> None:
    data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
    boostrank.train(PARAMS, data, 3).save(tmp_path / "m.txt")
    write_libsvm(tmp_path / "test.txt", data)
    card = tmp_path / "card.md"
    arguments = ["report", tmp_path / "m.txt", tmp_path / "test.txt", "--only", "verdict"]
    succeed(*arguments, "--card", card, "--license", "apache-2.0")
    assert yaml.safe_load(card.read_text().split("---\n")[1])["license"] == "apache-2.0"
    assert not (tmp_path / "m-report.html").exists()
    refuse(*arguments, "--card", tmp_path / "m.txt")
    refuse(*arguments, "--card", tmp_path / "card.json")
    refuse(*arguments, "--license", "mit")
