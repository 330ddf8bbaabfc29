"""What goes wrong is one line on standard error and an exit status; nothing is read when that can
be known before.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click
import pytest

from boostrank.cli.errors import run_reporting_errors
from boostrank.core.errors import ModelError
from tests.cli.conftest import FEW, invoke, refuse, succeed


def test_an_exit_keeps_its_status() -> None:
    assert [run_reporting_errors(partial(sys.exit, code)) for code in (None, 0, 3, "words")] == [
        0,
        0,
        3,
        3,
    ]


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("noise", "study noise"), ("spilt", "data split"), ("tarin", "train")],
)
def test_commands_of_groups_are_suggested_by_their_last_word(name: str, suggestion: str) -> None:
    assert f"Did you mean '{suggestion}'?" in refuse(name).stderr


def _name_case(value: object) -> str | None:
    """A case is called by its arguments."""
    return " ".join(value) if isinstance(value, list) else None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--objectve", "sdcg"], "--objective"),
        (["--objective", "shf-scdg"], "Did you mean 'shf-sdcg'?"),
        (["--objective", "shf", "--set", "sgima=1"], "Did you mean 'sigma'?"),
        (["--set", "sigmoid=-1"], "out of range"),
        (["--set", "noise_draws=9"], "out of range"),
        (["--set", "sigma"], "not NAME=VALUE"),
        (["--param", "num_leavs=3"], "Did you mean 'num_leaves'?"),
        (["--param", "learning_rate=0.1", "--learning-rate", "0.2"], "given twice"),
        (["--param", "eta=0.1", "--learning-rate", "0.2"], "are the same parameter"),
        (["--objective", "lightgbm:lambdarank", "--set", "sigma=1"], "no parameter 'sigma'"),
        (["--metric", "ndgc"], "Did you mean 'ndcg'?"),
        (["--eval-at", "0"], "not a list"),
        (["--conventions", "lucene"], "'trec'"),
        (["--quality", "plain", "--early-stopping", "5"], "early stopping needs --valid"),
        (
            ["--quality", "plain", "--param", "early_stopping_round=5"],
            "early stopping needs --valid",
        ),
        (
            ["--param", "n_iter_no_change=5", "--early-stopping", "5"],
            "n_iter_no_change is given twice",
        ),
        (["--param", "gain=linear"], "use --gain"),
        (["--param", "objective=sdcg"], "use --objective"),
        (["--valid", "-", "--valid", "-"], "standard input can be read only once"),
        (["--rounds", "0"], "1<=x"),
        (["--learning-rate", "nan"], "'--learning-rate': 'nan' is not a finite number"),
        (["--max-bad-share", "nan"], "'--max-bad-share': 'nan'"),
        (["--valid", "no-such-file"], "no-such-file: no such file"),
        (["--eval-at", "1,a"], "'1,a' is not a list"),
        (["--quality", "plain", "--route", "external"], "--route external needs --backend xgboost"),
        (["--quality", "plain", "--cache", "there", "--route", "memory"], "--route memory"),
        (["--worker-timeout", "5"], "--worker-timeout is for --cluster"),
        (
            ["--quality", "plain", "--cluster", "local:1", "--log", "rounds.jsonl"],
            "--cluster and --log cannot",
        ),
        (
            [
                "--quality",
                "plain",
                "--cluster",
                "local:1",
                "--backend",
                "xgboost",
                "--feature-names",
                __file__,
            ],
            "--cluster and --feature-names cannot be used together",
        ),
        (["--quality", "plain", "--cluster", "local:0", "--backend", "xgboost"], "local:0"),
    ],
    ids=_name_case,
)
def test_a_mistaken_command_is_refused_before_the_data_are_read(
    arguments: list[str], message: str, data: Path, tmp_path: Path
) -> None:
    result = refuse("train", data / "train.txt", "-m", tmp_path / "m", *arguments)
    assert result.stdout == ""
    assert result.stderr.startswith("boostrank: error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["no-folder/model", "."])
def test_an_output_that_cannot_be_written_is_refused_before_the_data_are_read(
    output: str, data: Path, tmp_path: Path
) -> None:
    for command in (
        ["train", data / "train.txt", "-m"],
        ["predict", data / "train.txt", data / "train.txt", "-o"],
    ):
        result = refuse(*command, tmp_path / output)
        assert "cannot be written" in result.stderr
        assert "rows" not in result.stderr


def test_a_file_that_is_missing_or_a_folder_is_named(data: Path, tmp_path: Path) -> None:
    result = invoke("train", tmp_path / "no.txt", "-m", tmp_path / "m")
    assert (result.exit_code, result.stderr) == (
        2,
        f"boostrank: error: {tmp_path / 'no.txt'}: no such file\n",
    )
    result = invoke("predict", tmp_path, data / "test.txt")
    assert (result.exit_code, result.stderr) == (
        2,
        f"boostrank: error: {tmp_path}: the path is a folder, not a file\n",
    )


def test_a_bad_row_is_named_by_file_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("1 qid:1 1:2\n0 qid:1 1:x\n")
    result = refuse("train", tmp_path / "t.txt", "-m", tmp_path / "m", *FEW)
    assert result.stderr.startswith(f"boostrank: error: {tmp_path / 't.txt'}:2:")


def test_fault_071_data_that_teach_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("".join(f"1 qid:{i // 9} 1:{i}\n" for i in range(90)))
    result = refuse(
        "train",
        tmp_path / "t.txt",
        "-m",
        tmp_path / "m",
        "--objective",
        "sdcg",
        "--metric",
        "dcg",
        *FEW,
    )
    assert "nothing to learn" in result.stderr.splitlines()[-1]
    assert not (tmp_path / "m").exists()


def test_a_warning_is_one_line_and_comes_once(data: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text((data / "test.txt").read_text() + "\n\n1 qid:999999 1:1")
    result = succeed("evaluate", model, tmp_path / "t.txt")
    warnings = [
        line for line in result.stderr.splitlines() if line.startswith("boostrank: warning: ")
    ]
    assert len(warnings) == len(set(warnings))
    assert sum("blank" in line for line in warnings) == 1
    assert sum("no newline" in line for line in warnings) == 1
    assert "Warning" not in result.stderr.replace("boostrank: warning", "")


@pytest.mark.parametrize("switch", [["--debug"], []])
def test_the_traceback_is_shown_on_request(
    switch: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BOOSTRANK_DEBUG", raising=False)
    result = refuse(*switch, "objectives", "no-such-objective")
    assert ("Traceback" in result.stderr) == bool(switch)
    assert result.stderr.splitlines()[-1].startswith("boostrank: error: unknown objective")


@pytest.mark.parametrize(
    "argument", ["--eval-at=9223372036854775807", f"--rounds={10**400}", f"--eval-at={10**400}"]
)
def test_a_whole_number_that_is_too_large_is_refused_with_the_bound(
    argument: str, data: Path, tmp_path: Path
) -> None:
    result = refuse("train", data / "train.txt", "--model", tmp_path / "m", *FEW[:2], argument)
    assert argument[2:].partition("=")[0].replace("-", "_") in result.stderr.replace("-", "_")
    assert any(
        bound in result.stderr for bound in ("below 2^31", f"x<={2**31 - 1}", f"1 to {2**31 - 1}")
    )


@pytest.mark.parametrize(
    ("param", "more"),
    [
        ("num_leaves=x", ()),
        ("max_bin=-5", ()),
        ("verbosity=a", ()),
        ("max_leaves=-1", ("--backend", "xgboost")),
    ],
)
def test_fault_115_a_word_or_a_number_out_of_range_for_the_engine_is_refused_by_name(
    param: str, more: tuple[str, ...], data: Path, tmp_path: Path
) -> None:
    result = refuse(
        "train", data / "train.txt", "--model", tmp_path / "m", *FEW[:4], "--param", param, *more
    )
    assert f"{param.partition('=')[0]}=" in result.stderr
    assert "must be a whole number" in result.stderr


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (KeyboardInterrupt(), 130, "boostrank: stopped"),
        (MemoryError(), 3, "boostrank: error: out of memory"),
        (MemoryError("7 GB"), 3, "boostrank: error: out of memory: 7 GB"),
        (BrokenPipeError(), 0, ""),
        (
            OSError(28, "No space left on device", "a.txt"),
            3,
            "boostrank: error: a.txt: No space left on device",
        ),
        (OSError("odd"), 3, "boostrank: error: odd"),
        (ModelError("m.txt: bad"), 2, "boostrank: error: m.txt: bad"),
        (
            ValueError("\nfirst\nsecond"),
            3,
            "boostrank: error: ValueError: first (boostrank --debug ... shows where)",
        ),
        (click.ClickException("one"), 2, "boostrank: error: one"),
    ],
)
def test_every_exception_is_one_line_and_a_status(
    error: BaseException, status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        raise error

    assert run_reporting_errors(work) == status
    assert capsys.readouterr().err.strip() == words
