"""HTTP scorer of one model: checked requests, limits, metrics, and reload of a new file.

`boostrank serve` runs it. `make_app` returns it as an ASGI application.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from boostrank.core.errors import DataError, InputError, MissingDependency, ModelError, did_you_mean
from boostrank.core.machine import resolve_threads
from boostrank.core.types import Float64Array
from boostrank.data.categories import EXACT, are_not_codes
from boostrank.files.join import documents_in_log, feature_in_log
from boostrank.model.files import MAX_MODEL_BYTES, content_sha256, read_file, sidecar_path
from boostrank.model.ranking_model import RankingModel
from boostrank.options import Limits
from boostrank.records import from_json

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise MissingDependency(
        f"serving needs {error.name}: pip install 'boostrank[serve]'"
    ) from error

_LOG = logging.getLogger(__name__)
_JSON = "application/json"
_MOST_SHOWN = 100  # characters of a name
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_NUMBERS, _TEXT = frozenset({int, float, type(None)}), frozenset({str, type(None)})


class ScoreRequest(Struct, forbid_unknown_fields=True):
    """The JSON body of a request, with exactly one of `rows`, `columns` and `logged`."""

    rows: list[list[Any] | dict[str, Any]] | None = None
    columns: dict[str, list[Any]] | None = None
    logged: Raw = Raw()
    qid: list[int | str] | None = None


def _refuse(reason: str, row: int | None = None, feature: str | None = None) -> HTTPException:
    """Return a refusal that names the row and the feature."""
    fields: dict[str, Any] = {} if row is None else {"row": row}
    fields |= {} if feature is None else {"feature": feature}
    prefix = "".join(f"{name} {value!r}: " for name, value in fields.items())
    return HTTPException(422, {"error": prefix + reason, **fields})


class Scorer:
    """A model file, its newest valid content, and the threads that score.

    Attributes:
        current: the model and the SHA-256 of its file, which `refresh` replaces.
        fault: why the newest file was not loaded, or "".
    """

    def __init__(self, path: str | os.PathLike[str], limits: Limits) -> None:
        self.path, self.fault = Path(path), ""
        threads = resolve_threads(limits.threads)
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="score")
        self.slots = threading.BoundedSemaphore(max(threads, limits.waiting))
        self._state = self._file_state()
        self.current = self._load()

    def _file_state(self) -> list[Any]:
        """Return inode, size and times of change of the model and its sidecar."""
        states = []
        for path in (self.path, sidecar_path(self.path)):
            with contextlib.suppress(OSError):
                state = os.stat(path)
                times = state.st_mtime_ns, state.st_ctime_ns  # the second of rights, too
                states.append((state.st_ino, state.st_size, *times))
        return states

    def _load(self) -> tuple[RankingModel, str]:
        """Load the model, and score a row, so that the first request does not compile."""
        state = self._file_state()
        model = RankingModel.load(self.path)
        version = content_sha256(read_file(self.path, MAX_MODEL_BYTES))
        if state != self._file_state():
            raise ModelError(f"{self.path}: the file changed while it was read")
        _predict(model, np.zeros((1, model.n_features)), None)
        return model, version

    def refresh(self) -> bool:
        """Load the file if it changed, and return whether the model was replaced.

        A file that cannot be loaded leaves the model as it is, and sets `fault`.
        """
        state, version = self._file_state(), self.current[1]
        if state == self._state:
            return False
        self._state = state
        try:
            self.current, self.fault = self._load(), ""
        except Exception as error:  # a fault of the new file must not end the service
            self.fault = str(error)
            _LOG.warning("the model was not replaced: %s", error)
        return self.current[1] != version

    def score(self, body: bytes) -> tuple[bytes, int]:
        """Return the body of the response, and the number of scores.

        Args:
            body: a `ScoreRequest` in JSON.

        Raises:
            HTTPException: the body or a row cannot be used.
        """
        model, version = self.current
        answer: dict[str, Any] = {"version": version}
        try:
            request = msgspec.json.decode(body, type=ScoreRequest)
            _refuse_repeated_keys(body, request)
            qid, columns = _columns_of(model, request, answer)
        except msgspec.ValidationError as error:
            raise _refuse(str(error)) from None
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise HTTPException(400, f"the body cannot be parsed as {_JSON}: {error}") from None
        features = _features_of(model, columns, answer)
        if qid is not None and len(qid) != len(features):
            raise _refuse(f"qid has {len(qid)} values for {len(features)} rows")
        scores = _predict(model, features, qid).tolist()
        return msgspec.json.encode({"scores": scores, **answer}), len(scores)


def _predict(model: RankingModel, features: Float64Array, qid: Sequence[Any] | None) -> Any:
    """Score rows of the queries, which are one query by default."""
    if not len(features):
        return np.zeros(0)
    ids = None if model.scores_rows_alone else list(map(repr, qid or [0] * len(features)))
    return model.predict(features, threads=1, qid=ids)


def _refuse_repeated_keys(body: bytes, request: ScoreRequest) -> None:
    """Raise ValueError for an object with a key twice, of which msgspec keeps the last."""
    fields = [request.rows, request.columns, request.qid]
    objects = [row for row in request.rows or () if isinstance(row, dict)]
    members = sum(part is not None for part in fields) + sum(
        map(len, [*objects, request.columns or ()])
    )
    # With one colon per member, none can be repeated; otherwise, as in a log, look at each.
    if body.count(b":") != members:
        from_json(body, once=True)


def _columns_of(
    model: RankingModel, request: ScoreRequest, answer: dict[str, Any]
) -> tuple[Sequence[Any] | None, Mapping[str, Sequence[Any]]]:
    """Return the queries, if there are any, and the values of each feature."""
    logged = bytes(request.logged)
    if [request.rows is None, request.columns is None, not logged].count(False) != 1:
        raise _refuse("the body must have one of rows, columns and logged")
    if request.columns is not None:
        _check_names(model.feature_names, request.columns)
        return request.qid, request.columns
    if request.rows is not None:
        return request.qid, _by_column(model.feature_names, request.rows)
    queries, answer["documents"], rows = _logged_rows(model, logged)
    return request.qid or queries, _by_column(model.feature_names, rows)


def _by_column(names: Sequence[str], rows: Sequence[Any]) -> Mapping[str, Sequence[Any]]:
    """Return the values of each feature in lists, in the order of the features, or objects."""
    lists = []
    for row, values in enumerate(rows):
        if isinstance(values, dict):
            _check_names(names, values, row)
            values = [values[name] for name in names]
        elif len(values) != len(names):
            raise _refuse(f"{len(values)} values, but the model has {len(names)} features", row)
        lists.append(values)
    columns = zip(*lists, strict=True) if lists else [()] * len(names)
    return dict(zip(names, columns, strict=True))


def _check_names(names: Sequence[str], values: Any, row: int | None = None) -> None:
    """Refuse an object that does not have exactly the model's features."""
    for name in values.keys() - set(names):
        name = name[:_MOST_SHOWN]
        hint = did_you_mean(name, names, list_all=False)
        raise _refuse(f"it is not a feature of the model.{hint}", row, name)
    for name in names:
        if name not in values:
            raise _refuse("it is absent: send null for a missing value", row, name)


