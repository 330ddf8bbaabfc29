"""Checkpoints whose checksum is right and whose content is not: refused, or a training that goes
on.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import boostrank
from boostrank.engines.base import StopTraining
from qa.fuzz.cases import damaged, edited, may_refuse

FAST = {"objective": "sdcg", "num_leaves": 3, "verbosity": -1, "num_threads": 1, "eval_at": [5]}


class _Stop:
    before_iteration = False
    order = 50

    def __init__(self, checkpoint: boostrank.Checkpoint) -> None:
        self.checkpoint = checkpoint

    def __call__(self, env: Any) -> None:
        if env.iteration == 2:
            self.checkpoint.write(env)
            raise StopTraining(env.iteration)


@cache
def data() -> boostrank.RankingDataset:
    rng = np.random.default_rng(0)
    return boostrank.RankingDataset.from_arrays(
        rng.normal(size=(60, 3)), rng.integers(0, 3, 60), group=[10] * 6
    )


def train(path: Path, backend: str, *, resume: bool, callbacks: list[Any]) -> None:
    """Four rounds, with a checkpoint."""
    checkpoint = boostrank.Checkpoint(path, resume=resume)
    callbacks = [make(checkpoint) for make in callbacks]
    options = {
        "valid_sets": [data()],
        "callbacks": callbacks,
        "checkpoint": checkpoint,
        "backend": backend,
    }
    boostrank.train(FAST, data(), num_boost_round=4, **options)


@cache
def written() -> dict[str, bytes]:
    """A checkpoint of three rounds by each engine."""
    bodies = {}
    for backend in ("lightgbm", "xgboost"):
        path = Path(f"{backend}.checkpoint")
        path.unlink(missing_ok=True)
        train(path, backend, resume=False, callbacks=[_Stop])
        bodies[backend] = path.read_bytes()
    return bodies


@st.composite
def _drawn(draw: Any) -> dict[str, Any]:
    backend = draw(st.sampled_from(["lightgbm", "xgboost"]))
    first, _, header, state = written()[backend].split(b"\n", 3)
    header = json.dumps(draw(edited(json.loads(header)))).encode()
    if draw(st.integers(0, 2)) == 0:
        state = draw(damaged(state))
    content = header + b"\n" + state
    return {
        "backend": backend,
        "body": b"%s\n%s\n%s" % (first, hashlib.sha256(content).hexdigest().encode(), content),
    }


cases = _drawn()


def check(backend: str, body: bytes) -> None:
    path = Path("broken.checkpoint")
    path.write_bytes(body)
    with may_refuse():
        train(path, backend, resume=True, callbacks=[])
