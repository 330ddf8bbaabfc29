"""HTTP scorer of one model: checked requests, limits, metrics, and reload of a new file.

`boostrank serve` runs it. `make_app` returns it as an ASGI application.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import logging
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np
from msgspec import UNSET, Raw, Struct, UnsetType

from boostrank.core import __version__
from boostrank.core.errors import (
    BoostrankError,
    DataError,
    MissingDependency,
    ModelError,
    RowError,
    did_you_mean,
)
from boostrank.core.machine import resolve_threads
from boostrank.core.text import no_number, number_in
from boostrank.core.types import Float64Array
from boostrank.data.categories import EXACT, Categories, Coding, are_not_codes
from boostrank.files.join import documents_in_log, feature_in_log
from boostrank.model.files import MAX_MODEL_BYTES, content_sha256, read_file, sidecar_path
from boostrank.model.ranking_model import RankingModel
from boostrank.records import from_json

try:
    import uvicorn
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise MissingDependency(
        f"serving needs {error.name}: pip install 'boostrank[serve]'"
    ) from error

_LOG = logging.getLogger(__name__)
_VALUE = re.compile(r"\$\.rows\[(\d+)\]\[(\.\.\.|\d+)\]")
_JSON, _CSV = "application/json", "text/csv"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Limits:
    """Limits of a scorer.

    Args:
        max_body: largest body of a request in bytes.
        timeout: seconds to receive a body, and seconds to score it.
        threads: number of requests that are scored at the same time; None for every core.
        waiting: number of requests that are scored or wait for a thread. Others are refused.
        reload: seconds between two checks for a new model file.
    """

    max_body: int = 8_000_000
    timeout: float = 10.0
    threads: int | None = None
    waiting: int = 256
    reload: float = 5.0


class ScoreRequest(Struct, forbid_unknown_fields=True):
    """The JSON body of a request, with exactly one of `rows`, `columns` and `logged`."""

    rows: list[list[float | None] | dict[str, float | str | None]] | UnsetType = UNSET
    columns: dict[str, list[float | str | None]] | UnsetType = UNSET
    logged: Raw | UnsetType = UNSET
    qid: list[int | str] | None = None


class Refusal(Exception):
    """A request that gets another status than 200."""

    def __init__(self, status: int, reason: str, **details: Any) -> None:
        super().__init__(reason)
        self.status, self.content = status, {"error": reason, **details}


def _refuse(row: int, feature: str, reason: str) -> NoReturn:
    text = f"row {row} (from 0), feature {feature!r}: {reason}"
    raise Refusal(422, text, row=row, feature=feature)


class Scorer:
    """A model file, its newest valid content, and the threads that score.

    Attributes:
        model: the model, which `refresh` replaces as a whole.
        version: SHA-256 of the model file.
        fault: why the newest file was not loaded, or "".
    """

    def __init__(self, path: str | os.PathLike[str], limits: Limits) -> None:
        self.path, self.limits = Path(path), limits
        threads = resolve_threads(limits.threads)
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="score")
        self.free = threading.BoundedSemaphore(max(threads, limits.waiting))
        self.fault = ""
        self._state = self._file_state()
        self.model, self.version = self._load()

    def _file_state(self) -> list[tuple[int, int, int] | None]:
        """Return inode, size and time of change of the model and its sidecar."""
        states: list[tuple[int, int, int] | None] = []
        for path in (self.path, sidecar_path(self.path)):
            with contextlib.suppress(OSError):
                state = os.stat(path)
                states.append((state.st_ino, state.st_size, state.st_mtime_ns))
                continue
            states.append(None)
        return states

    def _load(self) -> tuple[RankingModel, str]:
        """Load the model, and score a row, so that the first request does not compile."""
        version = content_sha256(read_file(self.path, MAX_MODEL_BYTES))
        model = RankingModel.load(self.path)
        if version != content_sha256(read_file(self.path, MAX_MODEL_BYTES)):
            raise ModelError(f"{self.path}: the file changed while it was read")
        _predict(model, np.zeros((1, model.n_features)), None)
        return model, version

    def refresh(self) -> bool:
        """Load the file if it changed, and return whether the model was replaced.

        A file that cannot be loaded leaves the model as it is, and sets `fault`.
        """
        state = self._file_state()
        if state == self._state:
            return False
        try:
            model, version = self._load()
        except Exception as error:  # a fault of the new file must not end the service
            self.fault, self._state = str(error), state
            _LOG.warning("the model was not replaced: %s", error)
            return False
        is_new = version != self.version
        self.model, self.version, self.fault, self._state = model, version, "", state
        if is_new:
            _LOG.info("%s: loaded version %s", self.path, version[:12])
        return is_new

    def score(self, body: bytes, kind: str) -> tuple[bytes, int]:
        """Return the body of the response, and the number of scores.

        Args:
            body: a `ScoreRequest` in JSON, or CSV without a header.
            kind: media type of the body and of the response.

        Raises:
            Refusal: a row or the body cannot be used.
        """
        model, version = self.model, self.version
        answer: dict[str, Any] = {"version": version}
        if kind == _CSV:
            features, qid = _array_of_rows(model, _csv_rows(body)), None
        else:
            request = _decode(body)
            features, qid = _features_of(model, request, answer), request.qid
        _check_values(model, features)
        if qid is None:
            qid = answer.pop("qid", None)
        elif len(qid) != len(features):
            raise Refusal(422, f"qid has {len(qid)} values for {len(features)} rows")
        scores = _predict(model, features, qid).tolist()
        if kind == _CSV:
            return "".join(f"{score!r}\n" for score in scores).encode(), len(scores)
        return msgspec.json.encode({"scores": scores, **answer}), len(scores)


def _predict(model: RankingModel, features: Float64Array, qid: Sequence[Any] | None) -> Any:
    if not len(features) or model.scores_rows_alone:
        return model.predict(features, threads=1) if len(features) else np.zeros(0)
    numbers: dict[tuple[type, Any], int] = {}
    ids = [numbers.setdefault((type(name), name), len(numbers)) for name in qid or ()]
    return model.predict(features, threads=1, qid=ids or np.zeros(len(features), np.int64))


def _decode(body: bytes) -> ScoreRequest:
    """Parse a JSON body, and name the row and feature of a value of another type."""
    try:
        request = msgspec.json.decode(body, type=ScoreRequest)
    except msgspec.ValidationError as error:
        place = _VALUE.search(str(error))
        if place is None:
            raise Refusal(422, str(error)) from None
        row, feature = int(place[1]), place[2]
        if feature == "...":
            members = from_json(body)["rows"][row].items()
            wrong = (
                name
                for name, value in members
                if isinstance(value, bool) or not isinstance(value, int | float | str | None)
            )
            feature = next(wrong, feature)
        _refuse(row, feature, str(error).partition(" - at")[0])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
    bodies = (request.rows, request.columns, request.logged)
    if sum(content is not UNSET for content in bodies) != 1:
        raise Refusal(422, "the body must have one of rows, columns and logged")
    return request


def _features_of(
    model: RankingModel, request: ScoreRequest, answer: dict[str, Any]
) -> Float64Array:
    """Return float64[N, d] of a JSON body. Notes about it are added to the answer."""
    columns, names = request.columns, model.feature_names
    if isinstance(request.logged, Raw):
        columns = _logged_columns(model, bytes(request.logged), answer)
    rows = request.rows or []
    if rows and isinstance(rows[0], list):
        return _array_of_rows(model, rows)
    # Named values: a name of the model that is absent, and any other name, are refused.
    if columns is UNSET:
        for row, values in enumerate(rows):
            if not isinstance(values, dict):
                raise Refusal(422, f"row {row} (from 0) is a list, row 0 an object", row=row)
            _check_names(names, values, row)
        columns = {name: [values[name] for values in rows] for name in names}  # type: ignore[call-overload]
    _check_names(names, columns)
    count = len(columns[names[0]])
    features = np.empty((count, len(names)))
    for i, name in enumerate(names):
        if len(columns[name]) != count:
            raise Refusal(
                422, f"column {name!r} has {len(columns[name])} values, {names[0]!r} {count}"
            )
        features[:, i] = _numbers(name, columns[name], model.categories.get(name), answer)
    return features


def _check_names(names: Sequence[str], values: Any, row: int | None = None) -> None:
    """Refuse an object that does not have exactly the model's features."""
    if values.keys() == set(names):
        return
    unknown = next((name for name in values if name not in names), None)
    missing = next((name for name in names if name not in values), None)
    if unknown is None:
        feature, reason = missing, "is missing: send null for a missing value"
    else:
        hint = did_you_mean(unknown, names, list_all=False)
        feature, reason = unknown, f"is not a feature of the model.{hint}"
    place = "" if row is None else f"row {row} (from 0): "
    details = {} if row is None else {"row": row}
    raise Refusal(422, f"{place}{feature!r} {reason}", feature=feature, **details)


