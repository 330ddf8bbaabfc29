"""Command lines: words that trip parsers end in exit status 0 to 3, with one line for an error and
no traceback.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.testing import CliRunner
from hypothesis import strategies as st

from boostrank.cli import commands, main
from qa.fuzz.cases import WORDS as ANY_WORDS
from qa.fuzz.cases import PromiseBroken

WORDS = [
    word for word in ANY_WORDS if not {"\0", "\ud800"} & {*word}
]  # which no command line can hold
FEW = [
    "--quality",
    "plain",
    "--rounds",
    "2",
    "--start",
    "none",
    "--threads",
    "1",
    "--num-leaves",
    "3",
]
BASES = {
    "train": ["train.txt", "--model", "out.txt", *FEW],
    "study average": ["model.txt", "model.txt", "--model", "out.txt"],
    "export": ["model.txt", "train.txt", "--to", "lightgbm", "-o", "out.txt"],
    "predict": ["model.txt", "train.txt"],
    "calibrate": ["model.txt", "train.txt", "-o", "out.txt"],
    "evaluate": ["model.txt", "train.txt"],
    "compare": ["model.txt", "scores.txt", "train.txt"],
    "why": ["model.txt", "train.txt", "1", "1", "2"],
    "importance": ["model.txt", "train.txt"],
    "objectives": [],
    "doctor": ["train.txt"],
    "data split": ["train.txt", "--parts", "0.5,0.5", "-o", "a.txt", "-o", "b.txt"],
    "data sample": ["train.txt", "--queries", "2", "-o", "out.txt"],
    "data shard": ["train.txt", "--parts", "2", "-o", "part-{}.txt"],
    "data sort": ["train.txt", "-o", "out.txt"],
    "data make": ["made", "--queries", "3"],
    "verify": ["model.txt", "train.txt", "--logged", "scores.txt"],
}
_LONG = {"--check", "--cluster", "--quality", "--candidates", "--time", "--template"}
_WORK = (
    "rounds",
    "queries",
    "folds",
    "shards",
    "trials",
    "repeats",
    "length",
    "seeds",
    "samples",
    "draws",
    "top",
    "early",
)
_FILES = [
    "train.txt",
    "model.txt",
    "scores.txt",
    "nowhere.txt",
    "empty.txt",
    ".",
    "/dev/null",
    "nowhere/out.txt",
    "-",
]
_HINTS = [
    "ndcg@10",
    "map",
    "ndcg@0",
    "ndcg@99999999999999999999",
    "sigma=0.5",
    "sigma=x",
    "sigma=geometric(64,1)",
    "sigma=",
    "num_leaves=x",
    "max_leaves=-1",
    "max_bin=-5",
    "max_bin=99999999999",
    "min_data_in_leaf=nan",
    "learning_rate=-1",
    "label",
    "1,3,5",
    "0",
    "1e9",
    "2h",
    "exponential",
    "0,1,3",
    "1/0",
    "label**99",
    "lightgbm",
    "xgboost",
    "linear",
    "mix(sdcg, regression)",
    "mix(",
    "sdcg",
    "regression",
    "lightgbm:lambdarank",
    "lightgbm:x",
    "x:y",
    "rank",
    "2-3",
    "#1",
]


@cache
def make_files() -> None:
    """Data, a model and scores in this folder."""
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.integers(0, 3)} qid:{1 + i // 8} 1:{rng.random():.3f} 2:{i % 5}"
        f" 3:{rng.random():.2f}\n"
        for i in range(48)
    ]
    Path("train.txt").write_text("".join(rows))
    Path("scores.txt").write_text("".join(f"{i % 7}.5\n" for i in range(48)))
    Path("empty.txt").write_text("")
    result = CliRunner().invoke(main, ["train", "train.txt", "--model", "model.txt", *FEW])
    assert result.exit_code == 0, result.output


@cache
def options_of(name: str) -> list[click.Option]:
    """What the command may be given."""
    command = commands()[name]
    return [
        parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and not {*parameter.opts} & _LONG
    ]


@st.composite
def _drawn(draw: Any) -> dict[str, Any]:
    name = draw(st.sampled_from([*BASES, "train", "train"]))
    arguments = list(BASES[name])
    for _ in range(draw(st.integers(1, 3))):
        option = draw(
            st.sampled_from(options_of(name) or [click.Option(["--debug"], is_flag=True)])
        )
        flag = draw(st.sampled_from(option.opts))
        arguments += [flag] if option.is_flag else [flag, draw(_value(option))]
    if draw(st.integers(0, 4)) == 0 and arguments:
        at = draw(st.integers(0, len(arguments) - 1))
        arguments[at] = draw(st.sampled_from([*WORDS, *_FILES]))
    if name == "data make":
        arguments += ["--queries", "3"]
    return {"arguments": [*name.split(), *arguments]}


def _value(option: click.Option) -> st.SearchStrategy[str]:
    choices = list(option.type.choices) if isinstance(option.type, click.Choice) else []
    words = WORDS
    if any(
        word in flag for flag in option.opts for word in _WORK
    ):  # what takes its time, as it was asked to
        words = [word for word in WORDS if not word.strip("+").isdigit() or int(word) < 10]
    return st.sampled_from([*words, *_HINTS, *choices, *choices, *_FILES])


cases = _drawn()


def check(arguments: list[str]) -> None:
    make_files()
    result = CliRunner().invoke(main, arguments)
    for path in Path(".").iterdir():
        if path.is_file() and path.name not in (
            "train.txt",
            "model.txt",
            "model.txt.meta.json",
            "scores.txt",
            "empty.txt",
        ):
            path.unlink()
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        raise error
    if result.exit_code not in (0, 1, 2, 3):
        raise PromiseBroken(f"exit status {result.exit_code}")
    broken = [
        line
        for line in result.stderr.splitlines()
        if "--debug ... shows where" in line or "Traceback" in line
    ]
    if broken:
        raise PromiseBroken(f"{arguments[0]}: {broken[0]}")
