"""Limits on bodies, time and waiting requests, and new model files."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from boostrank.core.errors import ModelError
from tests.cli.conftest import start
from tests.serving.conftest import as_json, ask, get, import_serving, post, train

serving = import_serving()


def test_large_bodies_are_refused_before_they_are_read(path: Path) -> None:
    app = serving.make_app(path, serving.Limits(max_body=1000))
    declared = asyncio.run(ask(app, "POST", "/score", [], content_length="1000000000"))
    assert declared.status == 413

    async def endless() -> dict[str, Any]:
        return {"type": "http.request", "body": b" " * 100, "more_body": True}

    assert _refused(app, endless) == 413
    assert asyncio.run(ask(app, "POST", "/score", [], content_length="x")).status == 400


def _refused(app: Any, receive: Any) -> int:
    """The status of a request whose body comes from a function."""
    scope = {"type": "http", "method": "POST", "path": "/score", "headers": []}
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"])


def test_a_body_that_never_ends_and_a_slow_score(
    path: Path, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = serving.make_app(path, serving.Limits(timeout=0.05, threads=1, waiting=1))

    async def never() -> Any:
        await asyncio.sleep(3600)

    assert _refused(app, never) == 408
    go = threading.Event()
    score = app.state.scorer.score

    def slow(body: bytes) -> Any:
        go.wait(5)
        return score(body)

    monkeypatch.setattr(app.state.scorer, "score", slow)
    body = {"rows": as_json(rows)}
    assert post(app, body).status == 504
    busy = post(app, body)
    assert busy.status == 503
    assert busy.headers["retry-after"]
    go.set()
    app.state.scorer.pool.submit(int).result()
    assert app.state.scorer.slots.acquire(blocking=False)


def test_a_new_file_replaces_the_model_and_a_broken_one_does_not(tmp_path: Path, rows: Any) -> None:
    file, body = tmp_path / "m.txt", {"rows": as_json(rows)}
    old = train(file).predict(rows).tolist()
    app = serving.make_app(file)
    scorer, version = app.state.scorer, get(app, "/health").json["version"]
    assert post(app, body).json["scores"] == old
    os.utime(file)  # the same content
    assert not scorer.refresh()
    # A killed copy leaves a part.
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert not scorer.refresh()
    health = get(app, "/health").json
    assert (health["status"], health["version"]) == ("stale", version)
    assert health["reload_error"]
    assert post(app, body).json == {"scores": old, "version": version}
    file.chmod(0o400)  # other rights are another try
    before = scorer._state
    assert not scorer.refresh()
    assert scorer._state != before
    file.unlink()
    assert not scorer.refresh()
    assert post(app, body).json["scores"] == old
    # A whole file.
    new = train(file, rounds=6).predict(rows).tolist()
    assert scorer.refresh()
    answer = post(app, body).json
    assert answer["scores"] == new != old
    assert get(app, "/health").json == {
        "status": "ok",
        "version": answer["version"],
        "reload_error": None,
    }


def test_a_file_that_is_no_model_is_not_served(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("import os")
    with pytest.raises(ModelError):
        serving.make_app(tmp_path / "m.txt")


@contextlib.contextmanager
def _served(file: Path, *options: str) -> Iterator[tuple[str, int, Any]]:
    process = start("serve", file, "--port", 0, "--threads", 1, *options)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "http://" in line, line + process.stderr.read()
        host, port = line.split("http://")[1].split("/")[0].split(":")
        yield host, int(port), process
    finally:
        process.kill()
        process.wait()


def _post(host: str, port: int, body: bytes) -> Any:
    connection = http.client.HTTPConnection(host, port, timeout=30)
    connection.request("POST", "/score", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def test_clients_that_say_nothing_do_not_lock_others_out(path: Path) -> None:
    with _served(path, "--timeout", "0.5s") as (host, port, _):
        silent = [socket.create_connection((host, port)) for _ in range(256)]
        for client in silent[::2]:
            client.sendall(b"POST /sc")
        for client in silent:
            client.settimeout(20)
            assert client.recv(100) == b""
        # A connection is kept between requests.
        kept = http.client.HTTPConnection(host, port, timeout=20)
        for _ in range(3):
            kept.request("GET", "/ping")
            assert json.loads(kept.getresponse().read())["status"] == "ok"


def test_clients_over_a_socket(rows: Any, tmp_path: Path) -> None:
    """A slow client, a body of 1 GB, 50 clients while the file is replaced; then SIGTERM."""
    file = tmp_path / "m.txt"
    old, new = train(file), train(tmp_path / "new.txt", rounds=6)
    parts = [rows[i % 30 : i % 30 + 1 + i % 10] for i in range(50)]
    expected = [(old.predict(part).tolist(), new.predict(part).tolist()) for part in parts]
    bodies = [json.dumps({"rows": as_json(part)}).encode() for part in parts]
    head = b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    with _served(file, "--timeout", "20s", "--reload", "0.02s") as (host, port, process):
        slow = socket.create_connection((host, port))
        slow.sendall(head % len(bodies[0]) + bodies[0][:9])
        huge = socket.create_connection((host, port))
        huge.sendall(head % 10**9)
        assert b" 413 " in huge.recv(100)
        # A killed copy leaves a part of the file, and later it is whole.
        with ThreadPoolExecutor(50) as pool:
            answers = [pool.submit(_post, host, port, body) for body in bodies * 4]
            file.write_bytes((tmp_path / "new.txt").read_bytes()[:900])
            time.sleep(0.1)
            new.save(file)
        for number, answer in enumerate(answers):
            status, content = answer.result()
            assert status == 200
            assert content["scores"] in expected[number % 50]
        until = time.monotonic() + 20
        while _post(host, port, bodies[0])[1]["scores"] != expected[0][1]:
            assert time.monotonic() < until
        # The slow client gets its answer too, also while the process is told to stop.
        process.terminate()
        time.sleep(0.2)
        slow.sendall(bodies[0][9:])
        received = b""
        while piece := slow.recv(65536):
            received += piece
        assert json.loads(received.partition(b"\r\n\r\n")[2])["scores"] == expected[0][1]
        assert process.wait(20) in (-15, 143)
