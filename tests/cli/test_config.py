"""`--config`: the file's values are defaults, the command line wins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, refuse, sidecar, succeed

CONFIG = """
quality = "plain"
objective = "shf-sdcg"
rounds = 3
num_leaves = 7
threads = 1
eval-at = [2, 4]
metric = ["ndcg", "map@3"]

[set]
sigma = "geometric(2,0.5)"
k = 5

[param]
min_data_in_leaf = 3
"""


def run(text: str, data: Path, tmp_path: Path, *arguments: object):  # type: ignore[no-untyped-def]
    (tmp_path / "run.toml").write_text(text)
    return invoke(
        "train",
        data / "train.txt",
        "-m",
        tmp_path / "m",
        "--config",
        tmp_path / "run.toml",
        *arguments,
    )


def test_a_file_says_what_the_command_line_could(data: Path, tmp_path: Path) -> None:
    result = run(CONFIG, data, tmp_path)
    assert result.exit_code == 0, result.stderr
    record = sidecar(tmp_path / "m")
    assert record["objective"]["name"] == "shf-sdcg"  # type: ignore[index]
    assert record["objective"]["params"]["sigma"] == "geometric(2, 0.5)"  # type: ignore[index]
    assert record["training"]["rounds"] == 3  # type: ignore[index]
    assert record["metrics"] == ["ndcg@2", "ndcg@4", "map@3"]
    assert "[min_data_in_leaf: 3]" in (tmp_path / "m").read_text()


def test_the_command_line_wins_and_tables_are_merged_name_by_name(
    data: Path, tmp_path: Path
) -> None:
    result = run(
        CONFIG, data, tmp_path, "--rounds", 2, "--set", "k=3", "--eval-at", "1", "--metric", "ndcg"
    )
    assert result.exit_code == 0, result.stderr
    record = sidecar(tmp_path / "m")
    assert record["training"]["rounds"] == 2  # type: ignore[index]
    assert record["objective"]["params"]["k"] == 3  # type: ignore[index]
    assert record["objective"]["params"]["sigma"] == "geometric(2, 0.5)"  # type: ignore[index]
    assert record["metrics"] == ["ndcg@1"]


def test_a_configuration_may_name_data_and_model(data: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        f"train = '{data / 'train.txt'}'\nvalid = '{data / 'valid.txt'}'\nmodel ="
        f" '{tmp_path / 'm'}'\nquality = 'plain'\nrounds = 2\nthreads = 1\n"
    )
    succeed("train", "--config", tmp_path / "run.toml")
    assert list(sidecar(tmp_path / "m")["evals_result"]) == ["valid"]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning-rat = 0.1", "unknown key 'learning-rat'. Did you mean 'learning-rate'?"),
        ("set = 3", "'set' must be a table, [set]"),
        ("[rounds]\nn = 3", "must be a value, not a table"),
        ("rounds = ", "not TOML"),
        ("rounds = " + "[" * 3000, "nested too deep"),
        ("rounds = 2026-01-01", "rounds: no option takes a date"),
        ('id = "a\\u0000b"', "id: no option takes a date, a time, the character NUL"),
        ("rounds = true", "rounds = True: no value for --rounds"),
        ("[param]\nmax_depth = true", "max_depth=True must be a whole number"),
        ("[param]\nlearning_rate = true", "learning_rate=True"),
        ("rounds = 'many'", "'many' is not a valid integer"),
        ("rounds = " + "1" * 5000, "not TOML: Exceeds the limit"),
        ("rounds = 0x" + "f" * 5000, "rounds: no option takes"),
        ("eval-at = [1, 0x" + "f" * 5000 + "]", "eval-at: no option takes"),
        (
            "[param]\nnum_leaves = 0x" + "f" * 5000,
            "integer of more than 64 bits",
        ),
        ("eval_at = 3\neval-at = 5", "'eval_at' and 'eval-at' are the same option"),
        ("[set]\nsigmod = 1", "Did you mean 'sigmoid'?"),
    ],
)
def test_a_mistake_in_the_file_is_refused(
    text: str, message: str, data: Path, tmp_path: Path
) -> None:
    result = run(text, data, tmp_path)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_fault_114_a_pipe_as_config_is_not_waited_for(data: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.toml")
    result = refuse(
        "train", data / "train.txt", "--model", tmp_path / "m", "--config", tmp_path / "run.toml"
    )
    assert "not an ordinary file" in result.stderr
