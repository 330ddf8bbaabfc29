"""Every example of README and the documentation runs as written, with fewer rounds."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import boostrank
from tests.docs.examples import PAGES, ROOT, blocks, constant_lines, run_page, text_of

_RUN = ("python", "sh", "console")
_FIRST = ROOT / "docs" / "index.md"  # its example is README's
_WITH_EXAMPLES = [
    page
    for page in PAGES
    if page != _FIRST and any(block.language in _RUN for block in blocks(page))
]


@pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")  # the files are made up
@pytest.mark.parametrize("page", _WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(
    page: Path, folder: Path, request: pytest.FixtureRequest
) -> None:
    replaced: dict[str, str] = {}
    for model in (
        "few/good.txt",
        "shop/good.txt",
    ):  # the page about training has presets of many trainings
        replaced[f"--model {model}"] = f"--quality quick --model {model}"
    if page.name == "README.md":  # the page about reports has whole ones
        replaced["boostrank report"] = "boostrank report --only queries"
    if " 4864 @" in text_of(page):
        replaced[" 4864 @"] = f" {_longest_query(folder)} @"
    if page.name == "clusters.md":
        replaced |= {
            "/data/": f"{folder}/data/",
            "tcp://10.0.0.1:8786": request.getfixturevalue("scheduler"),
            # One training with processes of its own, which start for seconds, is enough.
            '"local:2", {': f'"dask:{request.getfixturevalue("scheduler")}", {{',
        }
    printed = run_page(page, replaced)
    if page.name in _OUTCOMES:
        _OUTCOMES[page.name](folder, printed)


def _of_readme(folder: Path, printed: str) -> None:
    page = blocks(ROOT / "README.md")
    output = next(
        after.text for block, after in itertools.pairwise(page) if block.language == "python"
    )
    assert blocks(_FIRST)[:2] == page[:2]
    first = printed.splitlines()[0]
    assert re.sub(r"\d", "0", first) == re.sub(r"\d", "0", output.strip())
    numbers = [
        [float(number) for number in re.findall(r"[+-]?0\.\d+", text)] for text in (first, output)
    ]
    # Other versions of the engine round differently.
    np.testing.assert_allclose(*numbers, atol=0.01)
    assert (folder / "model.txt").stat().st_mtime > (folder / "old.txt").stat().st_mtime
    assert (folder / "scores.txt").exists()


def _of_data(folder: Path, printed: str) -> None:
    assert "[shared-ids]" in printed
    assert {path.name for path in folder.glob("web-*.gz")} == {
        f"web-{p}.txt.gz" for p in ("train", "valid", "test")
    }
    assert len(list((folder / "shards").glob("web-*"))) == 16


def _of_judgements(folder: Path, printed: str) -> None:
    assert "score: equal" in printed
    assert "SKU-" in printed.partition("worst of")[2]  # of compare
    assert json.loads((folder / "solr.json").read_text())["name"] == "solr"
    for name, words in (
        ("scores.csv", "red running coat,SKU-23"),
        ("shop.html", "SKU-"),
        ("shop.csv", '"SKU-'),
    ):
        assert words in (folder / name).read_text()


def _of_hybrid_search(folder: Path, printed: str) -> None:
    pipeline = json.loads((folder / "pipeline.json").read_text())
    processor = pipeline["phase_results_processors"][0]["normalization-processor"]
    weights = processor["combination"]["parameters"]["weights"]
    assert weights == sorted(weights, reverse=True)  # as the noise grows
    assert sum(weights) == pytest.approx(1.0)
    retrievers = json.loads((folder / "search.json").read_text())["retriever"]["linear"]
    assert [part["weight"] for part in retrievers["retrievers"]] == weights
    assert printed.count("changes its rank") == 2
    assert "against rrf.txt" in printed


_OUTCOMES = {
    "README.md": _of_readme,
    "data.md": _of_data,
    "hybrid-search.md": _of_hybrid_search,
    "judgements.md": _of_judgements,
}


def _longest_query(folder: Path) -> str:
    queries = boostrank.read(str(folder / "demo/data/test.txt")).queries
    return str(queries.qid[int(np.argmax(queries.sizes))])


def test_every_block_says_what_it_is() -> None:
    languages = {*_RUN, "text", "toml", "json", "dockerfile"}
    strange = [
        (page.name, block.language)
        for page in PAGES
        for block in blocks(page)
        if block.language not in languages
    ]
    assert not strange


def test_lines_without_digits_are_what_must_come_out_again() -> None:
    assert constant_lines("ndcg@10 as each\n  metric   mean\n\n...\nleft out") == [
        "metric mean",
        "left out",
    ]


def test_the_script_for_data_frames_runs_with_polars(folder: Path) -> None:
    pytest.importorskip("polars", reason="polars is not installed: pip install 'boostrank[frames]'")
    page = ROOT / "docs/guide/frames.md"
    run_page(page, {})
    with_pandas = (folder / "shop.txt").read_text()
    run_page(page, {"import pandas as pd": "import polars as pd"})
    assert (folder / "shop.txt").read_text() == with_pandas
