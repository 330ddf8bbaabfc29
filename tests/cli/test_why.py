"""`boostrank why`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import boostrank
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting import why
from tests.cli.conftest import refuse, succeed

from .conftest import invoke


@pytest.fixture(scope="module")
def named_file(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test file with a name for each document."""
    lines = (data / "test.txt").read_text().splitlines()
    path = tmp_path_factory.mktemp("named") / "named.txt"
    path.write_text(
        "".join(f"{line.partition('#')[0]} # docid = D{i}\n" for i, line in enumerate(lines, 1))
    )
    return path


@pytest.fixture(scope="module")
def qid(named_file: Path) -> str:
    """A query with some documents."""
    queries = boostrank.read(named_file).queries
    return str(queries.qid[int(np.argmax(queries.sizes))])


def test_tables_tell_the_two_apart(model: Path, named_file: Path, qid: str) -> None:
    result = succeed("why", model, named_file, qid, "@1", "@4", "--top", 3, "--threads", 1)
    explanation = why(
        RankingModel.load(model), boostrank.read(named_file, keep_names=True), qid, 1, 4
    )
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        f"query {qid}, {explanation.documents} documents: A is above B by"
        f" {explanation.difference:.6g}"
    )
    assert lines[2].split()[:3] == ["A", explanation.a.name, "1"]
    assert lines[3].split()[:3] == ["B", explanation.b.name, "4"]
    header = next(i for i, line in enumerate(lines) if line.split()[:1] == ["feature"])
    for row, line in zip(explanation.table().rows()[:3], lines[header + 1 :], strict=False):
        assert line.split()[0] == row["feature"]
        assert float(line.split()[-1]) == pytest.approx(row["part"], abs=1e-3)


def test_json_holds_everything(model: Path, named_file: Path, qid: str) -> None:
    result = invoke("why", model, named_file, qid, "@2", "@3", "--json", "--threads", 1)
    explanation = json.loads(result.stdout)
    assert (explanation["a"]["rank"], explanation["b"]["rank"]) == (2, 3)
    assert sum(f["part"] for f in explanation["features"]) == pytest.approx(
        explanation["difference"], abs=1e-9
    )
    again = invoke(
        "why",
        model,
        named_file,
        qid,
        explanation["a"]["name"],
        f"row:{explanation['b']['row'] + 1}",
        "--json",
    )
    assert json.loads(again.stdout) == explanation


def test_equal_documents_and_bare_files_are_told(model: Path, data: Path, tmp_path: Path) -> None:
    row = (data / "test.txt").read_text().splitlines()[0].partition("#")[0].split()
    lines = [" ".join([label, "qid:7", *row[2:]]) for label in ("1", "0")]
    (tmp_path / "two.txt").write_text("\n".join(lines) + "\n")
    result = succeed("why", model, tmp_path / "two.txt", 7, "@1", "@2")
    assert "A is above B by row order" in result.stdout
    assert "row 1" in result.stdout


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ("@1", "@1", "same document"),
        ("@1", "D0", "has no document 'D0'"),
        ("@1", "row:99999", "no document 'row:99999'"),
    ],
)
def test_unknown_and_equal_documents_are_refused(
    model: Path, named_file: Path, qid: str, a: str, b: str, words: str
) -> None:
    result = refuse("why", model, named_file, qid, a, b)
    assert words in result.stderr


def test_an_unknown_query_is_refused_with_those_there_are(
    model: Path, named_file: Path, qid: str
) -> None:
    result = refuse("why", model, named_file, f"{qid}x", "@1", "@2")
    assert f"no query '{qid}x'" in result.stderr