def _logged_rows(
    model: RankingModel, logged: bytes
) -> tuple[list[str] | None, list[str], list[dict[str, Any]]]:
    """Return queries, documents and rows of an engine's log, as `data join` reads it.

    Other features are ignored. A document without a feature has a missing value.
    """
    queries, documents, rows, logged_names = [], [], list[dict[str, Any]](), set[Any]()
    try:
        for query, document, pairs in documents_in_log(from_json(logged)):
            values = dict.fromkeys(model.feature_names)
            for name, value in pairs:
                if name in values:
                    if values[name] is not None:
                        raise _refuse("it is logged twice", len(rows), name)
                    values[name] = feature_in_log(value, f"{name!r} of {document!r}")
                    logged_names.add(name)
            queries.append(query)
            documents.append(document.encode().decode())  # refuse lone surrogates
            rows.append(values)
    except DataError as error:
        raise _refuse(str(error), len(rows), name) from None
    except (LookupError, TypeError, AttributeError, ValueError):
        raise _refuse("logged is not a response or hit of Solr or Elasticsearch, or rows") from None
    for name in model.feature_names if rows else ():
        if name not in logged_names:
            raise _refuse("no document has it", feature=name)
    return queries if any(queries) else None, documents, rows


def _features_of(
    model: RankingModel, columns: Mapping[str, Sequence[Any]], answer: dict[str, Any]
) -> Float64Array:
    """Return float64[N, d], with NaN for null and for unknown categories, which are counted."""
    count = len(columns[model.feature_names[0]])
    features = np.empty((count, model.n_features))
    for i, name in enumerate(model.feature_names):
        values, categories = columns[name], model.categories.get(name)
        if len(values) != count:
            raise _refuse(f"the column has {len(values)} values, the first {count}", feature=name)
        # Each value must be text for categories that are text, and otherwise a number.
        is_text = bool(categories and categories.values and isinstance(categories.values[0], str))
        allowed = _TEXT if is_text else _NUMBERS
        if not allowed.issuperset(map(type, values)):
            row = next(row for row, value in enumerate(values) if type(value) not in allowed)
            kind = "text" if is_text else "a number"
            raise _refuse(f"{str(values[row])[:40]!r} is not {kind}", row, name)
        if categories is None or categories.values is None:
            try:
                features[:, i] = values
            except OverflowError:
                raise _refuse("an integer is beyond float32", feature=name) from None
            continue
        codes = {value: code for code, value in enumerate(categories.values)}
        features[:, i] = [codes.get(value, np.nan) for value in values]
        if unknown := sum(value is not None and value not in codes for value in values):
            answer.setdefault("unknown_categories", {})[name] = unknown
    # Refuse numbers beyond float32, and numbers that are no codes of categories without names.
    with np.errstate(over="ignore"):
        wrong = np.isinf(features.astype(np.float32))
    for name in model.categories:
        i = model.feature_names.index(name)
        wrong[:, i] |= are_not_codes(features[:, i], EXACT)
    for row, i in np.argwhere(wrong).tolist():
        reason = f"{features[row, i]:g} is beyond float32, or not a category code"
        raise _refuse(reason, row, model.feature_names[i])
    return features


