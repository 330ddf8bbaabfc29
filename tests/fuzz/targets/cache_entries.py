"""Entries of the cache whose checksum is right and whose header is not: as if there were none, or data that train."""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import boostrank
from boostrank.files.store import _DIGEST, _LENGTH, _MAGIC
from tests.fuzz.cases import damaged, edited, may_refuse

PARAMS = {"objective": "sdcg", "num_leaves": 3, "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 2}
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


@st.composite
def _drawn(draw: Any) -> dict[str, Any]:
    names = sorted(path.name for path in good().iterdir())
    entries = [name for name in names if (good() / name).read_bytes().startswith(_MAGIC)]
    place = draw(st.integers(0, len(entries) - 1))
    body = (good() / entries[place]).read_bytes()[:-_DIGEST]
    at = len(_MAGIC) + _LENGTH.size
    (length,) = _LENGTH.unpack(body[len(_MAGIC) : at])
    header = json.loads(body[at : at + length])
    rest = {key: value for key, value in header.items() if key != "key"}
    return {
        "place": place,
        "header": json.dumps(draw(edited(rest))),
        "contents": draw(damaged(body[at + length :])),
        "length": draw(st.sampled_from([0, 0, 0, 1, -1, 2**40])),
    }


cases = _drawn()


def check(place: int, header: str, contents: bytes, length: int) -> None:
    folder = Path("hostile")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good(), folder)
    entries = sorted(path for path in folder.iterdir() if path.read_bytes().startswith(_MAGIC))
    at = len(_MAGIC) + _LENGTH.size
    old = entries[place % len(entries)].read_bytes()
    (old_length,) = _LENGTH.unpack(old[len(_MAGIC) : at])
    text = json.dumps({"key": json.loads(old[at : at + old_length])["key"], **json.loads(header)}).encode()
    body = _MAGIC + _LENGTH.pack(len(text) + length) + text + contents
    entries[place % len(entries)].write_bytes(body + hashlib.blake2b(body, digest_size=_DIGEST).digest())
    with may_refuse():
        train(folder)
