"""Commands take data by position, several files of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import FEW, invoke, messages, refuse, succeed


@pytest.fixture(scope="module")
def halves(data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The test data in two files, cut between queries."""
    folder = tmp_path_factory.mktemp("halves")
    lines = (data / "test.txt").read_text().splitlines(keepends=True)
    qids = [line.split()[1] for line in lines]
    cut = next(i for i in range(len(lines) // 2, len(lines)) if qids[i] != qids[i - 1])
    paths = [folder / "a.txt", folder / "b.txt"]
    for path, part in zip(paths, (lines[:cut], lines[cut:]), strict=True):
        path.write_text("".join(part))
    return paths


@pytest.fixture(scope="module")
def other(data: Path) -> Path:
    path = data / "other.txt"
    succeed("train", data / "train.txt", "--model", path, *FEW, "--rounds", 2)
    return path


def commands(
    model: Path, other: Path, folder: Path
) -> dict[str, tuple[list[object], list[object]]]:
    """Command -> what stands before DATA, and after."""
    few: list[object] = ["--threads", 1]
    (folder / "logged").write_text("")
    return {
        "predict": ([model], few),
        "evaluate": ([model], few),
        "compare": ([model, other], [*few, "--json"]),
        "importance": ([model], [*few, "--json", "--repeats", 1]),
        "report": ([model], [*few, "--json", "--only", "queries"]),
        "why": ([model], [None, "@1", "@2", *few]),
        "verify": ([model], ["--against", folder / "scores", *few]),
        "export": ([model], ["--to", "python", "-o", folder / "model.py"]),
    }


def test_each_command_takes_several_files_by_position(
    model: Path, other: Path, data: Path, halves: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "scores").write_text(invoke("predict", model, data / "test.txt").stdout)
    qid = halves[0].read_text().split("qid:")[1].split()[0]
    for name, (before, behind) in commands(model, other, tmp_path).items():
        behind = [qid if word is None else word for word in behind]
        by_position = succeed(name, *before, *halves, *behind)
        whole = succeed(name, *before, data / "test.txt", *behind)
        assert numbers(whole.stdout, data / "test.txt") == numbers(by_position.stdout, halves[0]), (
            name
        )
        if name != "export":
            none = refuse(name, *before, *behind)
            assert "DATA" in none.stderr, name


def numbers(text: str, path: Path) -> str:
    """An output without what its files are called."""
    return text.replace(f"{path} and 1 more file", "DATA").replace(str(path), "DATA")


def test_scores_and_models_stand_before_the_data_of_evaluate(
    model: Path, other: Path, data: Path, halves: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "scores").write_text(invoke("predict", other, data / "test.txt").stdout)
    several = succeed("evaluate", model, tmp_path / "scores", other, *halves, "--json")
    evaluations = json.loads(several.stdout)
    assert list(evaluations) == [str(model), str(tmp_path / "scores"), str(other)]
    assert evaluations[str(tmp_path / "scores")] == evaluations[str(other)]
    (tmp_path / "one").write_text("0.5\n")  # scores of one row, and no data
    (tmp_path / "row").write_text("1 qid:1 1:0.5\n")
    assert (
        json.loads(invoke("evaluate", tmp_path / "one", tmp_path / "row", "--json").stdout)[
            "ndcg@1"
        ]["queries"]
        == 1
    )


def test_a_report_without_a_name_lies_beside_the_model(
    model: Path, data: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "my.model.txt"
    copy.write_bytes(model.read_bytes())
    page = tmp_path / "my.model-report.html"
    arguments = ("report", copy, data / "test.txt", "--only", "queries", "--threads", 1)
    for _ in range(2):  # the second replaces the first
        result = succeed(*arguments)
        assert messages(result)[-1] == f"{page}: written"
        assert page.read_text().startswith("<!DOCTYPE html>")
    page.write_text("somebody's own")
    result = refuse(*arguments)
    assert f"{page}: " in result.stderr
    assert "-o" in result.stderr
    assert page.read_text() == "somebody's own"


def test_a_dash_is_standard_output_or_refused(model: Path, data: Path, tmp_path: Path) -> None:
    test = data / "test.txt"
    assert invoke("predict", model, test, "-o", "-").stdout == invoke("predict", model, test).stdout
    for arguments in (
        ("train", test, "-m", "-"),
        ("train", test, "-m", tmp_path / "m", "--log", "-"),
        ("study", "average", model, "-m", "-"),
        ("tune", test, "-o", "-"),
        ("export", model, "--to", "python", "-o", "-"),
        ("report", model, test, "-o", "-"),
        ("compare", model, test, test, "-o", "-"),
    ):
        result = refuse(*arguments)
        assert "standard output" in result.stderr, arguments
