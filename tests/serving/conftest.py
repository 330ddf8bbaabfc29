"""Small models, and requests to an application without a socket."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import boostrank
from boostrank.data.synthetic import make_ranking_data

PARAMS = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}


def import_serving() -> Any:
    """The module, or a skipped file without the extra."""
    for name in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(name, reason="serving is an extra")
    return importlib.import_module("boostrank.serving")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: Any, method: str, path: str, pieces: Iterable[bytes] = (), **headers: str
) -> Answer:
    """Send a request, with a body in pieces, to an ASGI application."""
    waiting, sent = [*pieces] or [b""], []
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in names.items()],
    }

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.sleep(3600)
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], head, body)


def get(app: Any, path: str) -> Answer:
    return asyncio.run(ask(app, "GET", path))


def post(app: Any, content: Any, path: str = "/score", **headers: str) -> Answer:
    """Send JSON, or bytes as they are."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return asyncio.run(ask(app, "POST", path, [body], **headers))


def train(path: Path, rounds: int = 3, **options: Any) -> boostrank.RankingModel:
    data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
    model = boostrank.train(PARAMS, data, rounds, **options)
    model.save(path)
    return model


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file."""
    path = tmp_path_factory.mktemp("serving") / "model.txt"
    train(path)
    return path


@pytest.fixture(scope="session")
def model(path: Path) -> boostrank.RankingModel:
    return boostrank.RankingModel.load(path)


@pytest.fixture(scope="session")
def rows(model: boostrank.RankingModel) -> Any:
    """Rows with missing values, float64[40, d]."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(40, model.n_features))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


def as_json(rows: Any) -> list[list[float | None]]:
    """Lists with null for NaN."""
    return [[None if value != value else value for value in row] for row in rows.tolist()]
