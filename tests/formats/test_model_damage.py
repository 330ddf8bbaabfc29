"""A damaged model file gives a clean error, or loads and is used without killing the process (fault 85).

A larger sweep is a matter of two numbers: `BOOSTRANK_FLIPS=20000` for damage without a sidecar.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest

from boostrank.core.errors import ModelError
from boostrank.formats import format_of, parse_model
from boostrank.formats.model_files import read_model_files, sidecar_path, write_model_files
from tests.formats.real_models import lightgbm_models, xgboost_models

FLIPS = int(os.environ.get("BOOSTRANK_FLIPS", "2000"))
WORKER = Path(__file__).with_name("load_models.py")
TELLING = b'0123456789-+.eE =:[]{}",\n\r\0 nif\xff'  # characters that mean something in one of the formats


def real_bodies(engine: str) -> list[bytes]:
    models = lightgbm_models() if engine == "lightgbm" else xgboost_models()
    bodies = [m.encode() if isinstance(m, str) else m for m in models.values()]
    return sorted(bodies, key=len)[:-1]  # without the largest


def damaged(body: bytes, rng: random.Random) -> bytes:
    """A bit flipped, a byte replaced, bytes lost or repeated; mostly before the parameters, where it matters."""
    end = body.find(b"end of trees")
    place = rng.randrange(end) if end > 0 and rng.random() < 0.8 else rng.randrange(len(body))
    out = bytearray(body)
    match rng.randrange(6):
        case 0 | 1:
            out[place] ^= 1 << rng.randrange(8)
        case 2 | 3:
            out[place] = rng.choice(TELLING)
        case 4:
            del out[place : place + rng.choice([1, 1, 2, 20])]
        case 5:
            out[place:place] = out[place : place + rng.choice([1, 1, 2, 20])]
    return bytes(out)


def is_refused(body: bytes) -> bool:
    try:
        parse_model(body)
    except ModelError:
        return True
    return False


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_fault_085_damage_without_a_sidecar_is_refused_or_harmless(engine: str, tmp_path: Path) -> None:
    rng = random.Random(85)
    bodies = real_bodies(engine)
    tried = [damaged(rng.choice(bodies), rng) for _ in range(FLIPS)]
    accepted = [body for body in tried if not is_refused(body)]
    assert 0.5 * FLIPS < FLIPS - len(accepted) < FLIPS, "some damage is found, some is not: a digit of a threshold"

    for body in accepted:
        form = format_of(body)
        model = form.parse(body)
        with contextlib.suppress(ModelError):  # no other error
            form.trees(model, 6)
            form.merge([model, model])

    (tmp_path / "models.pickle").write_bytes(pickle.dumps(accepted))
    command = [sys.executable, str(WORKER), engine, str(tmp_path / "models.pickle")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30 + FLIPS / 20)  # a cycle would never end
    last = run.stdout.split("\n")[-2:]
    assert run.returncode == 0, f"died of {run.returncode} at model {last}: {run.stderr[-500:]}"
    used = int(run.stdout.rsplit("used ", 1)[1])
    assert used > 0.8 * len(accepted), "most of what passes the check is a model that works"


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_fault_085_a_file_cut_anywhere_before_its_last_tree_is_refused(engine: str) -> None:
    for body in real_bodies(engine)[:: 6 if engine == "lightgbm" else 4]:
        end = body.find(b"end of trees") if engine == "lightgbm" else len(body)
        for length in {*range(0, end, 1 + end // 150), *range(max(0, end - 40), end)}:
            assert is_refused(body[:length]), f"accepted the first {length} of {len(body)} bytes"


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_fault_085_with_a_sidecar_every_flip_and_every_cut_of_the_model_is_found(engine: str, tmp_path: Path) -> None:
    rng = random.Random(86)
    path = tmp_path / "model"
    body = real_bodies(engine)[-1]
    write_model_files(path, body, {"objective": "sdcg"})
    for _ in range(500):
        place = rng.randrange(len(body))
        path.write_bytes(body[:place] + bytes([body[place] ^ (1 << rng.randrange(8))]) + body[place + 1 :])
        with pytest.raises(ModelError, match="damaged"):
            read_model_files(path)
        path.write_bytes(body[:place])
        with pytest.raises(ModelError, match="damaged"):
            read_model_files(path)


def test_fault_085_a_damaged_sidecar_is_found_or_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    said = {"objective": {"name": "sdcg", "sigma": 0.5}, "features": ["a", "b"], "best": None}
    write_model_files(path, lightgbm_models()["lambdarank"].encode(), said)
    beside = sidecar_path(path)
    good = beside.read_bytes()
    found = 0
    for place in range(len(good)):
        for bit in range(8):
            beside.write_bytes(good[:place] + bytes([good[place] ^ (1 << bit)]) + good[place + 1 :])
            try:
                assert read_model_files(path)[1] == said
            except ModelError:
                found += 1
    for length in range(len(good) - 1):  # the last byte is the final newline
        beside.write_bytes(good[:length])
        with pytest.raises(ModelError, match=r"meta\.json"):
            read_model_files(path)
    assert found > 7.5 * len(good), "only blanks between the words may change"
