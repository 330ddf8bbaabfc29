"""Sidecars whose seal is whole and whose content is not: refused, or a model that works."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import boostrank
from boostrank.model.files import _checksum, content_sha256, sidecar_path
from qa.fuzz.cases import edited, may_refuse
from qa.fuzz.targets.models import use


@cache
def load_models() -> list[tuple[bytes, Any]]:
    """Models with all that a sidecar may say, and their sidecars."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    data = boostrank.RankingDataset.from_arrays(X, y, group=[10] * 6)
    models = []
    for more in ({}, {"start": "linear"}, {"within_query": "rank"}):
        params = {
            "objective": "lambdarank",
            "num_leaves": 3,
            "verbose": -1,
            "min_data_in_leaf": 2,
            "num_threads": 1,
        }
        model = boostrank.train(params, data, num_boost_round=2, valid_sets=[data], **more)
        model.save("sidecars")
        models.append(
            (Path("sidecars").read_bytes(), json.loads(sidecar_path("sidecars").read_text()))
        )
    return models


@st.composite
def _drawn(draw: Any) -> dict[str, Any]:
    body, sidecar = draw(st.sampled_from(load_models()))
    content = draw(edited({key: value for key, value in sidecar.items() if key != "file"}))
    seal = sidecar["file"] if draw(st.integers(0, 3)) else draw(edited(sidecar["file"]))
    return {"body": body, "seal": json.dumps(seal), "content": json.dumps(content)}


cases = _drawn()


def check(body: bytes, seal: str, content: str) -> None:
    path = Path("sealed")
    path.write_bytes(body)
    whole = {"file": json.loads(seal), **json.loads(content)}
    if isinstance(whole["file"], dict):
        whole["file"].pop("checksum", None)
        whole["file"]["checksum"] = _checksum(whole)
        whole["file"].setdefault("body_sha256", content_sha256(body))
    sidecar_path(path).write_text(json.dumps(whole))
    with may_refuse():
        use(boostrank.RankingModel.load(path))
