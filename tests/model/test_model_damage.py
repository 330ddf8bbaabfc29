"""A damaged model file gives a clean error, or loads and is used without killing the process (fault
85).

A larger sweep is a matter of two numbers: `BOOSTRANK_FLIPS=20000` for damage without a sidecar.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from boostrank.core.errors import ModelError
from boostrank.engines import format_of, parse_model
from boostrank.model.files import read_model_files, sidecar_path, write_model_files
from tests.model.real_models import lightgbm_models, xgboost_models

FLIPS = int(os.environ.get("BOOSTRANK_FLIPS", "600"))
WORKER = Path(__file__).with_name("load_models.py")
HOSTILE_WORDS = [
    "",
    " ",
    "x",
    "-",
    "+1",
    ".",
    "1e",
    "0x10",
    "nan",
    "-inf",
    "1e400",
    "1e-310",
    "4.9e-324",
    "1e-5000",
    "9" * 30,
    "00000000001",
    "2147483648",
    "-2147483649",
]
HOSTILE_JSON = [None, True, [], {}, -1, 2**31, -(2**63), 2**64, 1e308, 1e-310, 5e-324, 0.5]
TELLING = (  # characters that mean something in one of the formats
    b'0123456789-+.eE =:[]{}",\n\r\0 nif\xff'
)


def real_bodies(engine: str) -> list[bytes]:
    models = lightgbm_models() if engine == "lightgbm" else xgboost_models()
    bodies = [m.encode() if isinstance(m, str) else m for m in models.values()]
    return sorted(bodies, key=len)[:-1]  # without the largest


def damaged(body: bytes, rng: random.Random) -> bytes:
    """A bit flipped, a byte replaced, bytes lost or repeated; mostly before the parameters, where
    it matters.
    """
    end = body.find(b"end of trees")
    position = rng.randrange(end) if end > 0 and rng.random() < 0.8 else rng.randrange(len(body))
    out = bytearray(body)
    match rng.randrange(6):
        case 0 | 1:
            out[position] ^= 1 << rng.randrange(8)
        case 2 | 3:
            out[position] = rng.choice(TELLING)
        case 4:
            del out[position : position + rng.choice([1, 1, 2, 20])]
        case 5:
            out[position:position] = out[position : position + rng.choice([1, 1, 2, 20])]
    return bytes(out)


def is_refused(body: bytes) -> bool:
    try:
        parse_model(body)
    except ModelError:
        return True
    return False


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_fault_085_damage_without_a_sidecar_is_refused_or_harmless(
    engine: str, tmp_path: Path
) -> None:
    rng = random.Random(85)
    bodies = real_bodies(engine)
    tried = [damaged(rng.choice(bodies), rng) for _ in range(FLIPS)]
    accepted = [body for body in tried if not is_refused(body)]
    assert 0.5 * FLIPS < FLIPS - len(accepted) < FLIPS, (
        "some damage is found, some is not: a digit of a threshold"
    )

    for body in accepted:
        form = format_of(body)
        model = form.parse(body)
        with contextlib.suppress(ModelError):  # no other error
            form.trees(model, 6)
            form.merge([model, model], [0.5, 0.5])

    used = _use_all(engine, accepted, tmp_path)
    assert used > 0.8 * len(accepted), "most of what passes the check is a model that works"


def _use_all(engine: str, bodies: list[bytes], folder: Path) -> int:
    """How many of the models work, used by a process that must not die of one."""
    (folder / "models.pickle").write_bytes(pickle.dumps(bodies))
    command = [sys.executable, str(WORKER), engine, str(folder / "models.pickle")]
    # A cycle would never end.
    run = subprocess.run(command, capture_output=True, text=True, timeout=60 + FLIPS / 20)
    last = run.stdout.split("\n")[-2:]
    assert run.returncode == 0, f"died of {run.returncode} at model {last}: {run.stderr[-500:]}"
    return int(run.stdout.rsplit("used ", 1)[1])


def with_hostile_words(engine: str) -> list[bytes]:
    """A small model, many times: the first number or word of one field is what trips readers of
    numbers.
    """
    if engine == "lightgbm":
        return list(_in_text(lightgbm_models()["sets of categories"]))
    return list(_in_json(json.loads(xgboost_models()["sets of categories"])))


def _in_text(model: str) -> Iterator[bytes]:
    lines = model.split("\n")
    last = {
        line.partition("=")[0]: i
        for i, line in enumerate(lines)
        if "=" in line and not line.startswith("[")
    }
    for (key, i), word in itertools.product(last.items(), HOSTILE_WORDS):
        words = [word, *lines[i].partition("=")[2].split(" ")[1:]]
        yield _sized("\n".join([*lines[:i], f"{key}={' '.join(words)}", *lines[i + 1 :]])).encode()


def _sized(text: str) -> str:
    """With the sizes of its trees in the header."""
    trees = text[text.find("\n\n") + 2 : text.find("end of trees")]
    sizes = " ".join(
        str(len(tree)) for tree in re.split("^(?=Tree=)", trees, flags=re.MULTILINE) if tree
    )
    return re.sub("^tree_sizes=.*$", f"tree_sizes={sizes}", text, count=1, flags=re.MULTILINE)


def _in_json(model: Any) -> Iterator[bytes]:
    """A model with the first entry of each of its lists and objects replaced, trees but the last
    aside.
    """
    trees = model["learner"]["gradient_booster"]["model"]["trees"]

    def places(node: Any) -> Iterator[tuple[Any, Any]]:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node[:1]):
            if value is trees:
                yield from places(trees[-1])
            elif isinstance(value, dict | list) and value:
                yield from places(value)
            else:
                yield node, key

    for (node, key), word in itertools.product(
        list(places(model)), [*HOSTILE_WORDS, *HOSTILE_JSON]
    ):
        before, node[key] = node[key], word
        yield json.dumps(model).encode()
        node[key] = before


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_fault_099_a_hostile_word_in_any_field_is_refused_or_harmless(
    engine: str, tmp_path: Path
) -> None:
    tried = with_hostile_words(engine)
    accepted = [body for body in tried if not is_refused(body)]
    assert 0.05 * len(tried) < len(accepted) < 0.8 * len(tried), "some words are good, most are not"
    _use_all(engine, accepted, tmp_path)


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_fault_085_a_file_cut_anywhere_before_its_last_tree_is_refused(engine: str) -> None:
    for body in real_bodies(engine)[:: 6 if engine == "lightgbm" else 4]:
        end = body.find(b"end of trees") if engine == "lightgbm" else len(body)
        for length in {*range(0, end, 1 + end // 150), *range(max(0, end - 40), end)}:
            assert is_refused(body[:length]), f"accepted the first {length} of {len(body)} bytes"


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_fault_085_with_a_sidecar_every_flip_and_every_cut_of_the_model_is_found(
    engine: str, tmp_path: Path
) -> None:
    rng = random.Random(86)
    path = tmp_path / "model"
    body = real_bodies(engine)[-1]
    write_model_files(path, body, {"objective": "sdcg"})
    for _ in range(500):
        position = rng.randrange(len(body))
        path.write_bytes(
            body[:position]
            + bytes([body[position] ^ (1 << rng.randrange(8))])
            + body[position + 1 :]
        )
        with pytest.raises(ModelError, match="damaged"):
            read_model_files(path)
        path.write_bytes(body[:position])
        with pytest.raises(ModelError, match="damaged"):
            read_model_files(path)


def test_fault_085_a_damaged_sidecar_is_found_or_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    record = {"objective": {"name": "sdcg", "sigma": 0.5}, "features": ["a", "b"], "best": None}
    write_model_files(path, lightgbm_models()["lambdarank"].encode(), record)
    beside = sidecar_path(path)
    good = beside.read_bytes()
    refusals = 0
    for position in range(len(good)):
        for bit in range(8):
            beside.write_bytes(
                good[:position] + bytes([good[position] ^ (1 << bit)]) + good[position + 1 :]
            )
            try:
                assert read_model_files(path)[1] == record
            except ModelError:
                refusals += 1
    for length in range(len(good) - 1):  # the last byte is the final newline
        beside.write_bytes(good[:length])
        with pytest.raises(ModelError, match=r"meta\.json"):
            read_model_files(path)
    assert refusals > 7.5 * len(good), "only blanks between the words may change"