async def _read_body(request: Request, limits: Limits) -> bytes:
    """Receive a body within the limits."""
    too_large = HTTPException(413, f"the body is larger than {limits.max_body:,} bytes")
    body = bytearray()
    try:
        if int(request.headers.get("content-length", 0)) > limits.max_body:
            raise too_large
        async with asyncio.timeout(limits.timeout):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.max_body:
                    raise too_large
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {limits.timeout:g} s") from None
    except (ClientDisconnect, ValueError):
        raise HTTPException(400, "the client left, or Content-Length is not a number") from None
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
    # The model and the counts.
    scorer, registry = Scorer(path, limits), CollectorRegistry()
    requests = Counter("boostrank_requests", "Requests.", ["path", "status"], registry=registry)
    seconds = Histogram(
        "boostrank_request_seconds",
        "Seconds to a response.",
        ["path"],
        buckets=_SECONDS,
        registry=registry,
    )
    scored = Counter("boostrank_rows", "Scored rows.", registry=registry)
    reloads = Counter("boostrank_reloads", "Replaced models.", registry=registry)

    # What the paths answer.
    async def score(request: Request) -> Response:
        kind = request.headers.get("content-type", _JSON).partition(";")[0].strip().lower()
        if kind != _JSON:
            raise HTTPException(415, f"Content-Type {kind[:40]!r}: send {_JSON}")
        body = await _read_body(request, limits)
        if not scorer.slots.acquire(blocking=False):
            raise HTTPException(503, "too many requests wait: send it again later")
        job = scorer.pool.submit(scorer.score, body)
        job.add_done_callback(lambda _: scorer.slots.release())
        try:
            answer, rows = await asyncio.wait_for(asyncio.wrap_future(job), limits.timeout)
        except TimeoutError:
            raise HTTPException(
                504, f"not scored within {limits.timeout:g} s: send fewer rows"
            ) from None
        scored.inc(rows)
        return Response(answer, media_type=_JSON)

    async def health(request: Request) -> Response:
        status = "stale" if scorer.fault else "ok"
        fault, version = scorer.fault or None, scorer.current[1]
        return _json_response({"status": status, "reload_error": fault, "version": version})

    async def describe(request: Request) -> Response:
        model, version = scorer.current
        return _json_response(
            {
                "name": scorer.path.name,
                "version": version,
                "backend": model.backend,
                "objective": model.info.objective_name,
                "features": model.feature_names,
                "categories": {name: c.values for name, c in model.categories.items()},
                "needs_whole_queries": not model.scores_rows_alone,
                "trained_by": model.info.versions,
            }
        )

    async def measure(request: Request) -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    def counted(
        path: str, endpoint: Callable[[Request], Awaitable[Response]], method: str
    ) -> Route:
        async def respond(request: Request) -> Response:
            started = time.perf_counter()
            try:
                response = await endpoint(request)
            except HTTPException as refusal:
                detail: Any = refusal.detail
                fields = detail if isinstance(detail, dict) else {"error": detail}
                response = _json_response(fields, refusal.status_code)
            except InputError as error:
                response = _json_response({"error": str(error)}, 422)
            except Exception:
                _LOG.exception("%s failed", path)
                response = _json_response({"error": "internal error; the log has it"}, 500)
            requests.labels(path, response.status_code).inc()
            seconds.labels(path).observe(time.perf_counter() - started)
            return response

        return Route(path, respond, methods=[method])

    # The background task.
    async def watch() -> None:
        while True:
            await asyncio.sleep(limits.reload)
            reloads.inc(await asyncio.to_thread(scorer.refresh))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        watcher = asyncio.create_task(watch())
        yield
        watcher.cancel()
        scorer.pool.shutdown(cancel_futures=True)

    posts = {"/score": score, "/invocations": score}
    gets = {"/ping": health, "/health": health, "/model": describe, "/metrics": measure}
    routes = [counted(path, endpoint, "POST") for path, endpoint in posts.items()]
    routes += [counted(path, endpoint, "GET") for path, endpoint in gets.items()]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.state.scorer = scorer
    return app


def _json_response(content: Any, status: int = 200) -> Response:
    headers = {"Retry-After": "1"} if status == 503 else None
    return Response(msgspec.json.encode(content), status, headers, _JSON)
