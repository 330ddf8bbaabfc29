"""TOML files of `--config`: any key with any value is used, or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from qa.fuzz.cases import NUMBERS, WORDS, damaged
from qa.fuzz.targets import command_lines

_KEYS = [
    "objective",
    "gain",
    "backend",
    "learning-rate",
    "num-leaves",
    "num_leaves",
    "seed",
    "threads",
    "metric",
    "eval-at",
    "conventions",
    "early-stopping",
    "valid",
    "model",
    "init-model",
    "start",
    "within-query",
    "of",
    "max-trees",
    "route",
    "memory-limit",
    "no-cache",
    "checkpoint",
    "checkpoint-every",
    "resume",
    "log",
    "json",
    "config",
    "x",
    "data",
    "help",
]
_SETTINGS = [
    "sigma",
    "k",
    "num_leaves",
    "max_leaves",
    "max_bin",
    "min_data_in_leaf",
    "seed",
    "verbosity",
    "lambda",
    "x",
]
_plain = st.sampled_from([*WORDS, *command_lines._HINTS, *command_lines._FILES]).map(
    lambda word: json.dumps(word.replace("\ud800", ""))
)
_bare = st.sampled_from(
    [*NUMBERS, "true", "false", "[]", "{}", "[1, 2]", '["a", 1]', "1979-05-27", "[[1]]", "{a=1}"]
)
_value = st.one_of(_plain, _bare)
_lines = st.tuples(st.sampled_from(_KEYS), _value).map(" = ".join)
_table = st.tuples(st.sampled_from(_SETTINGS), _value).map(" = ".join)


@st.composite
def _drawn(draw: Any) -> dict[str, Any]:
    lines = draw(st.lists(_lines, max_size=2))
    for name in draw(st.lists(st.sampled_from(["set", "param", "x"]), max_size=2, unique=True)):
        lines += [f"[{name}]", *draw(st.lists(_table, max_size=2))]
    body = "\n".join([*lines, ""]).encode()
    return {
        "command": "train",
        "body": draw(damaged(body)) if draw(st.integers(0, 4)) == 0 else body,
    }


cases = _drawn()


def check(command: str, body: bytes) -> None:
    Path("run.toml").write_bytes(body)
    command_lines.check([command, *command_lines.BASES[command], "--config", "run.toml"])
