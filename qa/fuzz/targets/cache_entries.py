"""Entries of the cache that are damaged: as if there were none."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import boostrank
from qa.fuzz.cases import damaged, may_refuse

PARAMS = {
    "objective": "sdcg",
    "num_leaves": 3,
    "verbosity": -1,
    "num_threads": 1,
    "min_data_in_leaf": 2,
}
TEXT = "".join(f"{i % 3} qid:{i // 10} 1:{i % 7} 2:{i}.5 3:{i % 5}\n" for i in range(60))


def train(folder: Path) -> None:
    """One round from streamed data."""
    data = boostrank.stream(Path("data.txt"), cache=folder, threads=1)
    boostrank.train(PARAMS, data, num_boost_round=1).predict(data, threads=1)


@cache
def good() -> Path:
    """A folder with the entries of one training."""
    Path("data.txt").write_text(TEXT)
    train(Path("good"))
    return Path("good")


def entries_in(folder: Path) -> list[Path]:
    """The entries in a folder."""
    return sorted(folder.iterdir())


@st.composite
def _drawn(draw: Any) -> dict[str, Any]:
    entries = entries_in(good())
    number = draw(st.integers(0, len(entries) - 1))
    return {"place": number, "body": draw(damaged(entries[number].read_bytes()))}


cases = _drawn()


def check(place: int, body: bytes) -> None:
    folder = Path("hostile")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good(), folder)
    entries = entries_in(folder)
    entries[place % len(entries)].write_bytes(body)
    with may_refuse():
        train(folder)
