"""`boostrank report`: the page, its numbers, and what it says where there is little to say."""

from __future__ import annotations

import html
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from boostrank.metrics import evaluate
from tests.cli.conftest import refuse, succeed
from tests.model.real_models import lightgbm_models, xgboost_models

from .conftest import FEW, invoke

HOSTILE = "<img src=x onerror=alert(1)>&\"'\u202e"


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("noise") / "noise.json"
    path.write_text(json.dumps({"runs": 3, "metrics": {"ndcg@10": {"value": 0.5, "matters": 0.9}}}))
    return path


@pytest.fixture(scope="module")
def old(data: Path) -> Path:
    path = data / "older.txt"
    succeed("train", data / "train.txt", "--model", path, *FEW, "--rounds", 2, "--num-leaves", 4)
    return path


@pytest.fixture(scope="module")
def full_run(
    model: Path, old: Path, data: Path, noise: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """Everything in one run: the page, the JSON and the printed lines."""
    folder = tmp_path_factory.mktemp("out")
    (folder / "segments.csv").write_text(
        "qid,segment\n" + "".join(f"{q},{HOSTILE}\n" for q in range(1000))
    )
    result = succeed(
        "report",
        model,
        data / "test.txt",
        "-o",
        folder / "all.html",
        "--json",
        "--baseline",
        old,
        "--segments",
        folder / "segments.csv",
        "--noise",
        noise,
        "--threads",
        1,
    )
    return folder, json.loads(result.stdout), result.stderr


def test_the_numbers_are_those_of_evaluate(
    full_run: Any, model: Path, old: Path, data: Path
) -> None:
    _, printed, _ = full_run
    evaluated = json.loads(
        invoke("evaluate", model, old, data / "test.txt", "--json", "--metric", "ndcg@10").stdout
    )
    text = json.dumps(evaluated)
    rankings = {r["ranking"]: r for r in printed["verdict"]["verdict"] if r["metric"] == "ndcg@10"}
    assert list(rankings) == [
        "the model",
        str(old),
        "the best single feature",
        "random order",
        "the order of the file",
    ]
    for name in ("the model", str(old)):
        assert re.search(rf"{rankings[name]['value']:.10f}"[:10], text)
    assert printed["learning"]["prefixes"][-1]["value"] == pytest.approx(
        rankings["the model"]["value"]
    )
    assert printed["importance"]["value"] == pytest.approx(rankings["the model"]["value"])
    assert printed["learning"]["negligible"] == printed["importance"]["negligible"] == 0.9
    assert printed["missing"] == {}


def test_the_page_stands_alone_and_escapes_what_files_say(
    full_run: Any, model: Path, old: Path
) -> None:
    folder, _, log = full_run
    page = (folder / "all.html").read_text()
    assert len(page) < 5_000_000
    assert "default-src 'none'" in html.unescape(page)
    for name in ("Verdict", "Features", "Shapes", "Learning", "Queries"):
        assert f">{name}</h2>" in page
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror" in page
    assert re.search(r'src="|href="(?!#)', without_scripts(page)) is None
    assert "leads are grey" in page
    assert f"{folder / 'all.html'}: written" in log
    # The first line says how the model compares, within the noise of trainings.
    assert f"{model} is not significantly different from {old}: " in log
    assert re.search(r"It has [0-9]+ trees instead of [0-9]+\.", log)
    assert "differ by up to 0.9000 by chance" in page


def test_a_folder_is_no_page(model: Path, data: Path, tmp_path: Path) -> None:
    for folder in (f"{tmp_path}/", f"{tmp_path / 'new'}/", tmp_path):
        result = refuse("report", model, data / "test.txt", "-o", folder)
        assert f"{tmp_path}" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_a_file_of_the_engines_own_has_a_page(kind: str, tmp_path: Path) -> None:
    """Without a sidecar, and with categories or not: what cannot be had is said."""
    # A model that boostrank did not train, and rows for it.
    path = tmp_path / "theirs"
    content = (
        lightgbm_models()["lambdarank"].encode()
        if kind == "lightgbm"
        else xgboost_models()["pruned"]
    )
    path.write_bytes(content)
    lines = [
        f"{(i * 7) % 3} qid:{i // 8} " + " ".join(f"{j}:{(i * j) % 11}" for j in range(1, 7))
        for i in range(80)
    ]
    (tmp_path / "data.txt").write_text("\n".join(lines))
    succeed(
        "report",
        path,
        tmp_path / "data.txt",
        "-o",
        tmp_path / "page.html",
        "--zero-based",
        "false",
        "--threads",
        1,
        "--metric",
        "map",
    )
    # The page says what it lacks.
    page = (tmp_path / "page.html").read_text()
    assert "no record of its training" in page


def without_scripts(page: str) -> str:
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


LITTLE = {
    "one document": "1 qid:1 1:0.5\n",
    "one query": "1 qid:1 1:0.5 2:1\n0 qid:1 1:0.25 2:1\n2 qid:1 2:1\n",
    "labels of one grade": "".join(f"1 qid:{i // 3} 1:{i}\n" for i in range(30)),
    "features that are constant or absent": "".join(
        f"{i % 2} qid:{i // 3} 3:1\n" for i in range(30)
    ),
}


@pytest.mark.parametrize("what", LITTLE)
def test_little_data_has_a_page_too(what: str, model: Path, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text(LITTLE[what])
    succeed("report", model, tmp_path / "data.txt", "-o", tmp_path / "page.html", "--threads", 1)
    page = (tmp_path / "page.html").read_text()
    assert ">Verdict</h2>" in page
    assert not re.search(r"\bnan\b", without_scripts(page), re.IGNORECASE)


def test_without_a_relevant_document_it_says_so_where_nothing_can_be_told(
    model: Path, tmp_path: Path
) -> None:
    (tmp_path / "data.txt").write_text("".join(f"0 qid:{i // 3} 1:{i}\n" for i in range(30)))
    result = succeed(
        "report", model, tmp_path / "data.txt", "-o", tmp_path / "page.html", "--threads", 1
    )
    assert "no verdict: ndcg@" in result.stderr
    assert "none of the 10 queries is included" in (tmp_path / "page.html").read_text()


def test_wrong_options_of_report_are_refused_before_a_file_is_read(
    model: Path, data: Path, tmp_path: Path
) -> None:
    test = data / "test.txt"
    for arguments, words in (
        (("-o", "-"), "standard output"),
        (("-o", tmp_path / "no" / "page.html"), "does not exist"),
        (("-o", test), "would be overwritten"),
        (("-o", model), "would be overwritten"),
        (("--json", "--metric", "ndgc"), "unknown metric"),
        (("--json", "--noise", test), "not written by boostrank"),
        (("--json", "--baseline", model), "--baseline"),
    ):
        result = refuse("report", model, test, *arguments)
        assert words in result.stderr
        assert "rows," not in result.stderr  # nothing was read


def test_a_file_of_noise_is_read_as_it_is_written(noise: Path, tmp_path: Path) -> None:
    from boostrank.core.errors import FileFormatError
    from boostrank.reporting.section import read_matters

    assert read_matters(str(noise)) == {"ndcg@10": 0.9}
    for text in (
        "",
        "[]",
        "{}",
        '{"metrics": {}}',
        '{"metrics": {"a": {"matters": -1}}}',
        '{"metrics": {"a": 3}}',
    ):
        (tmp_path / "bad").write_text(text)
        with pytest.raises(FileFormatError, match="bad"):
            read_matters(str(tmp_path / "bad"))


def test_the_api_gives_what_the_page_shows(model: Path, data: Path) -> None:
    from boostrank.files.assemble import read_files as read_libsvm
    from boostrank.model.ranking_model import RankingModel
    from boostrank.reporting import report

    ranker = RankingModel.load(model)
    test = read_libsvm(data / "test.txt")
    model_report = report(ranker, test, "ndcg@5", only=("verdict", "queries"), threads=1)
    result = evaluate("ndcg@5", test.labels, ranker.predict(test), test.queries)["ndcg@5"]
    assert model_report.verdict is not None
    assert model_report.verdict.headline.value == result.mean
    assert model_report.learning is None
    assert set(model_report.frames) == {"verdict", "queries", "parts"}
    assert model_report.charts["queries-values"].frame["queries"].sum() == result.queries


def test_the_command_measures_what_the_function_does() -> None:
    from boostrank.reporting import report
    from boostrank.reporting.sections import METRICS

    assert inspect.signature(report).parameters["metrics"].default == METRICS


def test_sections_are_chosen_and_left_out(model: Path, data: Path) -> None:
    for arguments, there in ((("--only", "verdict"), {"verdict"}),):
        result = succeed("report", model, data / "test.txt", "--json", "--threads", 1, *arguments)
        printed = json.loads(result.stdout)
        assert {
            name
            for name in ("verdict", "importance", "shapes", "learning", "queries")
            if printed[name]
        } == there
    result = refuse("report", model, data / "test.txt", "--json", "--only", "verdicts")
    assert "'verdicts'" in result.stderr
    assert all(
        f"'{name}'" in result.stderr
        for name in ("clicks", "importance", "learning", "queries", "verdict")
    )