def _numbers(
    name: str, values: Sequence[Any], known: Categories | None, answer: dict[str, Any]
) -> Any:
    """Return the numbers or category codes of a column, with NaN for null and unknown
    categories.
    """
    categories = known.values if known is not None else None
    is_text = bool(categories) and isinstance(categories[0], str)  # type: ignore[index]
    for row, value in enumerate(values):
        if value is not None and isinstance(value, str) != is_text:
            _refuse(row, name, f"{str(value)[:40]!r} is {'not text' if is_text else 'text'}")
    if known is None or categories is None:
        return np.array(values, np.float64)
    positions = np.array([-1 if value is None else row for row, value in enumerate(values)], int)
    codes = Coding(name, known).codes(positions, ["" if v is None else v for v in values])
    unknown = int(np.isnan(codes[positions >= 0]).sum())
    if unknown:  # as `predict` warns
        answer.setdefault("unknown_categories", {})[name] = unknown
    return codes


def _array_of_rows(model: RankingModel, rows: Sequence[Any]) -> Float64Array:
    """Return float64[N, d] of lists in the order of the model's features."""
    for row, values in enumerate(rows):
        if not isinstance(values, list) or len(values) != model.n_features:
            number = len(values) if isinstance(values, list) else "named"
            reason = f"{number} values, but the model has {model.n_features} features"
            raise Refusal(422, f"row {row} (from 0): {reason}", row=row)
    return np.array(rows, np.float64).reshape(len(rows), model.n_features)


