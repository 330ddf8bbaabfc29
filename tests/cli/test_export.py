"""`boostrank export`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from boostrank import RankingDataset, train
from tests.cli.conftest import FEW, invoke, messages, refuse, succeed

pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


def test_a_model_is_written_with_its_proof(data: Path, model: Path, tmp_path: Path) -> None:
    result = succeed(
        "export", model, "--to", "solr", "-o", tmp_path / "solr.json", data / "test.txt"
    )
    written, proved, moved, *how = result.stdout.splitlines()
    assert written.startswith(f"{tmp_path}/solr.json: for Solr 9.2 or later, ")
    assert "rows, both sides of all " in proved
    assert "none of 154 documents changes its rank" in moved
    assert [line.split(":")[0] for line in how] == ["features", "upload", "query"]
    assert json.loads((tmp_path / "solr.json").read_text())["name"] == "solr"


def test_names_come_from_a_file(model: Path, tmp_path: Path) -> None:
    succeed("export", model, "--to", "vespa", "-o", tmp_path / "m.json")
    (tmp_path / "names").write_text("".join(f"attribute(a{i})\n" for i in range(200)))
    result = refuse(
        "export",
        model,
        "--to",
        "vespa",
        "-o",
        tmp_path / "m.json",
        "--feature-names",
        tmp_path / "names",
    )
    assert "200 feature names" in result.stderr
    n = int(result.stderr.split("feature names for ")[1].split()[0])
    (tmp_path / "names").write_text("".join(f"attribute(a{i})\n" for i in range(n)))
    result = succeed(
        "export",
        model,
        "--to",
        "vespa",
        "-o",
        tmp_path / "m.json",
        "--feature-names",
        tmp_path / "names",
    )
    assert "attribute(a" in (tmp_path / "m.json").read_text()


def test_an_export_with_other_scores_is_refused_unless_allow_names_the_kind(
    model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "m.json"
    refused = refuse("export", model, "--to", "opensearch-2", "-o", path)
    assert "of kind 'missing'" in refused.stderr
    assert "`--allow missing`" in refused.stderr
    assert not path.exists()
    allowed = succeed("export", model, "--to", "opensearch-2", "-o", path, "--allow", "missing")
    assert any(
        line.startswith("missing: ") and "have different scores" in line
        for line in messages(allowed)
    )
    assert "splits: except for missing rows, the same bits" in allowed.stdout
    assert path.exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--to", "solr"], "-o"),
        (["--to", "slor", "-o", "out"], "unknown target 'slor'. Did you mean 'solr'"),
        (["--to", "solr", "-o", "no/such/folder/x"], "no/such/folder"),
        (["--to", "solr", "-o", "{model}"], "is read by this command"),
    ],
)
def test_wrong_targets_and_output_paths_are_refused(
    model: Path, arguments: list[str], reason: str
) -> None:
    result = refuse(
        "export", model, *(argument.replace("{model}", str(model)) for argument in arguments)
    )
    assert reason in result.stderr


def test_help_lists_the_targets(model: Path) -> None:
    from boostrank.export import TARGETS

    text = invoke("export", "--help").stdout
    assert all(f"  {name} " in text for name in TARGETS.names())


def test_a_model_with_a_start_is_exported(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "auto.txt"
    succeed("train", data / "train.txt", "--model", path, *FEW)
    result = succeed(
        "export", path, "--to", "elasticsearch", "-o", tmp_path / "m.json", data / "test.txt"
    )
    assert "none of 154 documents changes its rank" in result.stdout


def test_codes_of_categories_are_said(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars", reason="frames of polars")
    rows = {
        "shop": ["a", "b", "c", "a"] * 25,
        "label": [0, 1, 0, 1] * 25,
        "qid": sorted([*range(10)] * 10),
    }
    params = {"objective": "lambdarank", "metric": "none", "min_data_in_leaf": 5, "verbosity": -1}
    # The second model has a categorical feature that no tree uses, because it is constant.
    for shops, splits in ((rows["shop"], True), (["a"] * 100, False)):
        frame = pl.DataFrame(rows | {"shop": shops, "price": rows["label"]})
        if splits:
            frame = frame.drop("price")
        data = RankingDataset.from_frame(frame, categorical_feature=["shop"])
        train(params, data, 1, start="none").save(tmp_path / "m.txt")
        result = succeed("export", tmp_path / "m.txt", "--to", "python", "-o", tmp_path / "m.py")
        assert (f"{tmp_path}/m.txt.meta.json" in result.stderr) is splits
        assert "not codes" not in result.stderr  # about the rows of the check


def table(path: Path) -> Path:
    rows = [
        f"{q},{i % 3},{'' if i == 4 else i},{'abc'[i % 3]},{q + i}"
        for q in range(30)
        for i in range(5)
    ]
    path.write_text("qid,label,price,colour,title match\n" + "\n".join(rows) + "\n")
    return path


CATEGORICAL, DROP = ("--categorical", "colour"), ("--drop", "colour")


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("solr", CATEGORICAL, "--drop colour"),
        ("vespa", CATEGORICAL, "'colour'"),
        ("es", CATEGORICAL, "'colour'"),
        ("onnx", (*DROP, "--within-query", "rank"), "--within-query"),
        ("lightgbm", (*DROP, "--backend", "xgboost"), "--backend lightgbm"),
        ("c", (*DROP, "--backend", "linear"), "--backend lightgbm"),
        ("sorl", DROP, "solr"),
    ],
)
def test_what_a_target_cannot_hold_is_refused_before_training(
    target: str, options: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    data = table(tmp_path / "t.csv")
    result = refuse("train", data, *options, *FEW, "--for", target, "-m", tmp_path / "m.txt")
    assert words in result.stderr
    assert "round 1" not in result.stderr
    assert not (tmp_path / "m.txt").exists()


@pytest.mark.parametrize(
    ("target", "words", "options"),
    [
        ("opensearch-2", "--fill", ("--fill", "median")),
        ("sql", "--max-trees 900", ("--max-trees", 900)),
    ],
)
def test_training_for_a_target_names_the_option_that_makes_the_export_possible(
    target: str, words: str, options: tuple[object, ...], tmp_path: Path
) -> None:
    data = table(tmp_path / "t.csv")
    rounds = ("--rounds", 1000, "--learning-rate", "1e-9") if target == "sql" else ("--rounds", 2)
    command = ("train", data, *DROP, *FEW, *rounds, "--for", target, "-m", tmp_path / "m.txt")
    limit = ("--max-trees", 1000) if target == "sql" else ()
    result = refuse(*command, *limit)
    assert any(f"--for {target}: " in line and words in line for line in messages(result))
    succeed(*command, *options)
    written = tmp_path / "there"
    succeed("export", tmp_path / "m.txt", "--to", target, "-o", written)


def test_names_that_the_export_can_change_are_a_warning(tmp_path: Path) -> None:
    data = table(tmp_path / "t.csv")
    result = succeed("train", data, *DROP, *FEW, "--for", "vespa", "-m", tmp_path / "m.txt")
    assert any("--for vespa: " in line and "--feature-names" in line for line in messages(result))


def test_training_for_a_target_that_takes_the_model_prints_no_warning(tmp_path: Path) -> None:
    data = table(tmp_path / "t.csv")
    result = succeed("train", data, *CATEGORICAL, *FEW, "--for", "onnx", "-m", tmp_path / "m.txt")
    assert "--for" not in result.stderr


def test_the_doctor_knows_the_target(tmp_path: Path) -> None:
    data = table(tmp_path / "t.csv")
    result = invoke("doctor", data, *CATEGORICAL, "--for", "opensearch-2", "--json")
    severities = {finding["check"]: finding["severity"] for finding in json.loads(result.stdout)}
    assert severities.items() >= {"target-categories": "error", "target-missing": "error"}.items()
    assert result.exit_code == 2
    result = invoke("doctor", data, *DROP, "--for", "vespa", "--json")
    assert [
        finding["check"] for finding in json.loads(result.stdout) if "target" in finding["check"]
    ] == ["target-names"]
    refuse("doctor", data, "--for", "sorl")


@pytest.mark.parametrize(
    ("target", "advice"), [("solr", "--drop colour"), ("onnx", "--categorical colour")]
)
def test_the_advice_on_text_depends_on_what_the_target_holds(
    target: str, advice: str, tmp_path: Path
) -> None:
    data = table(tmp_path / "t.csv")
    assert advice in invoke("doctor", data, "--for", target).stdout
    assert advice in invoke("train", data, *FEW, "--for", target, "-m", tmp_path / "m.txt").stderr
