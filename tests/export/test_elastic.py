"""Elasticsearch's trained model: extractors of a user, templates, and what its ids and requests
cannot hold.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from boostrank.export.target import ExportError
from boostrank.export.targets import elastic
from boostrank.export.writing import export_model, read_feature_names
from tests.export.conftest import example

NAMES = ("bm25", "clicks", "age", "links", "shop", "colour")


def queries(body: bytes) -> dict[str, dict]:
    config = json.loads(body)["inference_config"]["learning_to_rank"]
    return {
        extractor["query_extractor"]["feature_name"]: extractor["query_extractor"]
        for extractor in config["feature_extractors"]
    }


def test_extractors_from_a_file_are_written_as_they_are(tmp_path: Path) -> None:
    extractors = [
        {
            "query_extractor": {
                "feature_name": name,
                "query": {"term": {"f": name}},
                "default_score": None,
            }
        }
        for name in NAMES
    ]
    (tmp_path / "extractors.json").write_text(
        json.dumps({"learning_to_rank": {"feature_extractors": extractors}})
    )
    names = read_feature_names(str(tmp_path / "extractors.json"))
    model = example("lightgbm-start-missing").model
    proof = export_model(model, tmp_path / "model.json", "elastic", feature_names=names)
    assert proof.same_bits
    written = queries((tmp_path / "model.json").read_bytes())
    assert written == {
        extractor["query_extractor"]["feature_name"]: extractor["query_extractor"]
        for extractor in extractors
    }


def test_without_extractors_each_feature_has_a_template_and_a_warning_says_so(
    tmp_path: Path,
) -> None:
    model = example("lightgbm-none-whole").model
    with pytest.warns(UserWarning, match=r"FIELD.*--feature-names"):
        export_model(model, tmp_path / "model.json", "elastic", feature_names=NAMES)
    written = queries((tmp_path / "model.json").read_bytes())
    used = {NAMES[i] for i in example("lightgbm-none-whole").served.trees.forest.used}
    assert written.keys() == used
    assert all(query["query"] == {"match": {"FIELD": "{{query}}"}} for query in written.values())


@pytest.mark.parametrize("name", ["Toy", "-toy", "toy_", "a b", "x" * 65])
def test_names_that_are_no_ids_are_refused(name: str) -> None:
    with pytest.raises(ExportError, match="--name"):
        elastic.write(replace(example("lightgbm-none-whole").served, name=name))