def _csv_rows(body: bytes) -> list[list[float]]:
    """Return the numbers of a CSV body without a header, where empty cells are missing."""
    rows: list[list[float]] = []
    try:
        for row, words in enumerate(csv.reader(body.decode().splitlines(), strict=True)):
            numbers = [number_in(word.strip()) for word in words]
            for i, number in enumerate(numbers):
                if number != number and words[i].strip():
                    _refuse(row, str(i), no_number(words[i], "leave a missing value empty"))
            rows.append(numbers)
    except (csv.Error, UnicodeDecodeError) as error:
        raise Refusal(400, f"the body is not CSV in UTF-8: {error}") from None
    return rows


def _logged_columns(
    model: RankingModel, logged: bytes, answer: dict[str, Any]
) -> dict[str, list[Any]]:
    """Return the model's columns in an engine's logged features, as `data join` reads them."""
    names = frozenset(model.feature_names)
    columns: dict[str, list[Any]] = {name: [] for name in model.feature_names}
    present, queries, documents = set[str](), list[str](), list[str]()
    try:
        for row, (query, document, pairs) in enumerate(documents_in_log(from_json(logged))):
            for column in columns.values():
                column.append(None)
            seen = set[str]()
            for name, value in ((str(key), value) for key, value in pairs):
                if name in seen:
                    _refuse(row, name, "the document has it twice")
                seen.add(name)
                if name in names:
                    number = feature_in_log(value, f"row {row} (from 0), feature {name!r}")
                    columns[name][-1] = number
            present |= seen
            queries.append(query)
            documents.append(document)
    except DataError as error:
        raise Refusal(422, str(error), row=row, feature=name) from None
    except (LookupError, TypeError, AttributeError, ValueError):
        words = "logged: expected a response or hit of Solr or Elasticsearch, or rows"
        raise Refusal(422, words) from None
    for name in columns if queries else ():
        if name not in present:
            raise Refusal(422, f"no document has the feature {name!r}", feature=name)
    answer["documents"] = documents
    if any(queries):
        answer["qid"] = queries
    return columns


def _check_values(model: RankingModel, features: Float64Array) -> None:
    """Refuse numbers beyond float32, and codes that no category has."""
    with np.errstate(over="ignore"):
        wrong = np.isinf(features.astype(np.float32))
    for name, known in model.categories.items():
        i, count = model.feature_names.index(name), EXACT
        if known.values is not None:
            count = len(known.values)
        wrong[:, i] |= are_not_codes(features[:, i], count)
    if wrong.any():
        row, i = map(int, np.argwhere(wrong)[0])
        name = model.feature_names[i]
        reason = "is not a category code" if name in model.categories else "is beyond float32"
        _refuse(row, name, f"{features[row, i]:g} {reason}")


