"""Scores over HTTP are the model's, in every form of a body, and faults name their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import boostrank
from tests.serving.conftest import PARAMS, as_json, get, import_serving, post, train

serving = import_serving()


@pytest.fixture(scope="module")
def app(path: Path) -> Any:
    return serving.make_app(path)


def test_every_form_of_body_has_the_bits_of_predict(app: Any, model: Any, rows: Any) -> None:
    names, lists, expected = model.feature_names, as_json(rows), model.predict(rows).tolist()
    named_rows = [dict(zip(names, values, strict=True)) for values in lists]
    columns = {name: [values[name] for values in named_rows] for name in names}
    logged = [{"query": "q", "doc_id": i, **values} for i, values in enumerate(named_rows)]
    for body in ({"rows": lists}, {"rows": named_rows}, {"columns": columns}, {"logged": logged}):
        for path in ("/score", "/invocations"):
            answer = post(app, body, path)
            assert answer.status == 200, answer.body
            assert answer.json["scores"] == expected
    assert answer.json["documents"] == [str(i) for i in range(len(rows))]
    assert post(app, {"rows": []}).json["scores"] == []


def test_features_that_an_engine_logged(app: Any, model: Any, rows: Any) -> None:
    names = model.feature_names
    hits = [
        {
            "_id": str(i),
            "fields": {
                "_ltrlog": [
                    {
                        "log": [
                            {"name": n, "value": float(v)} if v == v else {"name": n}
                            for n, v in zip(names, row, strict=True)
                        ]
                    }
                ]
            },
        }
        for i, row in enumerate(rows)
    ]
    answer = post(app, {"logged": {"hits": {"hits": hits}}})
    assert answer.json["scores"] == model.predict(rows).tolist()


@pytest.mark.parametrize(
    ("change", "status", "row", "feature"),
    [
        (lambda rows, names: rows[3].update({names[1]: "high"}), 422, 3, 1),
        (lambda rows, names: rows[3].update({names[1]: True}), 422, 3, 1),
        (lambda rows, names: rows[3].update({names[1]: [1]}), 422, 3, 1),
        (lambda rows, names: rows[3].update({names[1]: 1e39}), 422, 3, 1),
        (lambda rows, names: rows[3].pop(names[1]), 422, 3, 1),
        (lambda rows, names: rows[3].update(price=1), 422, 3, "price"),
        (lambda rows, names: rows.__setitem__(3, [1.0]), 422, 3, None),
        (lambda rows, names: rows.__setitem__(3, 7), 422, None, None),
    ],
)
def test_a_refused_row_is_named(
    app: Any, model: Any, rows: Any, change: Any, status: int, row: Any, feature: Any
) -> None:
    names = model.feature_names
    named_rows = [dict(zip(names, values, strict=True)) for values in as_json(rows)]
    change(named_rows, names)
    answer = post(app, {"rows": named_rows})
    assert answer.status == status
    assert answer.json.get("row") == row
    assert answer.json.get("feature") == (names[feature] if feature == 1 else feature)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe\0garbage", 400),
        (b"[" * 100_000, 422),
        (b'{"rows": [[NaN]]}', 400),
        (b'{"rows": [[1' + b"0" * 400 + b"]]}", 422),
        (b'{"rows": [[1' + b"0" * 5000 + b"]]}", 422),
        (b'{"rows": [{"\\ud800": 1}]}', 400),
        (b'{"logged": [{"query": "q", "doc_id": "\\ud800", "1": 1}]}', 400),
        (b"{}", 422),
        (b'{"rows": [], "columns": {}}', 422),
        (b'{"rows": [], "model": "/etc/passwd"}', 422),
        (b'{"rows": [[1, 2]]}', 422),
        (b'{"rows": [[]]}', 422),
        (b'{"rows": [{}]}', 422),
        (b'{"columns": {}}', 422),
        (b'{"logged": 7}', 422),
        (b'{"logged": [{"query": "q", "doc_id": "a", "other": 1}]}', 422),
        (b'{"rows": [], "qid": [1]}', 422),
    ],
)
def test_garbage_has_a_status(app: Any, body: bytes, status: int) -> None:
    answer = post(app, body)
    assert answer.status == status
    assert answer.json["error"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"rows": [{"1": 1, "1": 2}]}',
        b'{"rows": [], "rows": []}',
        b'{"columns": {"1": [], "2": [], "1": []}}',
        b'{"logged": [{"query": "q", "doc_id": "a", "1": 1, "1": 2}]}',
        b'{"rows": [], "qid": ["a:b"], "rows": []}',
    ],
)
def test_a_key_twice_is_refused(app: Any, body: bytes) -> None:
    answer = post(app, body)
    assert answer.status == 400
    assert "twice" in answer.json["error"]


def test_colons_in_text_are_no_keys(app: Any, rows: Any) -> None:
    lists = as_json(rows)
    answer = post(app, {"rows": lists, "qid": ['a": 1, "a'] * len(lists)})
    assert answer.json["scores"] == post(app, {"rows": lists}).json["scores"]


def test_a_long_name_is_not_sent_back(app: Any) -> None:
    answer = post(app, {"rows": [{"a" * 100_000: 1}]})
    assert answer.status == 422
    assert len(answer.body) < 1000


def test_deep_nesting_is_refused(app: Any) -> None:
    """By the parser or by what reads logs, which depends on the version of Python."""
    body = b'{"logged": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert post(app, body).status in (400, 422)


def test_other_media_are_refused(app: Any) -> None:
    assert post(app, b"\xff").status == 400
    csv = post(app, b"1,2\n", content_type="text/csv")
    assert (csv.status, csv.json["error"]) == (
        415,
        "Content-Type 'text/csv': send application/json",
    )
    assert post(app, b"{}", content_type="application/x-python-pickle").status == 415
    assert post(app, b"{}", content_encoding="gzip").status == 422


def test_paths_say_what_is_served(app: Any, model: Any, rows: Any) -> None:
    post(app, {"rows": as_json(rows)})
    assert get(app, "/ping").status == 200
    health, about = get(app, "/health").json, get(app, "/model").json
    assert health["status"] == "ok"
    assert health["version"] == about["version"]
    assert about["features"] == list(model.feature_names)
    assert about["objective"] == "listnet"
    text = get(app, "/metrics").body.decode()
    assert 'boostrank_requests_total{path="/score",status="200"}' in text
    assert 'boostrank_request_seconds_bucket{le="0.001",path="/score"}' in text
    assert get(app, "/score").status == 405
    assert get(app, "/other").status == 404


def test_columns_within_queries_need_the_queries(tmp_path: Path, rows: Any) -> None:
    model = train(tmp_path / "m.txt", within_query="rank")
    app, lists = serving.make_app(tmp_path / "m.txt"), as_json(rows)
    qid = ["a"] * 15 + ["b"] * 25
    expected = model.predict(rows, qid=[0] * 15 + [1] * 25).tolist()
    assert post(app, {"rows": lists, "qid": qid}).json["scores"] == expected
    alone = model.predict(rows, qid=[0] * 40).tolist()
    assert post(app, {"rows": lists}).json["scores"] == alone
    assert alone != expected
    order = np.arange(40)[::-1]
    scattered = [qid[i] for i in np.argsort(order % 7, kind="stable")]
    answer = post(
        app, {"rows": [lists[i] for i in np.argsort(order % 7, kind="stable")], "qid": scattered}
    )
    assert answer.json["scores"] == [expected[i] for i in np.argsort(order % 7, kind="stable")]
    assert get(app, "/model").json["needs_whole_queries"] is True


def test_categories_are_names_or_codes(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"colour": pd.Categorical(rng.choice(["red", "blue"], 200)), "x": rng.normal(size=200)}
    )
    labels = (frame["colour"] == "red").astype(int) + (frame["x"] > 0)
    data = boostrank.RankingDataset.from_arrays(frame, labels, group=[10] * 20)
    model = boostrank.train(PARAMS, data, 3)
    model.save(tmp_path / "m.txt")
    app = serving.make_app(tmp_path / "m.txt")
    answer = post(app, {"rows": frame.to_dict("records")})
    assert answer.json["scores"] == model.predict(frame).tolist()
    green = post(app, {"rows": [{"colour": "green", "x": 0}, {"colour": None, "x": 0}]}).json
    assert green["unknown_categories"] == {"colour": 1}
    assert green["scores"][0] == green["scores"][1]
    assert post(app, {"rows": [{"colour": 1, "x": 0}]}).json["feature"] == "colour"
    lists = frame.astype(object).to_numpy().tolist()
    assert post(app, {"rows": lists}).json["scores"] == answer.json["scores"]
    assert post(app, {"rows": [["red", 0.5], [1, 0.5]]}).json["row"] == 1


def test_categories_that_are_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"shop": pd.Categorical(rng.choice([0, 7], 200)), "x": rng.normal(size=200)}
    )
    labels = (frame["shop"] == 0).astype(int) + (frame["x"] > 0)
    data = boostrank.RankingDataset.from_arrays(frame, labels, group=[10] * 20)
    model = boostrank.train(PARAMS, data, 3)
    model.save(tmp_path / "m.txt")
    app = serving.make_app(tmp_path / "m.txt")
    answer = post(app, {"rows": frame.astype(float).to_dict("records")})
    assert answer.json["scores"] == model.predict(frame).tolist()
    assert "unknown_categories" not in answer.json
