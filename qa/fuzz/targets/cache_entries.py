"""Entries of the cache whose checksum is right and whose header is not: as if there were none, or
data that train.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import boostrank
from boostrank.files.store import _DIGEST
from qa.fuzz.cases import damaged, edited, may_refuse

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
    """The entries in a folder, without large files."""
    return sorted(path for path in folder.iterdir() if path.suffix != ".big")


def header_of(path: Path) -> Any:
    """The header of an entry."""
    return json.loads(path.read_bytes()[:-_DIGEST])


@st.composite
def _drawn(draw: Any) -> dict[str, Any]:
    entries = entries_in(good())
    number = draw(st.integers(0, len(entries) - 1))
    header = header_of(entries[number])
    fields = {key: value for key, value in header.items() if key != "key"}
    return {
        "place": number,
        "header": json.dumps(draw(edited(fields))),
        "body": draw(st.none() | damaged(entries[number].read_bytes()[:-_DIGEST])),
    }


cases = _drawn()


def check(place: int, header: str, body: bytes | None) -> None:
    folder = Path("hostile")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good(), folder)
    entries = entries_in(folder)
    path = entries[place % len(entries)]
    if body is None:
        body = json.dumps({"key": header_of(path)["key"], **json.loads(header)}).encode()
    path.write_bytes(body + hashlib.blake2b(body, digest_size=_DIGEST).digest())
    with may_refuse():
        train(folder)