class _Metrics:
    """Counts and latencies in Prometheus' format."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        by_path, registry = ["path"], {"registry": self.registry}
        self.requests = Counter("boostrank_requests", "Requests.", [*by_path, "status"], **registry)
        self.seconds = Histogram(
            "boostrank_request_seconds",
            "Seconds from the head of a request to its response.",
            by_path,
            buckets=_SECONDS,
            **registry,
        )
        self.rows = Counter("boostrank_rows", "Scored rows.", **registry)
        self.reloads = Counter("boostrank_reloads", "New model files.", ["result"], **registry)


async def _read_body(request: Request, limits: Limits) -> bytes:
    """Receive a body within the limits."""
    too_large = Refusal(413, f"the body is larger than {limits.max_body:,} bytes")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refusal(415, "compressed bodies are not supported: send the body as it is")
    try:
        if int(request.headers.get("content-length", "0")) > limits.max_body:
            raise too_large
    except ValueError:
        raise Refusal(400, "Content-Length is not a number") from None
    body = bytearray()
    try:
        async with asyncio.timeout(limits.timeout):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.max_body:
                    raise too_large
    except TimeoutError:
        raise Refusal(408, f"the body did not arrive within {limits.timeout:g} s") from None
    except ClientDisconnect:
        raise Refusal(400, "the client left") from None
    return bytes(body)


def make_app(path: str | os.PathLike[str], limits: Limits | None = None) -> Starlette:
    """Return an ASGI application that scores rows with a model file.

    Args:
        path: the model file, which is checked for changes while the application runs.
        limits: limits on bodies, time and threads, or None for the defaults.

    Raises:
        ModelError: the file is not a model, or cannot score.

    `app.state.scorer` is the `Scorer`.
    """
    limits = limits or Limits()
    scorer, metrics = Scorer(path, limits), _Metrics()

    async def score(request: Request) -> Response:
        kind = request.headers.get("content-type", _JSON).partition(";")[0].strip().lower()
        if kind not in (_JSON, _CSV):
            raise Refusal(415, f"Content-Type {kind[:40]!r}: send {_JSON} or {_CSV}")
        body = await _read_body(request, limits)
        if not scorer.free.acquire(blocking=False):
            raise Refusal(503, "too many requests wait: send it again later")
        job = scorer.pool.submit(scorer.score, body, kind)
        job.add_done_callback(lambda _: scorer.free.release())
        try:
            answer, rows = await asyncio.wait_for(asyncio.wrap_future(job), limits.timeout)
        except TimeoutError:
            raise Refusal(504, f"not scored within {limits.timeout:g} s: send fewer rows") from None
        metrics.rows.inc(rows)
        return Response(answer, media_type=kind)

    async def health(request: Request) -> Response:
        state = {"status": "stale" if scorer.fault else "ok", "version": scorer.version}
        return _json_response(state | {"reload_error": scorer.fault or None})

    async def describe(request: Request) -> Response:
        return _json_response(_description(scorer))

    async def count(request: Request) -> Response:
        return Response(generate_latest(metrics.registry), media_type="text/plain; version=0.0.4")

    async def watch() -> None:
        while True:
            await asyncio.sleep(limits.reload)
            before = scorer.fault
            if await asyncio.to_thread(scorer.refresh):
                metrics.reloads.labels("loaded").inc()
            elif scorer.fault and scorer.fault != before:
                metrics.reloads.labels("failed").inc()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        watcher = asyncio.create_task(watch())
        yield
        watcher.cancel()
        scorer.pool.shutdown(cancel_futures=True)

    routes = [
        _route("/score", score, "POST", metrics),
        _route("/invocations", score, "POST", metrics),
        _route("/ping", health, "GET", metrics),
        _route("/health", health, "GET", metrics),
        _route("/model", describe, "GET", metrics),
        _route("/metrics", count, "GET", metrics),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.state.scorer = scorer
    return app


def _route(
    path: str, endpoint: Callable[[Request], Awaitable[Response]], method: str, metrics: _Metrics
) -> Route:
    """Return a route whose requests are counted, and whose errors are JSON."""

    async def respond(request: Request) -> Response:
        started = time.perf_counter()
        try:
            response = await endpoint(request)
        except Refusal as refusal:
            response = _json_response(refusal.content, refusal.status)
        except BoostrankError as error:
            row = {"row": error.row} if isinstance(error, RowError) else {}
            response = _json_response({"error": str(error), **row}, 422)
        except Exception:
            _LOG.exception("%s failed", path)
            response = _json_response({"error": "internal error; the log has it"}, 500)
        metrics.requests.labels(path, str(response.status_code)).inc()
        metrics.seconds.labels(path).observe(time.perf_counter() - started)
        return response

    return Route(path, respond, methods=[method])


def _json_response(content: Any, status: int = 200) -> Response:
    headers = {"Retry-After": "1"} if status == 503 else None
    return Response(msgspec.json.encode(content), status, headers, _JSON)


def _description(scorer: Scorer) -> dict[str, Any]:
    """Return what `/model` says."""
    model = scorer.model
    return {
        "name": scorer.path.name,
        "version": scorer.version,
        "backend": model.backend,
        "objective": model.info.objective_name,
        "features": model.feature_names,
        "categories": {name: known.values for name, known in model.categories.items()},
        "needs_whole_queries": not model.scores_rows_alone,
        "trained_by": model.info.versions,
        "boostrank": __version__,
    }
